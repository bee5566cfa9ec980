"""The state of a network, from its brokers' events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.console.view import COLUMNS, NetworkView
from shoal.runtime.events.event_types import read_event
from shoal.runtime.traffic.latency import BUCKETS

START_S = 1_000.0


def figures(*neighbours: str, **changes: Any) -> dict[str, Any]:
    """A broker's figures, with links that are up to these neighbours."""
    found: dict[str, Any] = dict.fromkeys(COLUMNS[2:], 0)
    found |= {
        "at_us": 1,
        "out_per_s": 0.0,
        "dropped_per_s": 0.0,
        "sessions": 0,
        "ready": True,
        "draining": False,
        "p50_ms": None,
        "p99_ms": None,
        "p99_elsewhere_ms": None,
        "disk_free_bytes": None,
        "certificate_days": None,
        "delays": [0] * (len(BUCKETS) + 1),
        "links": [link(name) for name in neighbours],
    }
    return found | changes


def link(neighbour: str, **changes: Any) -> dict[str, Any]:
    found = {
        "neighbour": neighbour,
        "state": "up",
        "messages_per_s": 10.0,
        "bytes_in_per_s": 0.0,
        "bytes_out_per_s": 0.0,
        "waiting_bytes": 0,
        "spooled_bytes": 0,
        "delay_ms": 2.0,
    }
    return found | changes


def two_brokers(now_s: float = START_S) -> NetworkView:
    view = NetworkView("n", "tree", {"B1": None, "B2": (40.0, -73.0)}, now_s)
    for name, other in (("B1", "B2"), ("B2", "B1")):
        view.connected(name, now_s)
        view.take(name, "figures", figures(other, clients=2, in_per_s=5.0), "", now_s)
    return view


def test_brokers_and_links_are_drawn_by_their_numbers() -> None:
    view = two_brokers()
    snapshot = view.snapshot()
    assert [each["name"] for each in snapshot["brokers"]] == ["B1", "B2"]
    assert [each["at"] for each in snapshot["brokers"]] == [None, [-73.0, 40.0]]
    assert snapshot["links"] == [[0, 1]]
    found = view.figures(START_S)
    assert found["links"] == [[20.0, 2.0, 0, 0]]
    row = dict(zip(COLUMNS, found["brokers"][0], strict=True))
    assert (row["away"], row["clients"], row["in_per_s"]) == (False, 2, 5.0)
    assert found["wrong"] == []


def test_a_broker_that_says_nothing_does_not_answer() -> None:
    view = two_brokers()
    view.take("B1", "figures", figures("B2"), "", START_S + 10)
    (row,) = view.wrong(START_S + 10)
    assert (row["text"], row["level"]) == ("B2 does not answer", "bad")
    assert row["since_s"] == START_S
    assert "its 2 clients have no broker; 1 neighbour keeps 0 bytes for it" in row["effect"]


def test_a_broken_connection_is_told_with_its_reason_and_time() -> None:
    view = two_brokers()
    view.disconnected("B2", "no connection", START_S + 3)
    view.disconnected("B2", "still no connection", START_S + 4)
    (row,) = view.wrong(START_S + 4)
    assert (row["advice"], row["since_s"]) == ("still no connection", START_S + 3)
    view.connected("B2", START_S + 5)
    view.take("B2", "figures", figures("B1"), "", START_S + 5)
    assert view.wrong(START_S + 5) == []


def test_a_dead_broker_hides_its_neighbours_alerts_about_the_link() -> None:
    view = two_brokers()
    alert = {
        "key": "link B2",
        "level": "bad",
        "text": "the link to B2 is down",
        "effect": "",
        "advice": "",
        "since_us": 5_000_000,
        "client": "",
    }
    view.take("B1", "alerts", {"alerts": [alert]}, "", START_S)
    assert [row["text"] for row in view.wrong(START_S)] == ["the link to B2 is down"]
    view.disconnected("B2", "killed", START_S)
    assert [row["text"] for row in view.wrong(START_S)] == ["B2 does not answer"]


def test_nobody_is_taken_for_dead_in_the_first_seconds() -> None:
    view = NetworkView("n", "tree", {"B1": None}, START_S)
    assert view.wrong(START_S + 1) == []
    (row,) = view.wrong(START_S + 6)
    assert row["effect"] == "not connected yet"


def test_a_broker_that_is_busy_for_long_is_named() -> None:
    view = two_brokers()
    for second in range(8):
        for name, share in (("B1", 0.95), ("B2", 0.1)):
            view.take(name, "figures", figures(processor=share), "", START_S + second)
        view.tick(START_S + second)
    (row,) = view.wrong(START_S + 7)
    assert (row["key"], row["broker"]) == ("busy", "B1")
    view.take("B1", "figures", figures(processor=0.5), "", START_S + 8)
    view.tick(START_S + 8)
    assert view.wrong(START_S + 8) == []


def test_joins_and_leaves_change_the_layout() -> None:
    view = two_brokers()
    layout = view.layout
    about = {
        "broker": "B3",
        "place": [1.0, 2.0],
        "network": "n",
        "system": "tree",
        "version": "1",
        "protocol": 1,
        "listening": {},
        "brokers": [],
    }
    view.connected("B3", START_S)
    view.take("B3", "broker", about, "", START_S)
    assert view.layout > layout
    assert [each["name"] for each in view.snapshot()["brokers"]] == ["B1", "B2", "B3"]
    assert view.snapshot()["brokers"][2]["at"] == [2.0, 1.0]
    layout = view.layout
    view.forget("B2")
    assert view.layout > layout
    assert view.snapshot()["links"] == []


def test_happenings_of_all_brokers_are_in_the_order_of_their_times() -> None:
    view = two_brokers()
    for broker, at_us, text in (("B1", 5, "a"), ("B2", 3, "b"), ("B1", 9, "c")):
        row = {"at_us": at_us, "kind": "move", "text": text, "why": "", "client": "", "source": ""}
        view.take(broker, "happened", row | {"target": ""}, f"1:{at_us}", START_S)
    assert [row["text"] for row in view.happenings(10)] == ["c", "a", "b"]
    assert [row["text"] for row in view.happenings(10, broker="B2")] == ["b"]
    assert view.brokers["B1"].last_id == "1:9"


def test_a_join_that_every_broker_reports_is_one_happening() -> None:
    view = two_brokers()
    row = {"at_us": 5, "kind": "join", "text": "B3 joined", "why": "", "client": ""}
    row |= {"source": "", "target": ""}
    assert view.take("B1", "happened", row, "1:1", START_S) is not None
    assert view.take("B2", "happened", row, "1:1", START_S) is None
    again = row | {"at_us": 9}
    assert view.take("B2", "happened", again, "1:2", START_S) is not None
    assert [each["at_us"] for each in view.happenings(5)] == [9, 5]


def test_the_worst_clients_of_all_brokers_come_first() -> None:
    view = two_brokers()
    row = {"in_flight": 0, "waiting_bytes": 0, "dropped": 0, "taken_us": 0, "dropped_us": None}
    view.take("B1", "top", {"clients": [row | {"client": "a", "waiting": 9}]}, "", START_S)
    lost = row | {"client": "b", "waiting": 1, "dropped_us": 5}
    view.take("B2", "top", {"clients": [lost]}, "", START_S)
    assert [each["client"] for each in view.worst_clients(5)] == ["b", "a"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("figures", "{}"),
        ("figures", '{"links": 5}'),
        ("alerts", '{"alerts": [{"key": 5}]}'),
        ("top", '{"clients": {"a": 1}}'),
        ("happened", '{"at_us": "now", "kind": "move", "text": "x"}'),
        ("broker", '{"broker": "B1"}'),
        ("dropped", f'{{"why": "{"x" * 5 * 2**20}"}}'),
    ],
)
def test_events_that_no_broker_sends_are_refused(kind: str, text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_event(kind, text)


def test_events_of_a_later_version_are_passed_over() -> None:
    assert read_event("weather", "{}") is None
    assert read_event("missed", '{"events": 3, "more": 1}') == {"events": 3}
