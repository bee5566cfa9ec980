"""A fan-out in time slices equals one at once."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
    WillFields,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions.sliced_fan_out import MOST_AT_ONCE
from tests.examples import at_length, examples
from tests.mqtt import network_broker_api
from tests.mqtt.broker_api import KEPT, BrokerApi, Client
from tests.mqtt.network_broker_api import Network, Site
from tests.mqtt.remembering import RememberingBrokerApi
from tests.mqtt.sessions.slices import finish, go_on, payloads, small, turn
from tests.mqtt.sessions.test_fan_out import play

MANY = MOST_AT_ONCE + 1_000
FEW = 5


def crowd(
    broker_api: BrokerApi, count: int, topic: str = "a", qos: int = 0, **how: object
) -> list[Client]:
    clients = [broker_api.connect(f"c{number}", **how) for number in range(count)]
    for client in clients:
        client.subscribe(topic, qos=qos)
    return clients


# --- one slice is bounded -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qos", "topic"),
    [
        (0, "a"),
        (0, "$share/g/a"),
        (1, "a?x>0"),
        *at_length([(1, "a"), (1, "$share/g/a"), (0, "a?x>0")]),
    ],
)
def test_a_slice_delivers_to_a_bounded_number_of_clients(qos: int, topic: str) -> None:
    """A client that pings meanwhile is answered in the next slice."""
    broker_api = BrokerApi()
    # A group has one member each.
    topics = [topic.replace("/g/", f"/g{number}/") for number in range(MANY)]
    clients = [broker_api.connect(f"c{number}") for number in range(MANY)]
    for client, each in zip(clients, topics, strict=True):
        client.subscribe(each, qos=qos)
    writer = broker_api.connect("w")
    said = Properties(user_properties=(("x", "1"),))
    writer.send(Publish("a", b"x", qos, packet_id=qos, properties=said))
    got = [payloads(client) for client in clients]
    assert sum(map(len, got)) <= MOST_AT_ONCE
    turns = 0
    while broker_api.clients.spreading.is_on:
        writer.send(Pingreq())
        assert writer.take() == [Pingresp()]
        turn(broker_api)
        more = [payloads(client) for client in clients]
        assert sum(map(len, more)) <= MOST_AT_ONCE
        got = [before + after for before, after in zip(got, more, strict=True)]
        turns += 1
    assert turns >= 2
    assert got == [[b"x"]] * MANY
    assert [type(each) for each in writer.take()] == [Puback] * qos


def test_many_publications_of_one_read_keep_their_order() -> None:
    """Publications of one read: each client gets them in order."""
    broker_api = BrokerApi()
    clients = crowd(broker_api, MANY)
    writer = broker_api.connect("w")
    writer.send(Publish("a", b"1"), Publish("a", b"2"))
    assert sum(len(payloads(client)) for client in clients[MOST_AT_ONCE:]) == 0
    writer.send(
        Publish("a", b"3"),
        Subscribe(1, (SubscriptionRequest("a"),)),
        Publish("a", b"4"),
    )
    finish(broker_api, writer)
    assert [payloads(each) for each in clients[MOST_AT_ONCE:]] == [[b"1", b"2", b"3", b"4"]] * 1_000
    assert payloads(writer) == [b"4"]


# --- equal to a fan-out at once -----------------------------------------------------------------


class SlicedApi(BrokerApi):
    """Hands out in slices, between which clients act; no time passes."""

    chance = Random(0)
    turns = 0

    def after(self, seconds: float) -> None:
        self.clients.spreading.most = self.chance.choice((1, 1, 2, 3))
        some = self.chance.randrange(4) if seconds == 0 else 1_000
        while some and self.clients.spreading.is_on:
            some -= 1
            self.turns += 1
            turn(self)
            for client in list(self._ends.values()):
                go_on(client)
        if not self.clients.spreading.is_on:
            super().after(seconds)


def bit_by_bit(broker_api: BrokerApi, seed: int) -> None:
    """The search for receivers takes slices, too; in some runs even one topic filter counts as
    many.
    """
    subscriptions = broker_api.clients.subscriptions
    if seed % 3:
        subscriptions.quick = 0
    if seed % 3 == 1:
        subscriptions.most_filters = 0


def same(broker_api: BrokerApi, at_once: list[bytes]) -> bool:
    """Whether readers were sent the same. A publisher is answered when all have its message, so
    only the order of its own messages and of its answers counts. The code for "no matching
    subscribers" is not compared, as it may not be known yet.
    """
    is_known = broker_api.clients.subscriptions.quick > 0

    def of(written: bytes) -> list[list[object]]:
        packets = Decoder(MQTT_5).feed(written)
        if not is_known:
            packets = [
                Puback(each.packet_id) if isinstance(each, Puback) else each for each in packets
            ]
        are_own = [isinstance(each, Publish) for each in packets]
        return [[each for each, is_own in zip(packets, are_own, strict=True) if is_own is kind]
                for kind in (True, False)]  # fmt: skip

    written = [client.written for client in broker_api._ends.values()]
    writers = zip(written[6:], at_once[6:], strict=True)
    return written[:6] == at_once[:6] and all(of(one) == of(other) for one, other in writers)


class SlicedSite(SlicedApi, Site):
    """The same in a network."""


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_sliced_fan_out_equals_one_at_once(seed: int) -> None:
    """Random subscriptions and options, slow and disconnected clients, groups."""
    at_once = play(BrokerApi(), seed, together=False)
    broker_api = SlicedApi()
    broker_api.chance, broker_api.clients.spreading.most = Random(seed), 1
    bit_by_bit(broker_api, seed)
    play(broker_api, seed, together=bool(seed % 2))
    broker_api.after(1)
    assert broker_api.turns > 20
    assert same(broker_api, at_once)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_a_sliced_fan_out_equals_one_at_once_in_a_network(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later deliveries of the machine wait."""
    at_once = play(Network("B1", "B2")["B1"], seed, together=False)
    monkeypatch.setattr(network_broker_api, "Site", SlicedSite)
    site = Network("B1", "B2")["B1"]
    assert isinstance(site, SlicedSite)
    site.chance, site.clients.spreading.most = Random(seed), 1
    bit_by_bit(site, seed)
    play(site, seed, together=bool(seed % 2))
    site.after(1)
    assert site.turns > 20
    assert same(site, at_once)


# --- changes meanwhile --------------------------------------------------------------------------


def test_requests_meanwhile_take_effect_after_the_fan_out() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW, qos=1)
    writer, late = broker_api.connect("w"), broker_api.connect("late")
    writer.send(Publish("a", b"1", 1, packet_id=1))
    late.send(Subscribe(1, (SubscriptionRequest("a"),)))
    clients[3].send(Publish("a", b"2"))
    finish(broker_api, *clients, late)
    assert [payloads(each) for each in clients] == [[b"1", b"2"]] * FEW
    assert payloads(late) in ([b"2"], [])


def test_a_session_that_ends_meanwhile_gets_nothing() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW, qos=1)
    writer = broker_api.connect("w")
    writer.send(Publish("a", b"1", 1, packet_id=1))
    turn(broker_api)
    clients[3].lose()
    again = broker_api.open()
    again.send(Connect("c4"))
    finish(broker_api)
    assert clients[4].closed
    assert payloads(clients[2]) == [b"1"]
    assert payloads(again) == []
    for client in clients[:3]:
        client.send(Puback(1))
    assert broker_api.clients.backlog.bytes == 0


def test_a_client_disconnected_meanwhile_finds_the_message_queued() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW, qos=1, **KEPT)
    broker_api.connect("w").send(Publish("a", b"1", 1, packet_id=1))
    turn(broker_api)
    clients[3].lose()
    turn(broker_api)
    finish(broker_api)
    assert payloads(broker_api.connect("c3", **KEPT)) == [b"1"]


def test_another_member_replaces_one_that_goes_meanwhile() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW, qos=1)
    members = [broker_api.connect(f"m{number}") for number in range(2)]
    for member in members:
        member.subscribe("$share/g/a", qos=1)
    broker_api.connect("w").send(Publish("a", b"1", 1, packet_id=1))
    members[0].lose()
    finish(broker_api)
    assert payloads(members[1]) == [b"1"]
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


def test_a_will_follows_the_fan_out() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW, qos=1)
    writer = broker_api.connect("w", will=WillFields("a", b"2", 1))
    writer.send(Publish("a", b"1", 1, packet_id=1))
    turn(broker_api)
    writer.lose()
    finish(broker_api)
    assert [payloads(each) for each in clients] == [[b"1", b"2"]] * FEW


def test_a_broker_that_shuts_down_completes_the_fan_out() -> None:
    broker_api = small(BrokerApi(), 1)
    clients = crowd(broker_api, FEW)
    broker_api.connect("w").send(Publish("a", b"1"))
    broker_api.carry_out(broker_api.clients.shut_down(broker_api.now_us))
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


def test_the_acknowledgement_comes_after_the_last_delivery() -> None:
    broker_api = small(BrokerApi(), 2)
    clients = crowd(broker_api, FEW, qos=2)
    writer = broker_api.connect("w")
    writer.send(Publish("a", b"1", 2, packet_id=7))
    while not writer.take():
        assert broker_api.clients.spreading.is_on
        turn(broker_api)
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


# --- a killed broker ----------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(FEW + 2))
@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_fan_out_resumed_after_a_kill_delivers_once(turns: int, acknowledged: bool) -> None:
    """The others receive it, whether or not the publisher retransmits it."""
    broker_api = RememberingBrokerApi([])
    small(broker_api, 1)
    clients = crowd(broker_api, FEW, qos=2, **KEPT)
    member = broker_api.connect("m", **KEPT)
    member.subscribe("$share/g/a", qos=2)
    member.subscribe("$share/h/a", qos=2)
    writer = broker_api.connect("w", **KEPT)
    writer.send(Publish("a", b"1", 2, packet_id=7))
    got: dict[str, list[bytes]] = defaultdict(list)

    def take(name: str, client: Client) -> None:
        found = [each for each in client.take() if isinstance(each, Publish)]
        got[name] += [each.payload for each in found if not each.duplicate]
        if acknowledged:
            for each in found:
                client.send(Pubrec(each.packet_id), Pubrel(each.packet_id))

    for _ in range(turns):
        if broker_api.clients.spreading.is_on:
            turn(broker_api)
        for number, client in enumerate(clients):
            take(f"c{number}", client)
        take("m", member)
    broker_api = broker_api.killed()
    small(broker_api, 1)
    if broker_api.clients.spreading.is_on:
        turn(broker_api)
        broker_api = broker_api.killed()
    broker_api.after(1)
    again = broker_api.connect("w", **KEPT)
    again.send(Publish("a", b"1", 2, True, packet_id=7))
    finish(broker_api, again)
    for number in range(FEW):
        client = broker_api.connect(f"c{number}", **KEPT)
        take(f"c{number}", client)
    take("m", broker_api.connect("m", **KEPT))
    assert got == {**{f"c{number}": [b"1"] for number in range(FEW)}, "m": [b"1", b"1"]}


def test_a_fan_out_is_recorded_once_and_dropped_at_its_end() -> None:
    broker_api = RememberingBrokerApi([])
    small(broker_api, 1)
    crowd(broker_api, FEW, qos=1, properties=Properties(session_expiry_interval_s=100))
    broker_api.connect("w").send(Publish("a", b"1", 1, packet_id=7))
    finish(broker_api)
    assert not broker_api.killed().clients.spreading.is_on
