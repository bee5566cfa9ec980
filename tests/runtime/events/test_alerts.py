"""Alerts: which figures are problems, since when, and for how long."""

from __future__ import annotations

import time
from typing import Any

import pytest

from shoal.runtime.events.alerts import Alert, AlertBook, alerts_of

NOW_US = 1_000_000_000_000


def figures(**changes: Any) -> dict[str, Any]:
    """The figures of a broker that is well, with these changed."""
    well: dict[str, Any] = {
        "ready": True,
        "missing": [],
        "links": [],
        "certificates": [],
        "exceptions": {"count": 0, "last": ""},
        "journal": {"is_failing": False, "free_bytes": 10**12},
        "log": None,
        "leaving": {"stage": "", "problem": ""},
        "joining": {"stage": ""},
        "clients": {"is_draining": False, "problem": ""},
        "scaling": None,
        "mqtt": {"connected": 3},
    }
    return well | changes


def link(**changes: Any) -> dict[str, Any]:
    well: dict[str, Any] = {
        "neighbour": "B2",
        "state": "up",
        "problem": "",
        "quarantined": "",
        "away_us": 0,
        "connections": 1,
        "buffered_bytes": 0,
        "spooled_bytes": 0,
        "congested_us": 0,
    }
    return well | changes


def test_a_broker_that_is_well_has_no_alert() -> None:
    assert list(alerts_of(figures(links=[link()]), NOW_US)) == []


@pytest.mark.parametrize(
    ("changes", "key", "level", "words"),
    [
        ({"links": [link(state="away", away_us=5)]}, "link B2", "bad", "the link to B2 is down"),
        (
            {"links": [link(state="idle", connections=0)]},
            "link B2",
            "bad",
            "the link to B2 is down since the start",
        ),
        (
            {"clients": {"is_draining": True, "problem": "2 of them stay"}},
            "drain",
            "poor",
            "the drain waits for clients: 2 of them stay",
        ),
        ({"links": [link(quarantined="bad checksum")]}, "quarantine B2", "bad", "bad checksum"),
        ({"links": [link(congested_us=2_000_000)]}, "congestion B2", "poor", "slower"),
        ({"journal": {"is_failing": True}}, "journal", "bad", "does not take the journal"),
        ({"journal": {"is_failing": False, "free_bytes": 10**6}}, "disk", "poor", "1.0 MB"),
        (
            {"log": {"is_failing": True, "missing": 7, "readers": [], "free_bytes": 10**12}},
            "log",
            "bad",
            "does not take the log",
        ),
        (
            {
                "log": {
                    "is_failing": False,
                    "readers": [{"name": "spark", "is_lost": True}],
                    "free_bytes": 10**12,
                }
            },
            "reader spark",
            "poor",
            "too far behind",
        ),
        ({"missing": ["tables of B3"]}, "missing tables of B3", "bad", "not ready: tables of B3"),
        ({"missing": ["clients: drained"]}, "missing clients", "poor", "drained"),
        ({"exceptions": {"count": 2, "last": "KeyError"}}, "exceptions", "poor", "KeyError"),
        (
            {"leaving": {"stage": "tables", "problem": "B2 is down", "since_s": 4.0, "next": ""}},
            "leaving",
            "poor",
            "B2 is down",
        ),
        (
            {"scaling": {"problem": "ssh: exit code 255", "last_us": 9}},
            "scaling",
            "poor",
            "ssh: exit code 255",
        ),
        ({"joining": {"stage": "asking", "since_s": 2.0}}, "joining", "poor", "asking"),
        (
            {"certificates": [{"use": "links", "file": "B1.pem", "ends_s": 0.0}]},
            "certificate links B1.pem",
            "bad",
            "has ended",
        ),
        (
            {"certificates": [{"use": "links", "file": "B1.pem", "ends_s": time.time() + 1e6}]},
            "certificate links B1.pem",
            "poor",
            "ends in 11 days",
        ),
    ],
)
def test_each_problem_is_an_alert(
    changes: dict[str, Any], key: str, level: str, words: str
) -> None:
    (alert,) = alerts_of(figures(**changes), NOW_US)
    assert (alert.key, alert.level) == (key, level)
    assert words in alert.text


def test_a_broker_that_has_left_names_the_way_back() -> None:
    joining = {"stage": "left", "next": "to have it join again, start it with --join"}
    (alert,) = alerts_of(figures(missing=["membership: it has left"], joining=joining), NOW_US)
    assert alert.advice == joining["next"]


def test_a_link_that_is_down_is_one_alert_and_not_two() -> None:
    down = figures(missing=["link to B2"], links=[link(state="away", away_us=3_000_000)])
    (alert,) = alerts_of(down, NOW_US)
    assert alert.since_us == NOW_US - 3_000_000


def test_an_alert_keeps_the_time_at_which_it_began() -> None:
    book = AlertBook()
    alert = Alert(key="a", level="poor", text="slow")
    assert book.update([alert], 5)
    assert not book.update([alert], 9)
    assert book.rows[0].since_us == 5
    assert book.update([], 10)
    assert book.update([alert], 12)
    assert book.rows[0].since_us == 12


def test_a_change_of_level_is_a_change() -> None:
    book = AlertBook()
    book.update([Alert(key="a", level="poor", text="slow")], 5)
    assert book.update([Alert(key="a", level="bad", text="slow")], 6)
    assert book.rows[0].since_us == 5


def test_the_worst_and_oldest_alerts_come_first() -> None:
    book = AlertBook()
    book.update([Alert(key="a", level="poor", text=""), Alert(key="b", level="bad", text="")], 5)
    book.update(
        [Alert(key=key, level=level, text="") for key, level in (("c", "bad"), *_levels(book))], 9
    )
    assert [each.key for each in book.rows] == ["b", "c", "a"]


def _levels(book: AlertBook) -> list[tuple[str, str]]:
    return [(key, each.level) for key, each in book.current.items()]
