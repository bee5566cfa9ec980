"""Stories that are put together from what brokers have: clocks that differ, brokers that lack."""

from __future__ import annotations

from typing import Any

from shoal.runtime.tracing.story import MISSING, stories, summaries, tell


def record(**changes: Any) -> dict[str, Any]:
    about: dict[str, Any] = {
        "key": "p/1",
        "label": "",
        "publisher": "",
        "topic": "a/b",
        "published_us": 1_000_000,
        "bytes": 0,
        "attributes": {},
        "entered": None,
        "hops": [],
        "clients": [],
        "left_out": 0,
    }
    return about | changes


def hop(at_us: int, source: str, *targets: str) -> dict[str, Any]:
    return {
        "source": source,
        "at_us": at_us,
        "waited_us": 100,
        "took_us": 200,
        "targets": list(targets),
        "deliveries": 0,
    }


ENTERED = {"client": "p", "user": "ann", "qos": 1, "at_us": 1_000_000, "settled_us": None}


def test_a_broker_whose_clock_is_behind_gets_the_message_when_it_was_sent() -> None:
    found = tell(
        {
            "B1": record(entered=ENTERED, hops=[hop(1_000_000, "", "B2")]),
            "B2": record(hops=[hop(400_000, "B1")]),
        }
    )
    first, second = (row for row in found.rows if row.kind == "broker")
    assert second.from_ms == first.to_ms == 0.3
    assert second.to_ms == 0.6
    assert "its clock is 600.3 ms behind" in second.text


def test_a_next_hop_without_a_record_is_missing() -> None:
    found = tell({"B1": record(entered=ENTERED, hops=[hop(1_000_000, "", "B2")])})
    (missing,) = found.missing
    assert (missing.name, missing.state) == ("B2", MISSING)


def test_a_broker_whose_predecessor_has_no_record_is_told_all_the_same() -> None:
    found = tell(
        {
            "B1": record(entered=ENTERED, hops=[hop(1_000_000, "", "B2")]),
            "B3": record(hops=[hop(1_005_000, "B2")]),
        }
    )
    assert [row.name for row in found.rows if row.kind == "broker"] == ["B1", "B2", "B3"]


def test_brokers_in_a_cycle_are_told_once() -> None:
    found = tell(
        {
            "B1": record(entered=ENTERED, hops=[hop(1_000_000, "", "B2", "B3")]),
            "B2": record(hops=[hop(1_001_000, "B1", "B3")]),
            "B3": record(hops=[hop(1_001_000, "B1", "B2"), hop(1_002_000, "B2")]),
        }
    )
    assert [row.name for row in found.rows if row.kind == "broker"] == ["B1", "B2", "B3"]


def test_a_label_may_stand_for_several_messages() -> None:
    answers = {
        "B1": {"traces": [record(key="p/1", label="x"), record(key="p/2", label="x")]},
        "B2": {"traces": [record(key="p/2")]},
    }
    assert [each.key for each in stories(answers)] == ["p/1", "p/2"]
    assert [each.label for each in stories(answers)] == ["x", "x"]


def test_a_summary_counts_the_subscribers_of_all_brokers() -> None:
    row = {"key": "p/1", "label": "", "publisher": "", "topic": "a", "published_us": 5}
    answers = {
        "B1": {"traces": [row | {"publisher": "p", "states": {"delivered": 2}}]},
        "B2": {"traces": [row | {"label": "x", "states": {"delivered": 1, "dropped": 1}}]},
    }
    (found,) = summaries(answers)
    assert (found["label"], found["publisher"]) == ("x", "p")
    assert found["states"] == {"delivered": 3, "dropped": 1}


def test_a_message_that_matches_nobody_says_so() -> None:
    found = tell({"B1": record(entered=ENTERED, hops=[hop(1_000_000, "")])})
    assert found.headline == "no subscriber's filter matches it"
