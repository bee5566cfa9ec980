"""MQTT clients of several brokers in a tree, as if it were one broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.broker.effects import Requested
from shoal.broker.messages import Publish as PublishRequest
from shoal.broker.messages import Subscribe as Ask
from shoal.broker.wire import COMMON, Codec
from shoal.language import parse
from shoal.matching import matches, topic_matches
from shoal.model import EVERYTHING, MAX_CONJUNCTIONS, Publication, check_attributes
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import attributes_of
from shoal.mqtt.front_end.network import (
    MAX_BATCH,
    MAX_RECENT_BYTES,
    FrontEnd,
    network_filter,
    read_body,
    read_publication,
    travels_in,
    write_body,
)
from shoal.mqtt.messages import PublishedMessage
from tests.mqtt.broker_api import Client, will
from tests.mqtt.network_broker_api import Network

JSON = Properties(content_type="application/json")


@pytest.fixture
def network() -> Network:
    return Network("B1", "B2", "B3")


def connected(network: Network, *names: str) -> list[Client]:
    return [network[name].connect(f"client of {name}") for name in names]


@pytest.mark.parametrize(
    "packet",
    [
        Publish("a", b"x" * 3_000_000, 2, packet_id=1),
        Publish("/".join("x" * 8_000 for _ in range(8)), b"", 1, True, packet_id=1),
        Publish("a", b'{"x": "%s"}' % (b"x" * 3_000_000), 1, packet_id=1, properties=JSON),
        Publish(
            "a", b'{%s"x":1}' % b"".join(b'"%d":1,' % n for n in range(9_999)), properties=JSON
        ),
        Publish("a", properties=Properties(user_properties=(("n", "x" * 65_535),) * 40)),
        Publish(
            "a", properties=Properties(user_properties=tuple((str(n), "1") for n in range(999)))
        ),
    ],
    ids=["payload", "levels", "field", "fields", "property", "properties"],
)
def test_a_packets_size_between_brokers_is_bounded(packet: Publish) -> None:
    network = Network("B1", "B2", maximum_packet_size=10_000_000, maximum_client_id_bytes=65_535)
    network["B2"].connect("s").subscribe("#")
    network.is_slow = True
    publisher = network["B1"].connect("d" * 65_000)
    publisher.send(packet)
    sent = network.links["B1", "B2"]
    size = len(encode(packet, MQTT_5))
    longest = max(len(Codec(COMMON).encode(message)) for message in sent)
    assert size < longest <= travels_in(size)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publication_reaches_a_subscriber_at_another_broker(network: Network, qos: int) -> None:
    here, there = connected(network, "B1", "B3")
    here.subscribe("flights/+/delays", qos=2)
    properties = Properties(content_type="text/plain", user_properties=(("carrier", "UA"),))
    there.publish("flights/1/delays", b"late", qos=qos, properties=properties)
    there.publish("flights/1/gates", b"C3", qos=qos)
    [packet] = here.take_publications()
    assert (packet.topic, packet.payload, packet.qos) == ("flights/1/delays", b"late", qos)
    assert packet.properties == properties


@pytest.mark.parametrize(("away_s", "left_s"), [(10, [100]), (70, [30]), (110, [])])
def test_the_time_on_a_disk_counts_for_a_messages_expiry(
    network: Network, away_s: int, left_s: list[int]
) -> None:
    """Less than a minute may only be due to different clocks."""
    here, there = connected(network, "B1", "B2")
    here.subscribe("a")
    network.is_slow = True
    there.publish("a", properties=Properties(message_expiry_interval_s=100))
    network["B1"].after(away_s)
    network.settle()
    found = [packet.properties.message_expiry_interval_s for packet in here.take_publications()]
    assert found == left_s


def test_a_client_gets_what_it_and_its_neighbours_publish_at_its_own_broker(
    network: Network,
) -> None:
    client, other = network["B1"].connect("client"), network["B1"].connect("other")
    client.subscribe("a", qos=1)
    client.publish("a", b"mine", qos=1)
    other.publish("a", b"theirs", qos=1)
    assert client.take_payloads() == [b"mine", b"theirs"]


def test_no_local_holds_across_the_network(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    for client in (here, there):
        client.subscribe("a", no_local=True)
    here.publish("a", b"x")
    assert here.take_payloads() == []
    assert there.take_payloads() == [b"x"]


def test_content_is_filtered_where_it_is_published(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    here.subscribe("flights/#?dep_delay>30")
    for delay in ("45", "5"):
        properties = Properties(user_properties=(("dep_delay", delay),))
        there.publish("flights/1", delay.encode(), properties=properties)
    assert here.take_payloads() == [b"45"]


def test_a_retained_message_reaches_a_later_subscriber_elsewhere(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    there.publish("a", b"old", qos=1, retain=True)
    there.publish("a", b"new", qos=1, retain=True)
    there.publish("b", b"x", retain=True)
    here.publish("b", b"", retain=True)
    for name in ("B1", "B2", "B3"):
        late = network[name].connect("late")
        late.subscribe("#", qos=1)
        assert [(each.payload, each.retain) for each in late.take_publications()] == [
            (b"new", True)
        ]


def test_a_retained_message_replaces_one_of_a_broker_whose_clock_is_ahead(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    network["B3"].now_us += 5_000_000
    there.publish("a", b"old", retain=True)
    here.publish("a", b"new", retain=True)
    for name in ("B1", "B2", "B3"):
        [message] = network[name].clients.retained.history()
        assert message.payload == b"new"


def test_a_will_reaches_a_subscriber_elsewhere(network: Network) -> None:
    watcher = network["B1"].connect("watcher")
    watcher.subscribe("wills/#", qos=1)
    network["B3"].connect("c", will=will("wills/c", qos=1)).lose()
    assert watcher.take_payloads() == [b"gone"]


def test_the_statistics_of_a_broker_are_its_own() -> None:
    network = Network("B1", "B2", statistics_interval_s=10)
    client = network["B1"].connect("c")
    client.subscribe("$SYS/broker/clients/connected")
    network["B2"].after(20)
    assert client.take() == []
    network["B1"].after(10)
    assert client.take_payloads() == [b"1", b"1"]


def test_unwanted_publications_are_not_sent(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    other = network["B1"].connect("other")
    for client in (here, other):
        client.subscribe("a")
    here.unsubscribe("a")
    there.publish("a", b"1")
    assert other.take_payloads() == [b"1"]
    other.disconnect()
    there.publish("a", b"2")
    assert here.take() == []
    tables = network["B3"].machine.strategy.tables
    assert [entry.id for entry in tables.subscriptions.values() if "B1" in entry.id] == [
        "$mqtt/B1/brokers"
    ]


def test_a_restarted_broker_repeats_its_subscriptions_identifiers() -> None:
    """Other brokers' rows of its former incarnation mean the same, whatever comes first."""
    wanted = [
        (topics, content)
        for topics in ("#", "+/#", "a")
        for content in (EVERYTHING, parse("x > 1"), parse("x > 2"))
    ]
    lives = []
    for order in (wanted, wanted[::-1]):
        front_end = FrontEnd("B1", 0)
        for topics, content in order:
            front_end.added(topics, content)
        asked = [each.request for each in front_end.take() if isinstance(each.request, Ask)]
        lives.append({each.subscription.id: each.subscription.filter for each in asked})
    assert lives[0] == lives[1]
    assert len(lives[0]) == len(wanted) + 1


def test_order_is_kept_across_the_network(network: Network) -> None:
    here, there = connected(network, "B1", "B3")
    here.subscribe("#", qos=2)
    for number in range(30):
        there.publish("ab"[number % 2], b"%d" % number, qos=number % 3)
    assert here.take_payloads() == [b"%d" % number for number in range(30)]


# --- advertisements -------------------------------------------------------------------------------


def promising(network: Network, *filters: str) -> Client:
    properties = Properties(user_properties=tuple(("$advertise", text) for text in filters))
    return network["B3"].connect("promising", properties=properties)


def test_a_client_that_advertises_publishes_under_its_own_name(network: Network) -> None:
    here = network["B1"].connect("here")
    here.subscribe("#")
    client = promising(network, "carrier = 'UA'", "carrier = 'DL'")
    rows = network["B1"].machine.strategy.tables.advertisements
    assert [id for id in rows if id.startswith("promising")] == ["promising@B3/0", "promising@B3/1"]
    for carrier in ("UA", "DL", "AA"):
        properties = Properties(user_properties=(("carrier", carrier),))
        client.publish("a", carrier.encode(), properties=properties)
    assert here.take_payloads() == [b"UA", b"DL"]
    assert [notice.client for notice in network["B3"].notices] == ["promising"]
    client.disconnect()
    assert [id for id in rows if id.startswith("promising")] == []


def test_an_advertising_clients_will_is_published(network: Network) -> None:
    here = network["B1"].connect("here")
    here.subscribe("#")
    properties = Properties(user_properties=(("$advertise", "carrier = 'UA'"),))
    network["B3"].connect("c", will=will("w"), properties=properties).lose()
    assert here.take_payloads() == [b"gone"]


def test_an_advertisement_that_does_not_parse_is_refused(network: Network) -> None:
    client = network["B1"].open()
    properties = Properties(user_properties=(("$advertise", "carrier ="),))
    client.send(Connect("c", properties=properties))
    [connack] = client.take()
    assert connack.reason_code is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert connack.properties.reason_string.startswith("$advertise: line 1, column 10")
    assert client.closed


# --- filters of topics ----------------------------------------------------------------------------

LEVELS = st.sampled_from(["a", "b", "", "$x"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=11).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]) or "#",
    st.lists(st.sampled_from(["a", "b", "", "+"]), max_size=10),
    st.sampled_from([[], ["#"]]),
)


@given(FILTERS, TOPICS, st.booleans())
def test_a_network_filter_matches_all_that_the_topic_filter_does(
    topic_filter: str, topic: str, retain: bool
) -> None:
    """And no others, except deep topics and those that begin with $."""
    filter = network_filter(topic_filter, EVERYTHING)
    attributes = attributes_of(PublishedMessage(topic, b"", "p", 0, retain=retain))
    found = matches(filter, attributes)
    if topic_matches(topic_filter, topic):
        assert found
    elif topic.count("/") < 8 and not topic.startswith("$"):
        assert not found


def test_a_content_filter_is_part_of_the_network_filter() -> None:
    filter = network_filter("a", parse("x > 1 OR y < 2"))
    properties = Properties(user_properties=(("x", "2"),))
    assert matches(filter, attributes_of(PublishedMessage("a", b"", "p", 0, properties=properties)))
    assert not matches(
        filter, attributes_of(PublishedMessage("b", b"", "p", 0, properties=properties))
    )
    assert len(filter.normal_form) <= MAX_CONJUNCTIONS


def test_attributes_beyond_the_limit_are_dropped() -> None:
    names = tuple((f"n{number}", "1") for number in range(400))
    message = PublishedMessage(
        "/".join("a" * 20), b"", "p", 0, properties=Properties(user_properties=names)
    )
    attributes = attributes_of(message)
    check_attributes(attributes)
    assert attributes["$levels"] == 20


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_between_brokers_reads_back_equal(qos: int) -> None:
    site = Network("B1")["B1"]
    properties = Properties(message_expiry_interval_s=5, content_type="t")
    message = PublishedMessage("a/b", b"x", "publisher é", 7, qos, True, properties)
    site.clients.front_end.publish(message)
    [request] = site.clients.front_end.take()
    assert isinstance(request, Requested)
    [publication] = request.request.publications
    found = read_publication(publication, 1_000)
    assert found is not None
    for name in ("topic", "payload", "publisher", "published_us", "qos", "retain", "properties"):
        assert getattr(found, name) == getattr(message, name)
    assert found.expires_us == 5_001_000


@pytest.mark.parametrize("qos", [0, 2])
def test_publishers_with_long_names_are_served(qos: int) -> None:
    message = PublishedMessage("a", b"x", "é" * 300, 7, qos)
    found = read_body(write_body(message), 7)
    assert found is not None
    assert (found.publisher, found.payload, found.qos) == (message.publisher, b"x", qos)


@pytest.mark.parametrize(
    "body", ["", "00", "0001", "0001 ff", "0001 61", "0001 61 c000", "0001 61 36"]
)
def test_a_body_of_another_format_is_no_message(body: str) -> None:
    publication = Publication(
        publisher="p", sequence=0, published_us=0, attributes={}, body=bytes.fromhex(body)
    )
    assert read_publication(publication, 0) is None


def test_publications_of_one_read_are_one_request() -> None:
    network = Network("B1")
    front_end = network["B1"].clients.front_end
    for _ in range(MAX_BATCH + 1):
        front_end.publish(PublishedMessage("a", b"", "p", 0))
    for _ in range(3):
        front_end.publish(PublishedMessage("a", bytes(600_000), "p", 0))
    sizes = [len(each.request.publications) for each in front_end.take()]
    assert sizes == [MAX_BATCH, 2, 1, 1]
    assert all(isinstance(each.request, PublishRequest) for each in front_end.take())


def test_publications_that_do_not_come_back_are_bounded(network: Network) -> None:
    (publisher,) = connected(network, "B1")
    for _ in range(40):
        publisher.publish("a", bytes(1_000_000))
    front_end = network["B1"].clients.front_end
    assert front_end is not None
    assert 0 < sum(message.size for message in front_end._recent.values()) <= MAX_RECENT_BYTES
    reader = network["B1"].connect("reader")
    reader.subscribe("a")
    for _ in range(40):
        publisher.publish("a", bytes(1_000_000))
        assert len(reader.take_payloads()) == 1
    assert len(front_end._recent) < 40
