"""`$from` at a broker without a network: refusals, options, flow control, users."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from shoal.log.instants import instant_text
from shoal.log.records import LogGap
from shoal.mqtt.codec.packets import Puback, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.sessions import live_gate
from tests.mqtt.broker_api import KEPT, BrokerApi, Client
from tests.mqtt.memory_log import MemoryLog, MemoryLogWriter


class LoggingBroker(BrokerApi):
    """A broker with a log; questions about it are answered as time passes."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.log = MemoryLog()
        self.writer = MemoryLogWriter(self.log)
        self.clients.at_publication = self.writer.note
        self.clients.replays.has_log = True
        self.clients.replays.brokers = lambda: ["B1"]

    def after(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / 0.05))):
            super().after(0.05)
            self.writer.write()
            questions, self.questions = self.questions, []
            for asked in questions:
                part = self.writer.read(asked, self.now_us)
                self.clients.replays.told(asked, part, self.now_us)
            self.carry_out(self.clients.take_effects())

    @property
    def is_replaying(self) -> bool:
        return bool(self.clients.replays.status)


def from_(text: str = "earliest", *more: tuple[str, str]) -> Properties:
    return Properties(user_properties=(("$from", text), *more))


def with_history(count: int = 5, **limits: Any) -> tuple[LoggingBroker, Client]:
    broker = LoggingBroker(**limits)
    publisher = broker.connect("p")
    for number in range(count):
        publisher.publish("a/b", b"%d" % number, qos=1)
        broker.after(0.05)
    return broker, publisher


def payloads(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, count)]


def test_the_past_and_then_live_at_every_qos() -> None:
    broker, publisher = with_history()
    for qos in range(3):
        client = broker.connect(f"s{qos}")
        assert client.subscribe("a/#", qos, from_()).reason_codes == (qos,)
        broker.after(0.3)
        publisher.publish("a/b", b"5", qos=2)
        broker.after(0.1)
        packets = client.take_publications()
        assert [packet.payload for packet in packets[:5]] == payloads(5)
        assert [packet.payload for packet in packets[5:]] == [b"5"] * (qos + 1)
        assert [packet.qos for packet in packets] == [min(qos, 1)] * 5 + [qos] * (qos + 1)


def test_3_1_1_asks_in_the_query_of_its_topic_filter() -> None:
    broker, _ = with_history()
    client = broker.connect("s", version=4)
    client.subscribe("$where/$from=-1h/a/#", 1)
    broker.after(0.3)
    assert client.take_payloads() == payloads(5)


def test_a_time_leaves_out_earlier_ones() -> None:
    broker, publisher = with_history()
    begin = instant_text(broker.now_us)
    publisher.publish("a/b", b"5", qos=1)
    client = broker.connect("s")
    client.subscribe("a/#", 1, from_(begin))
    broker.after(0.3)
    assert client.take_payloads() == [b"5"]


@pytest.mark.parametrize(
    ("topic_filter", "text", "code", "why"),
    [
        ("a", "yesterday", ReasonCode.TOPIC_FILTER_INVALID, "write earliest"),
        ("a", "", ReasonCode.TOPIC_FILTER_INVALID, "stands once"),
        ("a?$from=-1h", "-2h", ReasonCode.TOPIC_FILTER_INVALID, "two times"),
        ("a?$from>-1h", "-1h", ReasonCode.TOPIC_FILTER_INVALID, r"with = and one time"),
        ("$share/g/a", "-1h", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "shared subscription"),
    ],
)
def test_a_refusal_names_its_reason(
    topic_filter: str, text: str, code: ReasonCode, why: str
) -> None:
    broker, _ = with_history(0)
    suback = broker.connect("s").subscribe(topic_filter, 1, from_(text))
    assert suback.reason_codes == (code,)
    assert suback.properties.reason_string is not None
    assert why in suback.properties.reason_string
    assert not broker.is_replaying


def test_without_a_log_the_past_is_refused() -> None:
    suback = BrokerApi().connect("s").subscribe("a", 1, from_())
    assert suback.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert suback.properties.reason_string is not None
    assert "no broker of this network keeps a log" in suback.properties.reason_string


def test_a_user_has_a_bounded_number_of_replays() -> None:
    broker, _ = with_history(100, maximum_user_replays=1)
    client = broker.connect("s", properties=Properties(receive_maximum=1))
    assert client.subscribe("a/b", 1, from_()).reason_codes == (1,)
    suback = client.subscribe("a/+", 1, from_())
    assert suback.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
    assert broker.connect("other").subscribe("a/+", 1, from_()).reason_codes == (1,)
    for _ in range(120):
        broker.after(0.05)
        client.take_payloads()
    assert client.subscribe("a/+", 1, from_()).reason_codes == (1,)


def test_a_slow_client_gets_as_many_as_its_window_and_the_rest_stays_in_the_log() -> None:
    broker, publisher = with_history(500)
    client = broker.connect("s", properties=Properties(receive_maximum=3))
    client.subscribe("a/#", 1, from_())
    broker.after(1)
    session = broker.clients.sessions["s"]
    assert (session.inflight, session.queued) == (3, 0)
    publisher.publish("a/b", b"500", qos=1)
    found: list[bytes] = []
    for _ in range(600):
        broker.after(0.05)
        packets = [packet for packet in client.take() if isinstance(packet, Publish)]
        found += [packet.payload for packet in packets]
        for packet in packets:
            client.send(Puback(packet.packet_id))
    assert found == payloads(501)
    assert not broker.is_replaying


def test_many_live_publications_meanwhile_are_read_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_gate, "MOST_HELD", 3)
    broker, publisher = with_history(50)
    client = broker.connect("s", properties=Properties(receive_maximum=5))
    client.subscribe("a/#", 1, from_())
    found: list[bytes] = []
    for number in range(50, 200):
        publisher.publish("a/b", b"%d" % number, qos=1)
        if number % 10 == 0:
            broker.after(0.05)
        if number % 3 == 0:
            found += client.take_payloads()
    for _ in range(100):
        broker.after(0.05)
        found += client.take_payloads()
    assert found == payloads(200)
    assert not broker.is_replaying


def test_a_session_that_comes_back_goes_on_where_it_was() -> None:
    broker, publisher = with_history(30)
    kept = {**KEPT, "properties": Properties(session_expiry_interval_s=99, receive_maximum=2)}
    client = broker.connect("s", **kept)
    client.subscribe("a/#", 2, from_())
    broker.after(0.2)
    found = client.take_payloads()
    client.lose()
    publisher.publish("a/b", b"30", qos=1)
    broker.after(5)
    client = broker.connect("s", **kept)
    # A library subscribes again, and the replay goes on nevertheless.
    client.subscribe("a/#", 2, from_())
    for _ in range(60):
        broker.after(0.05)
        found += client.take_payloads()
    assert list(dict.fromkeys(found)) == payloads(31)
    assert len(found) <= 31 + 2  # those in flight may come again


def test_replays_of_a_client_that_comes_back_wait_for_each_other() -> None:
    broker, _ = with_history(60)
    kept = {**KEPT, "properties": Properties(session_expiry_interval_s=99, receive_maximum=4)}
    client = broker.connect("s", **kept)
    client.subscribe("a/#", 1, from_())
    client.subscribe("a/b", 1, from_())
    client.lose()
    broker.after(1)
    assert not broker.is_replaying
    broker.clients.limits = msgspec.structs.replace(broker.clients.limits, maximum_user_replays=1)
    client = broker.connect("s", **kept)
    broker.after(0.1)
    assert len(broker.clients.replays.status) == 1
    found: list[bytes] = []
    for _ in range(200):
        found += client.take_payloads()
        broker.after(0.05)
    assert Counter(found) == Counter(payloads(60) * 2)
    assert not broker.is_replaying


@pytest.mark.parametrize(("handling", "times"), [(0, 2), (1, 1), (2, 2)])
def test_retain_handling_1_asks_for_the_past_once(handling: int, times: int) -> None:
    broker, _ = with_history(3)
    client = broker.connect("s")
    found: list[bytes] = []
    for _ in range(2):
        client.subscribe("a/#", 1, from_(), retain_handling=handling)
        broker.after(0.3)
        found += client.take_payloads()
    assert found == payloads(3) * times


def test_retained_messages_come_first_unless_the_past_has_them() -> None:
    broker = LoggingBroker()
    publisher = broker.connect("p")
    publisher.publish("a/old", b"old", 1, True)
    publisher.publish("a/new", b"before", 1, True)
    broker.after(1)
    begin = instant_text(broker.now_us)
    broker.after(1)
    publisher.publish("a/new", b"new", 1, True)
    client = broker.connect("s")
    client.subscribe("a/#", 1, from_(begin))
    broker.after(0.3)
    found = [(packet.payload, packet.retain) for packet in client.take_publications()]
    assert found == [(b"old", True), (b"new", False)]


def test_what_the_log_lacks_is_named() -> None:
    broker, publisher = with_history(3)
    broker.log.forget(2)
    gap = LogGap(broker.now_us, broker.now_us, broker.now_us, 7, "the disk is full")
    broker.log.write([gap])
    publisher.publish("a/b", b"3", qos=1)
    client = broker.connect("s")
    client.subscribe("a/#", 1, from_("-990s"))
    broker.after(0.3)
    packets = client.take_publications()
    assert [packet.payload for packet in packets] == [b"2", b"3"]
    names = [packet.properties.user_properties[-1] for packet in packets]
    assert names[0][0] == names[1][0] == "$gap"
    assert "earlier ones were deleted" in names[0][1]
    assert "7 publications" in names[1][1]
    assert "the disk is full" in names[1][1]
    notices = [each.why for each in broker.clients.statistics.notices.take()]
    assert names[0][1] in notices
    assert names[1][1] in notices


def test_a_gap_at_the_end_is_named_by_the_next_message_of_this_client_alone() -> None:
    broker, publisher = with_history(2)
    gap = LogGap(broker.now_us, broker.now_us, broker.now_us, None, "a power cut")
    broker.log.write([gap])
    client, other = broker.connect("s"), broker.connect("o")
    other.subscribe("a/#", 1)
    client.subscribe("a/#", 1, from_())
    broker.after(1)
    assert client.take_payloads() == payloads(2)
    publisher.publish("a/b", b"2", qos=1)
    broker.after(0.2)
    (packet,) = client.take_publications()
    ((name, text),) = packet.properties.user_properties
    assert (name, packet.payload) == ("$gap", b"2")
    assert "a power cut" in text
    (packet,) = other.take_publications()
    assert packet.properties.user_properties == ()
    assert not broker.is_replaying


def test_an_expired_publication_is_left_out() -> None:
    broker, publisher = with_history(1)
    publisher.publish("a/b", b"old", 1, properties=Properties(message_expiry_interval_s=1))
    broker.after(2)
    publisher.publish("a/b", b"new", 1, properties=Properties(message_expiry_interval_s=100))
    client = broker.connect("s")
    client.subscribe("a/#", 1, from_())
    broker.after(0.3)
    assert client.take_payloads() == [b"0", b"new"]


def test_a_subscription_that_ends_and_comes_again_gets_its_past() -> None:
    broker, _ = with_history(100)
    client = broker.connect("s", properties=Properties(receive_maximum=2))
    client.subscribe("a/#", 1, from_())
    broker.after(0.2)
    client.unsubscribe("a/#")
    client.subscribe("a/#", 1, from_())
    found = client.take_payloads()
    for _ in range(100):
        broker.after(0.05)
        found += client.take_payloads()
    assert found == payloads(2) + payloads(100)


def test_publications_that_the_log_does_not_keep_are_live() -> None:
    broker, publisher = with_history(3)
    broker.clients.replays.keeps = lambda message: message.qos > 0
    broker.clients.at_publication = lambda message: (
        broker.writer.note(message) if message.qos else None
    )
    client = broker.connect("s", properties=Properties(receive_maximum=1))
    client.subscribe("a/#", 1, from_())
    publisher.publish("a/b", b"not kept", 0)
    assert client.take_payloads() == [b"not kept"]
    for _ in range(10):
        broker.after(0.1)
        publisher.publish("a/b", b"kept", 1)
    broker.after(1)
    found = []
    for _ in range(30):
        found += client.take_payloads()
        broker.after(0.1)
    assert found == [*payloads(3), *[b"kept"] * 10]


def test_an_unsubscribed_replay_ends() -> None:
    broker, _ = with_history(100)
    client = broker.connect("s", properties=Properties(receive_maximum=2))
    client.subscribe("a/#", 1, from_())
    broker.after(0.2)
    client.unsubscribe("a/#")
    assert client.take_payloads() == payloads(2)
    broker.after(1)
    assert client.take_payloads() == []
    assert not broker.is_replaying


def test_topics_of_the_broker_are_not_in_the_past_of_all_topics() -> None:
    broker, publisher = with_history(1)
    publisher.publish("$other/x", b"x", qos=1)
    client = broker.connect("s")
    client.subscribe("#", 1, from_())
    broker.after(0.3)
    assert client.take_payloads() == payloads(1)
