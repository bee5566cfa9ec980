"""All clients' queues together are bounded, and acknowledged messages are not dropped for it."""

from __future__ import annotations

from shoal.mqtt.codec.packet_types import MQTT_3_1_1
from shoal.mqtt.codec.packets import Puback, Publish, Pubrec
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.sessions.delivering.backlog import ENTRY_BYTES, MESSAGE_BYTES
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.network_broker_api import Network

SIZE = 10_000
KEPT = Properties(session_expiry_interval_s=1_000)
EACH = SIZE + MESSAGE_BYTES + ENTRY_BYTES


def crowded(count: int, **limits: int) -> BrokerApi:
    """A broker with room for about so many messages of one session each."""
    return BrokerApi(maximum_all_queued_bytes=(count + 1) * EACH, **limits)


def away(broker_api: BrokerApi, name: str, topic: str = "a/#") -> Client:
    client = broker_api.connect(name, properties=KEPT)
    client.subscribe(topic, qos=2)
    client.lose()
    return client


def publish(client: Client, topic: str = "a/b", qos: int = 1) -> ReasonCode:
    answer = client.publish(topic, bytes(SIZE), qos=qos)[0]
    assert isinstance(answer, Puback | Pubrec)
    return answer.reason_code


def test_all_queues_are_bounded_and_acknowledged_messages_arrive() -> None:
    broker_api = crowded(100)
    for number in range(20):
        away(broker_api, f"away-{number}", f"a/{number}")
    publisher = broker_api.connect("p")
    acknowledged = dict.fromkeys(range(20), 0)
    for count in range(400):
        code = publish(publisher, f"a/{count % 20}", qos=1 + count % 2)
        assert code in (ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED)
        acknowledged[count % 20] += code is ReasonCode.SUCCESS
    assert broker_api.clients.backlog.is_full
    assert broker_api.clients.backlog.bytes <= 102 * EACH
    assert 100 <= sum(acknowledged.values()) <= 102
    assert broker_api.clients.statistics.publications_refused == 400 - sum(acknowledged.values())
    for number, count in acknowledged.items():
        again = broker_api.connect(f"away-{number}", clean_start=False, properties=KEPT)
        assert len(again.take_publications()) == count
    assert broker_api.clients.backlog.bytes == 0
    assert not broker_api.clients.backlog.is_full
    assert publish(publisher) is ReasonCode.NO_MATCHING_SUBSCRIBERS


def test_a_message_that_waits_in_many_sessions_counts_once() -> None:
    broker_api = crowded(20)
    for number in range(50):
        away(broker_api, f"away-{number}")
    publisher = broker_api.connect("p")
    codes = [publish(publisher) for _ in range(9)]
    assert codes == [ReasonCode.SUCCESS] * 9
    assert broker_api.clients.backlog.bytes == 9 * (EACH + 3 + 49 * ENTRY_BYTES)


def test_sessions_that_end_leave_nothing_behind() -> None:
    broker_api = crowded(5)
    away(broker_api, "away")
    slow = broker_api.connect("slow")
    slow.subscribe("a/#", qos=1)
    publisher = broker_api.connect("p")
    codes = [publish(publisher) for _ in range(10)]
    assert codes[-1] is ReasonCode.QUOTA_EXCEEDED
    slow.lose()
    broker_api.after(1_001)
    assert broker_api.clients.backlog.bytes == 0
    assert publish(publisher) is ReasonCode.NO_MATCHING_SUBSCRIBERS


def test_qos_0_of_the_longest_queues_is_dropped_first() -> None:
    broker_api = crowded(100)
    much, little = broker_api.connect("much"), broker_api.connect("little")
    much.subscribe("a/#", qos=0)
    little.subscribe("b", qos=0)
    away(broker_api, "away", "c")
    much.connection.pause()
    little.connection.pause()
    publisher = broker_api.connect("p")
    for _ in range(5):
        publisher.publish("b", bytes(SIZE))
    for number in range(80):
        publisher.publish("a/b", b"%d" % number + bytes(SIZE))
    for _ in range(75):
        assert publish(publisher, "c") is ReasonCode.SUCCESS
    assert little.connection.session.dropped == 0
    assert much.connection.session.dropped >= 50
    assert not broker_api.clients.backlog.is_full
    broker_api.carry_out(much.connection.resume(broker_api.now_us))
    # The oldest of the queued ones are kept.
    came = [int(packet.payload.rstrip(b"\0")) for packet in much.take()]
    assert came == list(range(len(came)))
    assert came
    # When no QoS 0 message is queued, publishers are refused.
    codes = {publish(publisher, "c") for _ in range(40)}
    assert codes == {ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED}
    publisher.publish("a/b", bytes(SIZE))
    assert len(much.take()) == 1  # a subscriber that takes it at once still receives it


def test_a_3_1_1_publisher_is_closed_at_the_bound() -> None:
    broker_api = crowded(3)
    away(broker_api, "away")
    publisher = broker_api.connect("p", version=MQTT_3_1_1)
    for number in range(1, 7):
        assert not publisher.closed or number > 3
        publisher.send(Publish("a/b", bytes(SIZE), 1, packet_id=number))
    assert publisher.closed
    assert 3 <= len(publisher.take()) <= 4


def test_a_reload_changes_the_bound() -> None:
    broker_api = crowded(1_000)
    away(broker_api, "away")
    publisher = broker_api.connect("p")
    for _ in range(10):
        publish(publisher)
    backlog = broker_api.clients.backlog
    backlog.maximum_bytes = EACH
    assert publish(publisher) is ReasonCode.QUOTA_EXCEEDED
    backlog.maximum_bytes = 1_000 * EACH
    assert publish(publisher) is ReasonCode.SUCCESS


def publish_slowly(network: Network, client: Client, count: int) -> list[ReasonCode]:
    codes = []
    for _ in range(count):
        codes.append(publish(client))
        network.after(0.01)
    return codes


def test_no_broker_accepts_messages_another_has_no_room_for() -> None:
    network = Network("B1", "B2", "B3", maximum_all_queued_bytes=20 * EACH)
    network.after(1)
    away(network["B3"], "away")
    publisher = network["B1"].connect("p")
    codes = publish_slowly(network, publisher, 30)
    accepted = codes.count(ReasonCode.SUCCESS)
    assert codes[-1] is ReasonCode.QUOTA_EXCEEDED
    assert network["B3"].clients.backlog.is_full
    network.after(60)
    assert publish(publisher) is ReasonCode.QUOTA_EXCEEDED
    again = network["B3"].connect("away", clean_start=False, properties=KEPT)
    assert len(again.take_publications()) == accepted
    network.after(1)
    assert publish(publisher) is ReasonCode.SUCCESS


def test_a_silent_full_broker_is_not_waited_for() -> None:
    network = Network("B1", "B2", maximum_all_queued_bytes=20 * EACH)
    network.after(1)
    away(network["B2"], "away")
    publisher = network["B1"].connect("p")
    codes = publish_slowly(network, publisher, 30)
    assert codes[-1] is ReasonCode.QUOTA_EXCEEDED
    network.cut("B1", "B2")
    network["B1"].after(20)
    assert publish(publisher) is ReasonCode.SUCCESS
