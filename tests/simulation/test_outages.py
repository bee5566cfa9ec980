"""The losses that a failure excuses, and those that it does not."""

from __future__ import annotations

import pytest

from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.simulation.judging.outages import Excuses, Outage, PublisherAttachments

#  B1 - B2 - B3 - B4
#        \
#         B5           P moves from B1 to B3 between 40 and 50, and tries B4 between 70 and 80
LINKS = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B2", "B5"))
WHEREABOUTS = PublisherAttachments(
    [("P", "B1")],
    [
        MigrationRecord(
            publisher="P", source="B1", target="B3", path_hops=2, paused_us=40, resumed_us=50
        ),
        ReturnRecord(publisher="P", broker="B3", target="B4", paused_us=70, resumed_us=80),
    ],
)
SETTLE_US = 10


def excused(outage: Outage, broker: str, at_us: int, home: str) -> bool:
    return Excuses(LINKS, [outage], WHEREABOUTS, SETTLE_US).excuse("P", broker, at_us, home)


def down(*parts: str, from_us: int, until_us: int) -> Outage:
    return Outage(parts=parts, from_us=from_us, until_us=until_us)


@pytest.mark.parametrize(("at_us", "may_miss"), [(9, False), (10, True), (40, True), (41, False)])
def test_failures_on_the_route_excuse_for_a_while(at_us: int, may_miss: bool) -> None:
    outage = down("B2", from_us=20, until_us=30)
    assert excused(outage, "B1", at_us, "B5") is may_miss


@pytest.mark.parametrize(
    ("parts", "home", "may_miss"),
    [
        (("B3",), "B5", False),
        (("B2",), "B1", False),
        (("B2", "B5"), "B5", True),
        (("B5", "B2"), "B5", True),
        (("B2", "B5"), "B4", False),
        (("B3", "B2"), "B4", True),
        (("B5",), "B5", True),
    ],
)
def test_failures_outside_the_route_excuse_nothing(
    parts: tuple[str, ...], home: str, may_miss: bool
) -> None:
    assert excused(down(*parts, from_us=20, until_us=25), "B1", 22, home) is may_miss


@pytest.mark.parametrize(("at_us", "may_miss"), [(55, True), (61, False)])
def test_failures_on_the_route_from_a_former_broker_excuse(at_us: int, may_miss: bool) -> None:
    """At 55 P is at B3, and was at B1 within the last 10 µs."""
    outage = down("B1", "B2", from_us=52, until_us=90)
    assert excused(outage, "B3", at_us, "B5") is may_miss


@pytest.mark.parametrize(
    ("parts", "from_us", "at_us", "may_miss"),
    [
        (("B1",), 10, 33, True),  # it came back at 25
        (("B1",), 10, 36, False),
        (("B1",), 41, 60, True),  # its source, when it was on its way: it went on at 50
        (("B1",), 41, 67, False),
        (("B4",), 72, 82, False),  # only its target
        (("B1",), 60, 62, False),  # it had left long ago
        (("B1", "B2"), 41, 62, False),  # a link has no clients
    ],
)
def test_failures_of_a_publishers_own_broker_excuse(
    parts: tuple[str, ...], from_us: int, at_us: int, may_miss: bool
) -> None:
    outage = down(*parts, from_us=from_us, until_us=from_us + 15)
    home = "B1" if at_us < 40 else "B3"
    assert excused(outage, home, at_us, home) is may_miss
