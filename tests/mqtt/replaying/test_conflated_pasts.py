"""`$from` with `$every` and `$changed`: the past is thinned as if it had come live."""

from __future__ import annotations

from tests.mqtt.replaying.test_one_broker import LoggingBroker, from_


def value(number: int) -> bytes:
    return b'{"v": %d}' % number


def recorded(every_s: float, count: int) -> LoggingBroker:
    """A broker whose log has so many publications of growing values, each so long after another."""
    broker = LoggingBroker()
    publisher = broker.connect("p")
    for number in range(count):
        publisher.publish("a", value(number), qos=1)
        broker.after(every_s)
    return broker


def test_the_past_is_thinned_by_the_times_of_publication() -> None:
    broker = recorded(0.5, 20)
    client = broker.connect("s")
    client.subscribe("a", 1, from_("earliest", ("$every", "2s")))
    broker.after(0.5)
    # The first at once, then the newest of each 2 s; the last one when the past is over.
    got = client.take_payloads()
    assert got[0] == value(0)
    assert got[-1] == value(19)
    assert got[1:-1] == [value(number) for number in (3, 7, 11, 15)]


def test_live_publications_follow_under_the_same_state() -> None:
    broker = recorded(0.5, 4)
    publisher = broker.connect("p2")
    client = broker.connect("s")
    client.subscribe("a", 1, from_("earliest", ("$every", "2s")))
    broker.after(0.5)
    assert client.take_payloads() == [value(0), value(3)]
    publisher.publish("a", value(4), qos=1)
    broker.after(1)
    assert client.take_payloads() == []
    broker.after(1.5)
    assert client.take_payloads() == [value(4)]


def test_the_past_without_changes() -> None:
    broker = recorded(0.1, 10)
    client = broker.connect("s")
    client.subscribe("a", 1, from_("earliest", ("$changed", "v BY 4")))
    broker.after(0.5)
    assert client.take_payloads() == [value(0), value(4), value(8)]
