"""The judges: each kind of violation is found and named, and a right run has none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal.model import Publication
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.overlays.tree.routing_table import RoutingTable
from shoal.simulation.judging.checkers import CheckerVerdict, TimedSubscription, check_deliveries
from shoal.simulation.trace import DeliveryEvent
from tests.broker.transcript import advertisement, publication, subscription

SETTLE_US = 10
LINE = [("B1", "B2"), ("B2", "B3")]


def at(sequence: int, published_us: int) -> Publication:
    return replace(publication(sequence), published_us=published_us)


def delivery(
    sequence: int, *names: str, client: str = "C", published_us: int = 100
) -> DeliveryEvent:
    return DeliveryEvent(at(sequence, published_us), names or ("s",), client, "B1", 200, 1)


def timed(from_us: int = 0, until_us: int | None = None, name: str = "s") -> TimedSubscription:
    return TimedSubscription(subscription=subscription(name), from_us=from_us, until_us=until_us)


def judge(*deliveries: DeliveryEvent, published: tuple[int, ...] = (1, 2)) -> CheckerVerdict:
    publications = [at(sequence, 100) for sequence in published]
    return check_deliveries(publications, [timed()], deliveries, SETTLE_US)


def test_a_right_run_has_no_problems() -> None:
    verdict = judge(delivery(1), delivery(2))
    assert verdict
    assert verdict.required == 2


def test_losses_are_named() -> None:
    verdict = judge(delivery(2))
    assert not verdict
    assert verdict.lost == ((("P", 1), "s"),)


def test_duplicates_are_named() -> None:
    verdict = judge(delivery(1), delivery(2), delivery(2))
    assert not verdict
    assert verdict.duplicates == ((("P", 2), "s"),)
    assert not judge(delivery(1, "s", "s"), delivery(2))


@pytest.mark.parametrize(
    "phantom",
    [
        delivery(9),  # never published
        delivery(1, "unknown"),
        delivery(-1),  # does not match
        delivery(1, client="D"),  # another client's
    ],
)
def test_phantoms_are_named(phantom: DeliveryEvent) -> None:
    publications = [at(sequence, 100) for sequence in (-1, 1, 2)]
    verdict = check_deliveries(publications, [timed()], [phantom, delivery(2)], SETTLE_US)
    assert len(verdict.phantoms) == 1


def test_order_is_per_publisher_and_subscription() -> None:
    verdict = judge(delivery(2), delivery(1))
    assert verdict.out_of_order == ((("P", 1), "s"),)
    assert not verdict
    subscriptions = [timed(name="s"), timed(name="t")]
    crossed = [delivery(1, "s"), delivery(2, "s"), delivery(1, "t"), delivery(2, "t")]
    assert check_deliveries([at(1, 100), at(2, 100)], subscriptions, crossed, SETTLE_US)


@pytest.mark.parametrize(
    ("published_us", "required", "allowed"),
    [
        (1_000 - 11, False, False),
        (1_000 - 10, False, True),
        (1_000 + 9, False, True),
        (1_000 + 10, True, True),
        (2_000 - 11, True, True),
        (2_000 - 10, False, True),
        (2_000 + 9, False, True),
        (2_000 + 10, False, False),
    ],
)
def test_deliveries_around_a_change_are_optional(
    published_us: int, required: bool, allowed: bool
) -> None:
    publications, subscriptions = [at(1, published_us)], [timed(1_000, 2_000)]
    assert bool(check_deliveries(publications, subscriptions, [], SETTLE_US)) is not required
    delivered = [delivery(1, published_us=published_us)]
    assert bool(check_deliveries(publications, subscriptions, delivered, SETTLE_US)) is allowed


def test_the_oracles_tables_equal_handwritten_ones() -> None:
    rows = expected_tables(
        LINE,
        [(advertisement("a", "x > 0"), "B1"), (advertisement("b", "x < 0"), "B3")],
        [(subscription("s", "x = 1"), "B2"), (subscription("t", "x < 5"), "B1")],
    )
    assert rows["B2"].advertisements == {"a": "B1", "b": "B3"}
    assert rows["B1"].subscriptions == {"s": ("B2", set()), "t": (None, {"B2"})}
    assert rows["B2"].subscriptions == {"s": (None, {"B1"}), "t": ("B1", {"B3"})}
    assert rows["B3"].subscriptions == {"t": ("B2", set())}


def test_the_oracle_handles_single_and_divided_brokers() -> None:
    rows = expected_tables([], [(advertisement("a"), "B1")], [(subscription("s"), "B1")])
    assert rows["B1"].advertisements == {"a": None}
    assert rows["B1"].subscriptions == {"s": (None, frozenset())}
    rows = expected_tables(LINE[:1], [(advertisement("a"), "B3")], [(subscription("s"), "B1")])
    assert (rows["B1"].advertisements, rows["B3"].advertisements) == ({}, {"a": None})
    assert rows["B1"].subscriptions == {"s": (None, frozenset())}


def test_each_row_that_differs_is_named() -> None:
    expected = expected_tables(LINE, [(advertisement("a"), "B1")], [(subscription("s"), "B1")])
    tables = {broker: RoutingTable() for broker in ("B1", "B2", "B3")}
    tables["B1"].add_advertisement(advertisement("a"), None)
    tables["B1"].add_subscription(subscription("s"), None)
    tables["B2"].add_advertisement(advertisement("a"), "B3")
    tables["B3"].add_advertisement(advertisement("a"), "B2")
    tables["B3"].mark_forwarded(tables["B3"].add_subscription(subscription("s"), "B2"), "B2")
    assert check_tables(expected, tables) == [
        "B2: advertisements a: B3, should be B1",
        "B3: subscriptions s: ('B2', frozenset({'B2'})), should be no row",
    ]
