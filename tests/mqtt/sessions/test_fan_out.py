"""Publications handled together arrive as if published one by one."""

from __future__ import annotations

from random import Random

import pytest

from shoal.matching import index
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import (
    Connect,
    Packet,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.connection import session_writer
from shoal.mqtt.sessions import fan_out
from tests.examples import examples
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.network_broker_api import Network

SEEDS = range(examples(40))
TOPICS = ("a", "a/b", "b", "a/b/c")
FILTERS = (
    "a", "#", "a/#", "+", "a/b?n>3", "a/#?n<5", "a?kind=x", "#?kind=y&n>1", "$share/g/a/#",
    "$share/g/a", "$share/h/a/#?n>2", "b",
)  # fmt: skip
CONTENT_FILTERS = (None, "n > 2", "kind = 'x' OR n < 3", "kind IS NULL")


def random_client(broker_api: BrokerApi, name: str, chance: Random, window: int | None) -> Client:
    version = chance.choice((4, 5))
    properties = NO_PROPERTIES
    if version == 5:
        properties = Properties(
            topic_alias_maximum=chance.choice((None, None, 2)),
            maximum_packet_size=chance.choice((None, None, 40)),
            session_expiry_interval_s=1_000,
            receive_maximum=chance.choice((None, window)),
        )
    client = broker_api.connect(name, version, clean_start=False, properties=properties)
    for _ in range(chance.randrange(1, 4)):
        client.send(
            random_subscribe(chance, version, with_groups=broker_api.clients.front_end is None)
        )
    return client


def random_subscribe(chance: Random, version: int, *, with_groups: bool = True) -> Subscribe:
    # In a network a message for a group does not go through the machine with the others.
    filters = [each for each in FILTERS if with_groups or not each.startswith("$share")]
    topic_filter = chance.choice(filters)
    properties = NO_PROPERTIES
    is_5 = version == 5
    if is_5:
        where = chance.choice(CONTENT_FILTERS)
        properties = Properties(
            user_properties=(("$where", where),) if where else (),
            subscription_identifiers=(chance.randrange(1, 99),) if chance.random() < 0.3 else (),
        )
    request = SubscriptionRequest(
        topic_filter,
        chance.randrange(3),
        no_local=is_5 and chance.random() < 0.2 and not topic_filter.startswith("$share"),
        retain_as_published=is_5 and chance.random() < 0.3,
    )
    return Subscribe(1, (request,), properties)


def random_packets(chance: Random, first_id: int, *, with_subscribes: bool) -> list[Packet]:
    packets: list[Packet] = []
    for number in range(chance.randrange(1, 12)):
        if chance.random() < 0.1 and with_subscribes:
            packets.append(random_subscribe(chance, 5))
            continue
        user = [("n", str(chance.randrange(8)))] if chance.random() < 0.7 else []
        user += [("kind", chance.choice("xy"))] if chance.random() < 0.5 else []
        properties = Properties(
            user_properties=tuple(user),
            message_expiry_interval_s=chance.choice((None, None, 7)),
        )
        qos = chance.choice((0, 0, 0, 0, 1))
        packets.append(
            Publish(
                chance.choice(TOPICS),
                f"{first_id} {number}".encode() + b"." * chance.choice((0, 50)),
                qos,
                chance.random() < 0.1,
                packet_id=first_id + number if qos else 0,
                properties=properties,
            )
        )
    return packets


def play(
    broker_api: BrokerApi, seed: int, *, together: bool, window: int | None = 1
) -> list[bytes]:
    """All packets to each client; no client acknowledges, so that windows stay full.

    All clients have a publication before another client publishes, reads or disconnects.
    """
    chance = Random(seed)
    clients = [random_client(broker_api, f"c{number}", chance, window) for number in range(6)]
    writers = [broker_api.connect(f"w{number}") for number in range(2)]
    last = None
    for turn in range(25):
        writer = chance.choice(writers)
        if writer is not last:
            broker_api.after(1)
        last = writer
        # In a network a subscription may be granted before earlier publications come back.
        with_subscribes = broker_api.clients.front_end is None
        packets = random_packets(chance, turn * 20 + 1, with_subscribes=with_subscribes)
        if chance.random() < 0.2:
            broker_api.after(1)
            chance.choice(clients).connection.pause()
        if chance.random() < 0.2:
            broker_api.after(1)
            for each in clients:
                if not each.closed:
                    broker_api.carry_out(each.connection.resume(broker_api.now_us))
        if chance.random() < 0.1:
            broker_api.after(1)
            chance.choice(clients).lose()
        pieces = [encode(packet, 5) for packet in packets]
        for piece in [b"".join(pieces)] if together else pieces:
            broker_api.carry_out(writer.connection.receive(piece, broker_api.now_us))
        broker_api.after(0)  # what was too much at once is written
    return [client.written for client in (*clients, *writers)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_equals_publications_one_by_one(seed: int) -> None:
    """Random subscriptions, options and limits, slow and disconnected clients."""
    one_by_one = play(BrokerApi(), seed, together=False)
    assert any(len(written) > 100 for written in one_by_one)
    assert play(BrokerApi(), seed, together=True) == one_by_one


@pytest.mark.parametrize("seed", range(examples(10)))
def test_a_batch_equals_publications_one_by_one_in_a_network(seed: int) -> None:
    one_by_one = play(Network("B1", "B2")["B1"], seed, together=False)
    assert play(Network("B1", "B2")["B1"], seed, together=True) == one_by_one


def test_a_batch_above_the_bound_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = play(BrokerApi(), 1, together=True)
    monkeypatch.setattr(fan_out, "MAX_GATHERED_BYTES", 3 * fan_out.ENTRY_BYTES)
    assert play(BrokerApi(), 1, together=True) == whole
    monkeypatch.setattr(fan_out, "MAX_GATHERED_BYTES", 5)
    assert play(BrokerApi(), 1, together=True) == whole


def test_publications_before_an_error_are_delivered() -> None:
    broker_api = BrokerApi()
    writer = broker_api.connect("w")
    writer.subscribe("a")
    reader = broker_api.connect("r")
    reader.subscribe("a")
    good, bad = encode(Publish("a", b"1"), 5), encode(Connect("again"), 5)
    broker_api.carry_out(writer.connection.receive(good + good + bad, broker_api.now_us))
    assert writer.closed
    assert [packet.payload for packet in reader.take()] == [b"1", b"1"]
    assert [type(packet).__name__ for packet in writer.take()] == [
        "Publish", "Publish", "Disconnect",
    ]  # fmt: skip


def test_a_batch_uses_compiled_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many filters without an index: a run of messages is matched as a batch."""
    monkeypatch.setattr(index, "TESTS_MAXIMUM", -1)
    for seed in range(3):
        one_by_one = play(BrokerApi(), seed, together=False)
        assert play(BrokerApi(), seed, together=True) == one_by_one


def test_writes_above_the_bound_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting packets come in order, though behind answers."""
    for seed in range(5):
        monkeypatch.undo()
        whole = play(BrokerApi(), seed, together=False, window=None)
        monkeypatch.setattr(session_writer, "MAX_GATHERED_BYTES", 150)
        for together in (True, False):
            assert play(BrokerApi(), seed, together=together, window=None)[:6] == whole[:6]


def test_a_batch_for_one_client_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_writer, "MAX_GATHERED_BYTES", 150)
    way_out = BrokerApi().connect("r").connection.session_writer
    assert way_out.send_many([b"x" * 100, b"y"], [0, 1])
    assert not way_out.send_many([b"z" * 50], [0])
    assert way_out.take() == b"x" * 100 + b"y"
