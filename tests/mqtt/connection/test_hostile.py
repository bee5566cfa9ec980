"""Any input of one client takes bounded work; `tests/live/hostile` measures times."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from shoal import language
from shoal.broker.effects import Received
from shoal.broker.wire import COMMON, Codec, FrameReader
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.runtime.front_ends.reading import PIECE_BYTES
from tests.calls import Calls
from tests.examples import one_form, one_in
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.hostile import Hostile, filters, floods, hostile_inputs
from tests.mqtt.network_broker_api import Network

# Calls of functions, written in Python or not: on an idle machine some 5,000,000 a second.
MOST_CALLS = 600_000
MOST_CALLS_OF_A_PACKET = 400_000
# Bound for a message between brokers, of which one slice may handle several.
MOST_CALLS_OF_A_MESSAGE = 250_000
# The work within one call is measured by the clock: seconds of this process, with a margin for the
# machine's load.
MOST_S = 1.0

FILTERS_OF_ONE_PACKET = 200_000
INPUTS = [
    pytest.param(each, id=each.name, marks=[pytest.mark.soak] if each.is_long else [])
    for each in hostile_inputs()
]


def kind_of(name: str) -> str:
    """The kind of a hostile input; a malformed packet of any type has the type's."""
    if found := re.match("a packet of type [0-9]+", name):
        return found[0]
    return re.sub(" in front|, (again and again|20 topic filters|queries|by a stranger)$", "", name)


# As brokers do when they start.
language.prepare()
KEPT = Properties(session_expiry_interval_s=1_000)


def turns(broker_api: BrokerApi, client: Client, data: bytes) -> Iterator[int]:
    """Let bytes of a client be handled; the function calls of each time slice."""
    connection = client.connection
    with Calls() as calls:
        broker_api.carry_out(connection.receive(data, broker_api.now_us))
    yield calls.count
    while connection.holds and not connection.must_wait:
        with Calls() as calls:
            broker_api.carry_out(connection.take_held(broker_api.now_us))
        yield calls.count
        # Due timers fire in between.
        while (due_us := broker_api.clients.deadline_us) is not None and due_us < broker_api.now_us:
            with Calls() as calls:
                broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
            yield calls.count


def is_answered(client: Client) -> bool:
    """Whether an answer has come since the last call, or the connection is closed."""
    if client.is_listening:
        return bool(client.take()) or client.closed
    written, client.written = client.written, b""
    return len(written) > FILTERS_OF_ONE_PACKET  # a code for each


@pytest.mark.parametrize("hostile", one_form(kind_of, INPUTS))
def test_every_packet_takes_bounded_work(hostile: Hostile) -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c") if hostile.is_connected else broker_api.open()
    # Reading such an answer is work, too, but not the broker's.
    client.is_listening = not hostile.is_long
    for packet in hostile.packets:
        started_s = time.process_time()
        for calls in turns(broker_api, client, packet):
            assert calls < MOST_CALLS_OF_A_PACKET
            assert time.process_time() - started_s < MOST_S
            started_s = time.process_time()
        # Answered, or closed: nothing is ignored because it is large.
        assert is_answered(client)


@pytest.mark.parametrize(
    "hostile",
    one_form(
        kind_of,
        [
            each
            for each in INPUTS
            if isinstance(hostile := each.values[0], Hostile)
            if hostile.is_connected or hostile.name.startswith("CONNECT")
            if hostile.is_read
        ],
        2,
    ),
)
def test_every_packet_takes_bounded_work_in_a_network(hostile: Hostile) -> None:
    """Nor do the messages that one broker sends the other because of it; links have time slices,
    too.

    For example, a `$where` filter counts once, not with each of 20 topic filters.
    """
    network = Network("B1", "B2")
    network.after(1)
    network.is_slow = True
    broker_api, neighbour = network["B1"], network["B2"]
    client = broker_api.connect("c") if hostile.is_connected else broker_api.open()
    # Reading such an answer is work, too, but not the broker's.
    client.is_listening = not hostile.is_long
    codec = Codec(COMMON)
    for packet in hostile.packets:
        assert max(turns(broker_api, client, packet)) < MOST_CALLS_OF_A_PACKET
        assert is_answered(client)
        link = network.links["B1", "B2"]
        while link:
            frame = codec.encode(link.popleft())
            with Calls() as calls:
                [body] = FrameReader().feed(frame)
                neighbour.handle(Received("B1", codec.decode(body)))
            assert calls.count < MOST_CALLS_OF_A_MESSAGE
        network.settle()


@pytest.mark.parametrize("is_networked", [False, True])
@pytest.mark.parametrize("flood", one_in(3, [pytest.param(each, id=each[0]) for each in floods()]))
def test_every_read_takes_bounded_work(flood: tuple[str, bytes], is_networked: bool) -> None:
    """Small SUBSCRIBEs of one read share a time slice."""
    broker_api = BrokerApi()
    if is_networked:
        network = Network("B1", "B2")
        network.is_slow = True  # the other broker's work does not count
        broker_api = network["B1"]
    broker_api.after(1)
    client = broker_api.connect("c")
    client.is_listening = False
    for number, calls in enumerate(turns(broker_api, client, flood[1][:PIECE_BYTES])):
        assert calls < MOST_CALLS
        assert number < 1_000
    assert client.connection.wants_reading


@pytest.mark.parametrize("is_networked", [False, True])
def test_a_slice_takes_fewer_publications_in_a_network(
    is_networked: bool,
) -> None:
    """2,000 publications for other brokers take 60 ms, and as long again in the same round.

    Retained messages go to every other broker.
    """
    broker_api = BrokerApi()
    if is_networked:
        network = Network("B1", "B2")
        network.after(1)
        network.is_slow = True
        broker_api = network["B1"]
    client = broker_api.connect("c")
    packets = [encode(Publish(f"r/{each}", b"x", retain=True), MQTT_5) for each in range(4_000)]
    found = list(turns(broker_api, client, b"".join(packets)))
    assert max(found) < 300_000
    if is_networked:
        broker_api.after(1)
        assert max(found) < 200_000
    assert broker_api.clients.statistics.publications_received == 4_000


def test_held_packets_are_not_searched_in_each_slice() -> None:
    """A slice in which nothing is handled must not read all held packets."""
    network = Network("B1", "B2")
    network.after(1)
    network.is_slow = True
    broker_api = network["B1"]
    client = broker_api.connect("c")
    broker_api.clients.is_held = True
    packet = encode(Publish("a", b""), MQTT_5)
    client.connection.receive(packet * 40_000, broker_api.now_us)
    broker_api.clients.is_held = False
    _, *all_of_it = turns(broker_api, client, b"")
    assert all_of_it[0] == pytest.approx(all_of_it[-2], rel=0.1)
    assert broker_api.clients.statistics.publications_received == 40_000


def test_small_expensive_packets_are_sliced() -> None:
    """A hundred bytes may be 384 tests, so they count by tests."""
    where = dict(filters())["alternatives"]
    asked = Properties(user_properties=(("$where", where),))
    packets = [
        encode(Subscribe(number, (SubscriptionRequest(f"{number}"),), asked), MQTT_5)
        for number in range(1, 61)
    ]
    broker_api = BrokerApi()
    found = list(turns(broker_api, broker_api.connect("c"), b"".join(packets)))
    assert max(found) < MOST_CALLS_OF_A_PACKET
    assert len(found) >= 20


def test_a_client_with_many_subscriptions_ends_in_slices() -> None:
    network = Network("B1", "B2")
    network.after(1)
    broker_api = network["B1"]
    client, other = broker_api.connect("c"), broker_api.connect("o")
    for number in range(3_000):
        client.send(Subscribe(1, (SubscriptionRequest(f"{number}/#"),)))
    other.subscribe("7/#")
    assert broker_api.clients.subscriptions.count == 3_001
    with Calls() as calls:
        client.lose()
    assert calls.count < MOST_CALLS
    other.publish("2999/a", b"x", qos=1)  # for no subscriber
    broker_api.connect("c").subscribe("2999/#")
    while broker_api.clients.subscriptions.count > 2:
        before = broker_api.clients.subscriptions.count
        deadline_us = broker_api.clients.deadline_us
        assert deadline_us is not None
        assert deadline_us <= broker_api.now_us + 10
        broker_api.now_us += 10
        with Calls() as calls:
            broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        assert calls.count < MOST_CALLS
        assert broker_api.clients.subscriptions.count < before
    assert broker_api.clients.backlog.bytes == 0
    assert sorted(each for each, *_ in broker_api.clients.front_end.asking) == ["2999/#", "7/#"]


@pytest.mark.parametrize("is_networked", [False, True])
def test_a_client_in_many_groups_ends_in_slices(is_networked: bool) -> None:
    """Its groups choose another member at once."""
    broker_api = BrokerApi()
    if is_networked:
        network = Network("B1", "B2")
        network.after(1)
        broker_api = network["B1"]
    client, lasting = broker_api.connect("c"), broker_api.connect("l", properties=KEPT)
    for number in range(6_000):
        client.send(Subscribe(1, (SubscriptionRequest(f"$share/g/{number}"),)))
    lasting.subscribe("$share/g/5999", qos=1)
    lasting.lose()
    with Calls() as calls:
        client.lose()
    assert calls.count < MOST_CALLS
    assert broker_api.clients.subscriptions.count > 5_000
    publisher = broker_api.connect("p")
    for _ in range(3):
        publisher.publish("5999", b"x", qos=1)
    while broker_api.clients.subscriptions.count > 1:
        before = broker_api.clients.subscriptions.count
        deadline_us = broker_api.clients.deadline_us
        assert deadline_us is not None
        assert deadline_us <= broker_api.now_us + 10
        broker_api.now_us += 10
        with Calls() as calls:
            broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        assert calls.count < MOST_CALLS
        assert broker_api.clients.subscriptions.count < before
    again = broker_api.connect("l", clean_start=False, properties=KEPT)
    assert again.take_payloads() == [b"x"] * 3


def test_joining_a_large_group_reads_no_other_member() -> None:
    """The first or last member of a large group must not reindex the others."""
    broker_api = BrokerApi()
    for number in range(500):
        member = broker_api.connect(f"m{number}", properties=KEPT)
        member.subscribe("$share/g/a", qos=1)
        member.lose()
    with Calls() as calls:
        broker_api.connect("m0", clean_start=False, properties=KEPT).lose()
    assert calls.count < 2_000


def test_a_ping_behind_a_sliced_request_is_answered() -> None:
    """The ping must not be handled again and again until the connection is closed."""
    broker_api = BrokerApi()
    client = broker_api.connect("c")
    where = dict(filters())["alternatives"]
    asked = Properties(user_properties=(("$where", where),))
    texts = tuple(SubscriptionRequest(f"{number}") for number in range(3))
    packets = [encode(Subscribe(number, texts, asked), MQTT_5) for number in range(1, 21)]
    broker_api.carry_out(client.connection.receive(b"".join(packets), broker_api.now_us))
    assert client.connection.holds
    broker_api.carry_out(client.connection.receive(b"\xc0\0\xc0\0", broker_api.now_us))
    assert not client.closed
    assert sum(type(each) is Pingresp for each in client.take()) == 2
    while client.connection.holds:
        broker_api.carry_out(client.connection.take_held(broker_api.now_us))
    assert [each.packet_id for each in client.take() if type(each) is Suback][-1] == 20


def test_sessions_that_expire_together_end_a_few_at_a_time() -> None:
    """3,000 at once would take 0.2 s, and their wills as long again."""
    broker_api = BrokerApi()
    kept = Properties(session_expiry_interval_s=5)
    for number in range(500):
        client = broker_api.connect(f"c{number}", properties=kept)
        client.subscribe(f"{number}/#")
        client.lose()
    broker_api.now_us += 6_000_000
    rounds = 0
    while (
        broker_api.clients.deadline_us is not None
        and broker_api.clients.deadline_us <= broker_api.now_us
    ):
        before = len(broker_api.clients.sessions)
        broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        assert before - len(broker_api.clients.sessions) <= 100
        rounds += 1
    assert len(broker_api.clients.sessions) == broker_api.clients.subscriptions.count == 0
    assert rounds < 50


@pytest.mark.parametrize("is_networked", [False, True])
def test_a_client_in_many_groups_connects_and_disconnects_in_slices(is_networked: bool) -> None:
    """A member of 60,000 groups would occupy the broker for half a second at each connection."""
    broker_api = BrokerApi()
    if is_networked:
        network = Network("B1", "B2")
        network.after(1)
        broker_api = network["B1"]
    client = broker_api.connect("c", properties=KEPT)
    for number in range(3_000):
        client.send(Subscribe(1, (SubscriptionRequest(f"$share/g/{number}", qos=1),)))
    other = broker_api.connect("o", properties=KEPT)
    other.subscribe("$share/g/2999", qos=1)
    with Calls() as lost:
        client.lose()
    assert lost.count < 20_000
    broker_api.after(1)
    publisher = broker_api.connect("p")
    for _ in range(2):
        publisher.publish("2999", b"for who is here", qos=1)
    broker_api.after(1)
    assert len(other.take_payloads()) == 2
    with Calls() as back:
        client = broker_api.connect("c", clean_start=False, properties=KEPT)
    assert back.count < 20_000
    broker_api.after(1)
    other.lose()
    broker_api.after(1)
    publisher.publish("2999", b"for who is here", qos=1)
    broker_api.after(1)
    assert client.take_payloads() == [b"for who is here"]


def test_subscriptions_without_matching_retained_messages_are_sliced() -> None:
    """200 in a read, each against 20,000 topics, would take 0.4 s."""
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    for number in range(3_000):
        publisher.publish(f"kept/{number}/a", b"x", retain=True)
    client = broker_api.connect("c")
    asked = Subscribe(1, tuple(SubscriptionRequest(f"kept/+/{each}") for each in range(100)))
    calls = list(turns(broker_api, client, encode(asked, MQTT_5)))
    assert max(calls) < 50_000
    found = client.take()
    rounds = 0
    while (
        broker_api.clients.deadline_us is not None
        and broker_api.clients.deadline_us <= broker_api.now_us
    ):
        with Calls() as more:
            broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        assert more.count < 50_000
        rounds += 1
    assert rounds >= 20
    client.subscribe("kept/+/a")
    broker_api.after(1)
    assert len(client.take_payloads()) == 3_000
    assert [type(each) for each in found] == [Suback]
