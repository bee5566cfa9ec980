"""The routing table: rows know the rows that they overlap, whatever order they come and go in."""

from __future__ import annotations

from random import Random

from shoal.matching import matches, overlaps
from shoal.model import Value
from shoal.overlays.tree.routing_rows import AdvertisementEntry, SubscriptionEntry
from shoal.overlays.tree.routing_table import RoutingTable
from tests.broker.transcript import advertisement, subscription
from tests.calls import Calls
from tests.overlays.hard_pairs import MANY, hostile_one, hostile_patterns

Goes = tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]
NOWHERE: Goes = ((), ())


def route_of(table: RoutingTable, **attributes: Value) -> Goes:
    """The route of a publication: neighbours, and clients."""
    route = table.routes.of(attributes)
    return route.neighbours, route.clients


def met_by(table: RoutingTable, entry: SubscriptionEntry) -> list[AdvertisementEntry]:
    """The advertisements that overlap a subscription, as the subscription knows."""
    return [row for row in table.advertisements.values() if row.advertised in entry.advertised]


def test_rows_know_the_rows_they_overlap() -> None:
    table = RoutingTable()
    low = table.add_advertisement(advertisement("low", "x < 5"), "B2")
    entry = table.add_subscription(subscription("s", "x = 3"), None)
    high = table.add_advertisement(advertisement("high", "x > 5"), "B3")
    both = table.add_advertisement(advertisement("both", "x > 0"), "B3")
    assert met_by(table, entry) == [low, both]
    assert (list(low.overlapping), list(high.overlapping)) == ([entry], [])
    assert [entry.is_wanted_by(hop) for hop in ("B2", "B3", "B4", None)] == [
        True,
        True,
        False,
        False,
    ]
    table.remove_advertisement(both)
    assert not entry.is_wanted_by("B3")
    table.remove_subscription(entry)
    assert (list(low.overlapping), table.subscriptions, route_of(table, x=3)) == (
        [],
        {},
        NOWHERE,
    )


def test_a_route_names_each_neighbour_and_client_once() -> None:
    table = RoutingTable()
    table.add_subscription(subscription("first", "x > 1 OR y = 1"), "B2")
    table.add_subscription(subscription("second", "x > 2"), None)
    table.add_subscription(subscription("third", "x > 2"), "B3")
    table.add_subscription(subscription("fourth", "x > 3"), "B2")
    table.add_subscription(subscription("fifth", "x > 3"), None)
    assert route_of(table, x=2, y=1) == (("B2",), ())
    assert route_of(table, x=3) == (("B2", "B3"), (("C", ("second",)),))
    assert route_of(table, x=4) == (("B2", "B3"), (("C", ("second", "fifth")),))


def test_an_id_may_return_with_another_filter() -> None:
    table = RoutingTable()
    old = table.add_subscription(subscription("s", "x > 1"), "B2")
    assert route_of(table, x=2) == (("B2",), ())
    table.remove_subscription(old)
    table.add_subscription(subscription("s", "x < 1"), "B3")
    assert (route_of(table, x=0), route_of(table, x=2)) == ((("B3",), ()), NOWHERE)


def test_after_any_history_the_table_equals_one_made_anew() -> None:
    random = Random(4)
    table = RoutingTable()
    for step in range(500):
        text = f"x {random.choice('<>=')} {random.randrange(6)}"
        match random.choice((0, 0, 1, 1, 2, 3, 4, 5)):
            case 0:
                table.add_advertisement(advertisement(f"a{step}", text), random.choice("AB"))
            case 1:
                wanted = subscription(f"s{step}", text, client=random.choice("xyz"))
                table.add_subscription(wanted, random.choice(["A", "B", None]))
            case 2 if table.advertisements:
                table.remove_advertisement(random.choice(list(table.advertisements.values())))
            case 3 if table.subscriptions:
                table.remove_subscription(random.choice(list(table.subscriptions.values())))
            case 4 if table.advertisements:
                row = random.choice(list(table.advertisements.values()))
                table.turn_advertisement(row, random.choice("AB"))
            case 5 if table.subscriptions:
                entry = random.choice(list(table.subscriptions.values()))
                table.turn_subscription(entry, random.choice(["A", "B", None]))
    rows, entries = table.advertisements.values(), table.subscriptions.values()
    assert len(rows) >= 5
    for entry in entries:
        filter = entry.subscription.filter
        met = met_by(table, entry)
        assert met == [r for r in rows if overlaps(filter, r.advertisement.filter)]
        assert all(entry in row.overlapping for row in met)
        for hop in "ABC":
            hops = [row.last_hop for row in met]
            assert entry.is_wanted_by(hop) == (hop in hops)
            assert entry.is_wanted_beyond(hop) == any(each != hop for each in hops)
    for x in range(-1, 7):
        found = [e for e in entries if matches(e.subscription.filter, {"x": x})]
        hops = {e.last_hop for e in found} - {None}
        assert sorted(table.routes.of({"x": x}).neighbours) == sorted(hops)
    for client in "xyz":
        here = {e.id for e in entries if e.client == client and e.last_hop is None}
        assert set(table.local.of(client)) == here
    published = table.published
    assert {(name, id) for name in published.keys for id in published.of(name)} == {
        (row.advertisement.publisher, row.advertisement.id) for row in rows
    }


def test_an_advertisement_of_many_is_compared_once() -> None:
    """The front end of each of 1,000 brokers advertises everything."""
    one, many = RoutingTable(), RoutingTable()
    for table, count in ((one, 1), (many, 1_000)):
        for number in range(count):
            promise = advertisement(f"a{number}", "x IS NULL OR x IS NOT NULL")
            table.add_advertisement(promise, f"B{number}")
    wanted, spent = subscription("s", "x > 5"), []
    for table in (one, many):
        with Calls() as calls:
            entry = table.add_subscription(wanted, None)
            assert entry.is_wanted_by("B0")
            table.remove_subscription(entry)
        spent.append(calls.count)
    assert spent[1] <= 1.1 * spent[0]
    entry = many.add_subscription(wanted, None)
    assert entry.wanting == {f"B{number}" for number in range(1_000)}
    for row in list(many.advertisements.values())[:999]:
        many.remove_advertisement(row)
    assert entry.wanting == {"B999"}
    many.remove_advertisement(many.advertisements["a999"])
    assert (entry.wanting, entry.advertised) == (set(), {})


def test_one_row_against_many_costly_ones_takes_bounded_work() -> None:
    """Without a bound a SUBSCRIBE against 1,000 such advertisements holds a broker for 12 s."""
    against = hostile_one()
    by_advertisement, by_subscription = RoutingTable(), RoutingTable()
    for number, text in enumerate(hostile_patterns()):
        by_advertisement.add_advertisement(advertisement(f"a{number}", text), "B2")
        by_subscription.add_subscription(subscription(f"s{number}", text), "B2")
    good = by_advertisement.add_advertisement(advertisement("good", "x > 5"), "B3")
    with Calls() as calls:
        entry = by_advertisement.add_subscription(subscription("s", against), None)
        row = by_subscription.add_advertisement(advertisement("a", against), None)
    assert calls.count < 700_000
    # Uncompared rows count as overlapping: an unwanted subscription does no harm.
    assert entry.is_wanted_by("B2")
    assert len(row.overlapping) == MANY
    # The next one has the same bound again.
    other = by_advertisement.add_subscription(subscription("other", "x < 5 AND s = 'c'"), None)
    assert good not in met_by(by_advertisement, other)
    assert not other.is_wanted_by("B2")


def test_an_advertisement_among_many_attracts_only_overlapping_subscriptions() -> None:
    """Also among 20,000 others, where a bound by number would take 18,400 for overlapping."""
    random = Random(3)
    by_subscription, by_advertisement = RoutingTable(), RoutingTable()
    for number in range(5_000):
        text = f"class = 'STOCK' AND price > {random.randrange(100)}"
        by_subscription.add_subscription(subscription(f"s{number}", text), "B2")
        by_advertisement.add_advertisement(advertisement(f"a{number}", text), "B2")
    asked = "class = 'STOCK' AND price < 2"
    row = by_subscription.add_advertisement(advertisement("a", asked), None)
    found = [
        overlaps(each.subscription.filter, row.advertisement.filter)
        for each in by_subscription.subscriptions.values()
    ]
    assert 0 < len(row.overlapping) == sum(found) < 200
    entry = by_advertisement.add_subscription(subscription("s", asked), None)
    assert len(met_by(by_advertisement, entry)) == sum(found)
    assert entry.is_wanted_by("B2")
    nobody = by_advertisement.add_subscription(subscription("n", "price < 0"), None)
    assert not nobody.is_wanted_by("B2")
