"""The state that clients find when a killed broker has restarted."""

from __future__ import annotations

import pytest

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.memory.journal_records import (
    MessagePut,
    RetainedPut,
    read_records,
)
from shoal.mqtt.restoring import Remembered, restore
from tests.mqtt.broker_api import Client, will
from tests.mqtt.remembering import KEPT, RememberingBrokerApi


def back(broker_api: RememberingBrokerApi, name: str) -> Client:
    client = broker_api.connect(name, clean_start=False, properties=KEPT)
    assert client.connack.session_present
    return client


def test_queued_messages_return_in_order_with_all_options() -> None:
    broker_api = RememberingBrokerApi([])
    properties = Properties(
        session_expiry_interval_s=600, subscription_identifiers=(), user_properties=()
    )
    client = broker_api.connect("c", properties=properties)
    asked = Properties(user_properties=(("$where", "n > 2"),), subscription_identifiers=(7,))
    client.subscribe("a/+", qos=2, properties=asked, retain_as_published=True)
    client.lose()
    publisher = broker_api.connect("p")
    for number in range(6):
        sent = Properties(
            user_properties=(("n", str(number)),), message_expiry_interval_s=100, content_type="x"
        )
        publisher.publish("a/b", b"%d" % number, qos=1 + number % 2, retain=True, properties=sent)
    broker_api = broker_api.killed(after_s=30)
    found = back(broker_api, "c").take_publications()
    assert [(each.payload, each.qos, each.retain) for each in found] == [
        (b"3", 2, True),
        (b"4", 1, True),
        (b"5", 2, True),
    ]
    assert found[0].properties.subscription_identifiers == (7,)
    assert found[0].properties.message_expiry_interval_s == 70
    assert found[0].properties.content_type == "x"


def test_in_flight_messages_are_retransmitted_unchanged() -> None:
    broker_api = RememberingBrokerApi([])
    client = broker_api.connect("c", properties=KEPT)
    client.subscribe("a", qos=2)
    publisher = broker_api.connect("p")
    for payload, qos in ((b"1", 1), (b"2", 2), (b"3", 2), (b"4", 2)):
        publisher.publish("a", payload, qos=qos)
    one, two, three, four = client.take()
    client.send(Pubrec(three.packet_id), Pubrec(four.packet_id), Pubcomp(four.packet_id))
    again = back(broker_api.killed(), "c")
    found = again.take()
    assert found[0] == Publish("a", b"1", 1, False, True, one.packet_id)
    assert found[1] == Publish("a", b"2", 2, False, True, two.packet_id)
    assert found[2] == Pubrel(three.packet_id)
    assert len(found) == 3
    again.send(Puback(one.packet_id), Pubrec(two.packet_id), Pubcomp(two.packet_id))
    again.send(Pubcomp(three.packet_id))
    assert back(again.broker_api.killed(), "c").take() == []  # type: ignore[attr-defined]


def test_a_qos_2_publication_is_accepted_once() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("s", properties=KEPT).subscribe("a", qos=2)
    publisher = broker_api.connect("p", properties=KEPT)
    publisher.send(Publish("a", b"x", 2, packet_id=9))
    broker_api = broker_api.killed()
    publisher = back(broker_api, "p")
    publisher.send(Publish("a", b"x", 2, False, True, packet_id=9))
    assert [type(each) for each in publisher.take()] == [Pubrec]
    broker_api = broker_api.killed()
    publisher = back(broker_api, "p")
    publisher.send(Pubrel(9))
    assert publisher.take() == [Pubcomp(9)]
    assert back(broker_api, "s").take_payloads() == [b"x"]


def test_new_packet_identifiers_are_free_ones() -> None:
    broker_api = RememberingBrokerApi([])
    client = broker_api.connect("c", properties=KEPT)
    client.subscribe("a", qos=1)
    publisher = broker_api.connect("p")
    for _ in range(3):
        publisher.publish("a", qos=1)
    broker_api = broker_api.killed()
    client = back(broker_api, "c")
    broker_api.connect("p").publish("a", qos=1)
    assert sorted(each.packet_id for each in client.take()) == [1, 2, 3, 4]


def test_expiry_of_sessions_continues() -> None:
    broker_api = RememberingBrokerApi([])
    for name in ("gone", "there"):
        broker_api.connect(name, properties=KEPT).subscribe("a", qos=1)
    broker_api.connect("short", properties=Properties(session_expiry_interval_s=0))
    client = back(broker_api, "gone")
    client.disconnect()
    broker_api.after(400)
    broker_api = broker_api.killed(after_s=300)
    broker_api.after(1)
    assert not broker_api.clients.sessions.is_kept("gone")
    assert broker_api.clients.sessions.is_kept("there")
    assert not broker_api.clients.sessions.is_kept("short")
    # Clients that were connected count as disconnected since the broker's end.
    broker_api = broker_api.killed()
    broker_api.after(598)
    assert broker_api.clients.sessions.is_kept("there")
    broker_api.after(2)
    assert not broker_api.clients.sessions.is_kept("there")
    assert broker_api.killed().clients.statistics.sessions == 0


@pytest.mark.parametrize("interval_s", [0, 600])
@pytest.mark.parametrize("delay_s", [None, 60])
def test_a_will_is_published_once(interval_s: int, delay_s: int | None) -> None:
    broker_api = RememberingBrokerApi([])
    last = will("w", b"gone", qos=1, properties=Properties(will_delay_interval_s=delay_s))
    broker_api.connect("c", properties=Properties(session_expiry_interval_s=interval_s), will=last)
    broker_api = broker_api.killed()
    watcher = broker_api.connect("w", properties=KEPT)
    watcher.subscribe("w", qos=1)
    broker_api.after(30)
    is_delayed = delay_s is not None and interval_s > 0
    assert watcher.take_payloads() == ([] if is_delayed else [b"gone"])
    broker_api.after(40)
    assert watcher.take_payloads() == ([b"gone"] if is_delayed else [])
    broker_api = broker_api.killed()
    broker_api.after(200)
    assert back(broker_api, "w").take_payloads() == []


def test_a_client_that_is_back_soon_has_no_will_published() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("c", properties=KEPT, will=will("w"))
    broker_api = broker_api.killed()
    watcher = broker_api.connect("w")
    watcher.subscribe("w")
    back(broker_api, "c")
    broker_api.after(60)
    assert watcher.take_payloads() == []


def test_a_short_session_is_not_restored_even_with_a_will() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("c", will=will("w"))
    broker_api = broker_api.killed()
    watcher = broker_api.connect("w")
    watcher.subscribe("w")
    assert not broker_api.connect("c", clean_start=False).connack.session_present
    assert watcher.take_payloads() == [b"gone"]


def test_a_disconnected_client_leaves_no_will() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("c", will=will("w")).disconnect()
    broker_api.connect("d", will=will("w"), properties=KEPT).disconnect()
    broker_api = broker_api.killed()
    watcher = broker_api.connect("w")
    watcher.subscribe("w")
    broker_api.after(1_000)
    assert watcher.take_payloads() == []


def test_retained_messages_and_removals_are_restored() -> None:
    broker_api = RememberingBrokerApi([])
    publisher = broker_api.connect("p")
    for topic in ("a", "b", "c"):
        publisher.publish(topic, b"1", retain=True)
    publisher.publish("a", b"2", qos=1, retain=True)
    publisher.publish("b", b"", retain=True)
    broker_api = broker_api.killed()
    reader = broker_api.connect("r")
    reader.subscribe("#", qos=1)
    assert sorted(reader.take_payloads()) == [b"1", b"2"]
    # An older message, as another broker may still send it, does not come back.
    assert {each.topic for each in broker_api.clients.retained.history()} == {"a", "b", "c"}


def test_shared_subscriptions_take_turns_again() -> None:
    broker_api = RememberingBrokerApi([])
    for name in ("x", "y"):
        broker_api.connect(name, properties=KEPT).subscribe("$share/g/a", qos=1)
    broker_api = broker_api.killed()
    publisher = broker_api.connect("p")
    for number in range(4):
        publisher.publish("a", b"%d" % number, qos=1)
    found = [back(broker_api, name).take_payloads() for name in ("x", "y")]
    assert sorted(map(len, found)) == [2, 2]


def test_a_session_ended_by_clean_start_does_not_return() -> None:
    broker_api = RememberingBrokerApi([])
    client = broker_api.connect("c", properties=KEPT)
    client.subscribe("a", qos=1)
    broker_api.connect("p").publish("a", qos=1)
    client.lose()
    broker_api.connect("c", clean_start=True, properties=KEPT).lose()
    broker_api = broker_api.killed()
    broker_api.connect("p").publish("a", qos=1)
    assert back(broker_api, "c").take() == []


def test_unreadable_records_are_named_and_the_rest_restored() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("c", properties=KEPT).subscribe("a", qos=1)
    found = Remembered()
    for batch in broker_api.batches:
        found.apply(read_records(batch))
    found.apply([MessagePut(5, b"\xff", 0, None, None), RetainedPut("x", 5), RetainedPut("y", 6)])
    clients = BrokerClients("B1", 0)
    problems = restore(clients, found, 0)
    assert len(problems) == 2
    assert "message 5, retained at 'x'" in problems[0]
    assert clients.sessions.is_kept("c")


# --- a disk that cannot be written ----------------------------------------------------------------


def test_messages_that_cannot_be_written_are_refused() -> None:
    broker_api = RememberingBrokerApi([])
    reader = broker_api.connect("r", properties=KEPT)
    reader.subscribe("a", qos=1)
    publisher, old = broker_api.connect("p"), broker_api.connect("old", version=4)
    passing = broker_api.connect("passing")
    assert broker_api.clients.journal is not None
    broker_api.clients.journal.is_failing = True
    (puback,) = publisher.publish("a", b"1", qos=1)
    (pubrec,) = publisher.publish("a", b"2", qos=2)
    assert puback.reason_code is pubrec.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert "cannot write to its disk" in puback.properties.reason_string
    old.send(Publish("a", b"3", 1, packet_id=3))
    assert old.closed
    assert old.take() == []
    suback = reader.subscribe("b", qos=1)
    assert suback.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
    assert passing.subscribe("b", qos=1).reason_codes == (ReasonCode.GRANTED_QOS_1,)
    publisher.publish("a", b"4")
    assert reader.take_payloads() == [b"4"]
    broker_api.clients.journal.is_failing = False
    assert publisher.publish("a", b"5", qos=1)[0].reason_code is ReasonCode.SUCCESS


def test_messages_without_disk_space_are_refused() -> None:
    """On the disk of a broker that keeps other brokers' messages."""
    broker_api = RememberingBrokerApi([])
    publisher, old = broker_api.connect("p"), broker_api.connect("old", version=4)
    broker_api.clients.refuse("too much waits for broker B3")
    (pubrec,) = publisher.publish("a", b"2", qos=2)
    assert pubrec.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert pubrec.properties.reason_string == "too much waits for broker B3"
    assert publisher.publish("a", b"3") == []
    old.send(Publish("a", b"3", 1, packet_id=3))
    assert old.closed
    broker_api.clients.refuse("")
    assert publisher.publish("a", b"5", qos=1)[0].reason_code is not ReasonCode.QUOTA_EXCEEDED


def where(*texts: str) -> Properties:
    return Properties(user_properties=tuple(("$where", text) for text in texts))


# Their text is longer, or nests deeper, than `parse` accepts, or did not survive the journal.
LARGE = [
    ("n IN (" + ",".join(["1"] * 30_000) + ")",),
    # Values of their own, to the limit; written with spaces it is above it.
    ("n IN (" + ",".join(map(str, range(10_000, 20_000))) + ")",),
    tuple(" AND ".join(f"{a}{number} = 1" for number in range(600)) for a in "ab"),
    ("NOT (n = 1 AND " * 50 + "n NOT BETWEEN 7 AND 8" + ")" * 50,),
    (r"n <> '\00012'",),
]


@pytest.mark.parametrize("texts", LARGE)
def test_every_filter_that_was_granted_comes_back(texts: tuple[str, ...]) -> None:
    broker_api = RememberingBrokerApi([], maximum_filter_bytes=65_536, maximum_filter_tests=4_000)
    client = broker_api.connect("c", properties=KEPT)
    suback = client.subscribe("a", qos=1, properties=where(*texts))
    assert suback.reason_codes == (ReasonCode.GRANTED_QOS_1,)
    granted = client.connection.session.subscriptions["a"].content
    client.lose()
    broker_api = broker_api.killed()
    assert back(broker_api, "c").connection.session.subscriptions["a"].content == granted
