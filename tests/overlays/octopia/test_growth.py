"""Brokers join and leave a product; `tests/contract/test_growth.py` uses processes."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec
import pytest

from shoal.broker.effects import (
    Effect,
    EndLink,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    Received,
    Returned,
    Send,
    Started,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Subscribe, Unsubscribe
from shoal.broker.strategy import BrokerContext
from shoal.model import Subscription
from shoal.overlays.octopia.messages import (
    HomeChange,
    HomeTable,
    Notification,
    Parted,
    TurnTables,
)
from shoal.overlays.octopia.oracle import problems
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.places.labels import Position, Product
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, Roster, RosterPlace
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.octopia.routing import RETRY
from shoal.overlays.system import Picture
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import one_in
from tests.overlays.octopia.order.crowded import break_and_return, carry_all_but
from tests.overlays.octopia.stages import ProductStage, rows
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import UNTIL_US, SeededUnderlay

SECOND_US = 1_000_000
ROWS = (("A", "B"), ("C", "D"))


# Cases: a leaving broker with children; changed entries; more links than a tree has; a client that
# is moved from two brokers at once; lossy links.
@pytest.mark.parametrize(
    ("seed", "lossy"),
    one_in(3, [(36, False), (41, False), (120, False), (0, True), (59, False), (3, True)]),
)
def test_joins_and_leaves_disturb_no_client(seed: int, lossy: bool) -> None:
    network = ChangingNetwork(seed, system="octopia", lossy=lossy)
    assert network.run(UNTIL_US) == []
    assert network.world.departures or lossy


class Growing:
    """A product of two clusters with a publisher at A and subscribers anywhere."""

    def __init__(self, later: OctopiaParameters | None = None) -> None:
        parameters = OctopiaParameters(rows=(ROWS[0], (ROWS[1][0], "")) if later else ROWS)

        def strategy(context: BrokerContext) -> Octopia:
            return Octopia(context, (later if context.broker == "D" else None) or parameters)

        links = parameters.product().links
        self.world = World(links, strategy, SeededUnderlay(1), seed=1)
        self.world.add_publisher("P", "A", "P")
        self.promise = advertisement("p")
        self.world.advertise(0, self.promise)
        self.subscribed: list[tuple[Subscription, str]] = []
        self.sent = 0

    def subscribe(self, at_us: int, *brokers: str) -> None:
        for broker in brokers:
            row = subscription(broker, client=f"S{broker}")
            self.world.add_subscriber(row.client, broker)
            self.world.subscribe(at_us, broker, row)
            self.subscribed.append((row, broker))

    def publish(self, at_us: int) -> None:
        self.sent += 1
        self.world.request(at_us, "P", publish(self.sent))

    def got(self) -> list[tuple[str, int]]:
        rows = self.world.trace.deliveries
        return sorted((row.client, row.publication.sequence) for row in rows)

    def problems(self) -> list[str]:
        picture = Picture(self.world.links, [(self.promise, "A")], self.subscribed)
        strategies = {name: node.machine.strategy for name, node in self.world.brokers.items()}
        return problems(picture, strategies)

    def position(self, broker: str) -> tuple[int, int]:
        found = {
            node.machine.strategy.product.position(broker) for node in self.world.brokers.values()
        }
        (position,) = found
        return tuple(position)


def test_joining_brokers_fill_regions_in_turn_and_keep_places_over_a_restart() -> None:
    here = Growing()
    for number, beside in enumerate("DNA"):
        new = f"N{number}" if number else "N"
        here.world.add_broker(number * SECOND_US, new, [beside])
    here.subscribe(5 * SECOND_US, "N", "N1", "N2", "D")
    here.world.run(6 * SECOND_US)
    assert [here.position(name) for name in ("N", "N1", "N2")] == [(2, 0), (2, 1), (3, 0)]
    assert here.problems() == []
    here.publish(7 * SECOND_US)
    here.world.run(9 * SECOND_US)
    names = list(here.world.brokers)
    for name in names:
        here.world.crash(10 * SECOND_US, name)
        here.world.restart(15 * SECOND_US, name)
    here.publish(40 * SECOND_US)
    here.world.run(50 * SECOND_US)
    assert here.problems() == []
    assert [here.position(name) for name in ("N", "N1", "N2")] == [(2, 0), (2, 1), (3, 0)]
    everybody = [f"S{name}" for name in ("D", "N", "N1", "N2")]
    assert here.got() == sorted((client, number) for client in everybody for number in (1, 2))


def test_a_joining_broker_may_name_its_place() -> None:
    """A broker with a named place fills a gap of a region that was never full."""
    here = Growing(OctopiaParameters(rows=ROWS))
    here.subscribe(0, "B", "C")
    here.publish(2 * SECOND_US)
    here.world.add_broker(3 * SECOND_US, "D", ["A"])
    here.subscribe(6 * SECOND_US, "D")
    here.publish(9 * SECOND_US)
    here.world.run(12 * SECOND_US)
    assert here.position("D") == (1, 1)
    assert here.problems() == []
    assert here.got() == [("SB", 1), ("SB", 2), ("SC", 1), ("SC", 2), ("SD", 2)]


def test_a_cluster_and_a_region_leave_broker_by_broker() -> None:
    here = Growing()
    here.subscribe(0, "A", "C")
    for name in ("B", "D", "C"):
        here.world.remove_broker(3 * SECOND_US, name)
    here.publish(30 * SECOND_US)
    here.world.run(60 * SECOND_US)
    assert set(here.world.departures) == {"B", "D", "C"}
    here.subscribed = [(row, here.world.broker_for(home)) for row, home in here.subscribed]
    assert here.problems() == []
    assert here.got() == [("SA", 1), ("SC", 1)]


def test_one_broker_leaves_at_a_time_and_a_stuck_one_blocks_briefly() -> None:
    roster = Roster(Product(ROWS))
    assert roster.registrar == "A"
    wishes = [
        roster.changed(name, at_us, PlaceStage.WANTS_TO_GO) for at_us, name in ((7, "D"), (5, "C"))
    ]
    assert roster.merge(wishes) == wishes
    assert [(each.broker, each.stay) for each in roster.decide(10)] == [("C", PlaceStage.GOES)]
    assert roster.decide(20) == []
    assert [each.broker for each in roster.decide(40_000_000)] == ["D"]
    assert roster.merge(wishes) == []


def test_the_registrar_is_a_broker_that_stays() -> None:
    roster = Roster(Product(ROWS))
    roster.merge([roster.changed("A", 1, PlaceStage.WANTS_TO_GO)])
    assert roster.registrar == "B"
    roster.merge([roster.changed(name, 2, PlaceStage.WANTS_TO_GO) for name in "BCD"])
    assert roster.registrar == "A"


def test_the_first_of_two_brokers_gets_a_named_place() -> None:
    roster = Roster(Product(ROWS))
    news = [
        RosterPlace("E", 9, PlaceStage.THERE, 9, 2, 0, 0),
        RosterPlace("F", 8, PlaceStage.THERE, 8, 2, 0, 0),
    ]
    for order in (news, news[::-1]):
        roster = Roster(Product(ROWS))
        roster.merge(order)
        assert roster.product.at(Position(2, 0)) == "F"
        assert "E" not in roster.product


def test_a_founder_that_left_and_came_back_is_the_last_of_its_cluster() -> None:
    """Also where a restarted broker has only the last news of it: D is the top since then."""
    roster = Roster(Product(ROWS))
    roster.merge([RosterPlace("B", 9, PlaceStage.THERE, 9, 0, 1)])
    assert roster.product.joined(1) == {1: 0, 0: 9}
    assert roster.product.best_above(0, 1) == 1
    assert roster.product.best_above(1, 1) is None


def test_a_founder_that_left_and_came_back_links_again_after_a_restart() -> None:
    here = Growing()
    here.subscribe(0, "C", "D")
    here.world.remove_broker(3 * SECOND_US, "B")
    here.world.add_broker(8 * SECOND_US, "B", ["A"])
    here.world.crash(15 * SECOND_US, "B")
    here.world.restart(15 * SECOND_US + 300_000, "B")
    here.publish(40 * SECOND_US)
    here.world.run(60 * SECOND_US)
    assert here.problems() == []
    assert here.got() == [("SC", 1), ("SD", 1)]


def test_a_later_broker_is_never_a_parent_of_an_earlier_one() -> None:
    product = Product(ROWS)
    product.remove("A")
    product.place("N", Position(0, 0), 5)
    assert product.above(1, 0) == []
    assert product.above(0, 0) == [1]
    assert (product.best_above(1, 0), product.best_above(0, 0)) == (None, 1)
    assert product.regions_of(0) == [1, 0]
    assert product.position("A") == (0, 0)
    assert "A" not in product


def test_a_broker_with_a_named_place_may_join_at_any_broker() -> None:
    """The broker at its given address is no entry of it, so it must not await that one's bits."""
    here = Growing(OctopiaParameters(rows=(("A", "B", "D"), ("C", "", ""))))
    here.world.add_broker(3 * SECOND_US, "D", ["C"])
    here.subscribe(6 * SECOND_US, "D")
    here.publish(9 * SECOND_US)
    here.world.run(12 * SECOND_US)
    assert here.position("D") == (0, 2)
    strategy = here.world.brokers["D"].machine.strategy
    assert strategy.is_ready
    assert here.problems() == []
    assert here.got() == [("SD", 1)]


def test_a_link_to_a_departed_broker_ends_at_a_broker_that_was_down() -> None:
    """The broker that was down must not dial for ever."""
    here = ProductStage("ab", (0,), 2)
    here.break_link("a0", "a1")
    left = PlacesAnnounced((RosterPlace("a1", 5, PlaceStage.LEFT, 0, 0, 1),))
    assert EndLink("a1") in here.handle("a0", Received("b0", left))
    assert EndLink("a1") not in here.handle("b1", Received("b0", left))
    assert EndLink("a1") in here.handle("b1", LinkChanged("a1", LinkState.FAILED))


def test_a_link_to_a_broker_that_joined_and_left_during_an_absence_ends() -> None:
    """The link is in no network file, and must not be dialled for ever (random growth)."""
    context = BrokerContext("b0", (), Random(1), expected=("a0", "b1", "n"))
    strategy, out = (
        Octopia(context, OctopiaParameters(rows=rows("ab", 2), parents=(0,))),
        list[Effect](),
    )
    strategy.start(Started(former=("a0", "b1", "n"), give_up_us=3 * SECOND_US, facts={}), 1, out)
    strategy.link("a0", LinkState.UP, 2, out)
    assert EndLink("n") not in out
    strategy.receive(
        "a0", PlacesAnnounced((RosterPlace("n", 5, PlaceStage.LEFT, 4, 2, 0, 1),)), 3, out
    )
    assert EndLink("n") in out


@pytest.mark.parametrize("heard", [0, 1, 2, 3])
def test_a_leaving_broker_repeats_its_request_to_a_restarted_neighbour(heard: int) -> None:
    """A neighbour that restarts unnoticed has lost the request; the leaving broker must repeat it.

    Otherwise it and all later leaving brokers wait for ever (random growth).
    """
    here = ProductStage("ab", (0,), 1)
    here.handle("b0", Leave())
    words = [*here.links["b0", "a0"]]
    assert words
    for _ in range(heard):
        for way in (("b0", "a0"), ("a0", "b0")):
            here.carry(*way, len(here.links[way]))
    for way in here.links:
        here.links[way].clear()
    here.mend_link("a0", "b0")
    here.settle()
    assert here.brokers["a0"].strategy.product.brokers == ("a0",)


def link(here: ProductStage, left: str, right: str) -> None:
    for way in ((left, right), (right, left)):
        here.links.setdefault(way, deque())
    here.mend_link(left, right)


@pytest.mark.parametrize("is_told", ["at once", "with who comes in its place", "in between"])
def test_a_cut_off_brokers_rows_are_dropped_after_its_leave(is_told: str) -> None:
    """It was the first of its cluster, and cut off from all of it.

    Its rows and the hosts' bits for them must not stay (random growth).
    """
    here = ProductStage("ab", (0,), 2)
    here.ask("a0", "S", Subscribe(subscription("s", client="S")))
    here.ask("b1", "P", Advertise(advertisement("p")))
    here.settle()
    assert here.bits("b1", "p") == 1
    said = [each for source, _, each in here.sent(HomeChange) if source == "a0"]
    here.break_link("a0", "b0")
    here.ask("a0", "S", Unsubscribe("s"))
    left = RosterPlace("a0", 5, PlaceStage.LEFT, 0, 0, 0)
    came = RosterPlace("N", 9, PlaceStage.THERE, 9, 0, 0)
    if is_told == "with who comes in its place":
        here.tell("b1", "b0", PlacesAnnounced((came, left)))
        assert here.brokers["b0"].strategy.tables.homes[0].since == 9
    else:
        here.tell("b1", "b0", PlacesAnnounced((left,)))
    if is_told == "in between":
        # Some of its last messages may still arrive, the rest not.
        link(here, "b0", "a0")
        (change,) = said
        version = here.brokers["b0"].strategy.tables.homes[0].version + 1
        here.tell("a0", "b0", msgspec.structs.replace(change, version=version))
        table = HomeTable(0, version + 1, None, change.added)
        here.tell("a0", "b0", table)
    here.settle()
    assert not here.brokers["b0"].strategy.tables.subscriptions
    assert here.bits("b1", "p") == 0


def test_a_restarted_leaving_broker_leaves_on_the_next_order() -> None:
    """Its incarnation before the restart was granted the leave; the new one must link first.

    Otherwise it never ends, and other brokers are never ready (random growth).
    """
    parameters = OctopiaParameters(rows=ROWS)
    context = BrokerContext("D", (), Random(1), expected=("B", "C"))
    goes = msgspec.to_builtins([RosterPlace("D", 7, PlaceStage.GOES, 0, 1, 1, 0)])
    strategy, out = Octopia(context, parameters), list[Effect]()
    strategy.start(Started(former=("B", "C"), facts={"places": goes}), 1, out)
    assert Left() not in out
    strategy.leave(2, out)
    assert Left() not in out
    for neighbour in ("B", "C"):
        strategy.link(neighbour, LinkState.UP, 3, out)
    wish = RosterPlace("D", 8, PlaceStage.WANTS_TO_GO, 0, 1, 1, 0)
    said = [each.message for each in out if isinstance(each, Send) and each.neighbour == "B"]
    assert wish in said[0].places
    assert EndLink("B") not in out


def test_a_place_has_its_new_broker_once_the_former_ones_leave_is_known() -> None:
    roster = Roster(Product(ROWS))
    came = RosterPlace("N", 9, PlaceStage.THERE, 9, 0, 1, -1)
    assert roster.merge([came]) == [came]
    assert roster.product.at(Position(0, 1)) == "B"
    left = RosterPlace("B", 5, PlaceStage.LEFT, 0, 0, 1, -1)
    assert roster.merge([left]) == [left, came]
    assert roster.product.at(Position(0, 1)) == "N"


def leaving() -> ProductStage:
    """a0, which is above b0, is asked to leave, with 1 from P at a1 on its way to S at b0."""
    here = ProductStage("ab", (0,), 2)
    here.ask("b0", "S", Subscribe(subscription("s", client="S")))
    here.ask("a1", "P", Advertise(advertisement("p")))
    here.settle()
    link(here, "a1", "b0")
    here.ask("a1", "P", publish(1))
    here.carry("a1", "a0")
    here.handle("a0", Leave())
    return here


def test_a_leaving_broker_waits_for_publications_of_a_lost_link() -> None:
    """Publications on the lost link return later; a broker that left before would settle and lose
    them (random growth).
    """
    here = leaving()
    carry_all_but(here, ("a0", "b0"))
    break_and_return(here, "a0", "b0")
    assert here.brokers["a0"].strategy.description["kept"] == 1
    here.fire("a0", RETRY)
    here.settle()
    here.mend_link("a0", "b0")
    here.settle()
    assert here.delivered() == [(1, "S")]
    assert here.brokers["b0"].strategy.product.brokers == ("a1", "b0", "b1")


def test_a_leaving_broker_waits_for_publications_unsettled_at_its_last_neighbour() -> None:
    """b0 has received 1, and dies before 1 is settled."""
    here = leaving()
    carry_all_but(here, ("b0", "a0"))
    while not any(type(each) is Parted for each in here.links["b0", "a0"]):
        here.carry("b0", "a0")
        carry_all_but(here, ("b0", "a0"))
    (one,) = [each for source, _, each in here.sent(Notification) if source == "a0"]
    here.deliveries.clear()
    ends = ("a0", "a1", "b1")
    for other in ends:
        here.break_link("b0", other)
    here.brokers["b0"] = Broker("b0", (), here.factory, expected=ends)
    here.ask("b0", "S", Subscribe(subscription("s", client="S")))
    here.handle("a0", Returned("b0", one))
    here.fire("a0", RETRY)
    here.settle()
    for other in ends:
        here.mend_link("b0", other)
    here.settle()
    assert here.delivered() == [(1, "S")]
    assert here.brokers["b1"].strategy.product.brokers == ("a1", "b0", "b1")


@pytest.mark.parametrize("lost", ["b0", "c0"])
def test_a_leave_begins_anew_when_an_awaited_neighbour_is_lost(lost: str) -> None:
    """Otherwise the leaving broker and the others wait for each other for ever."""
    here = ProductStage("abc", (0, 0), 1)
    link(here, "b0", "c0")
    here.handle("a0", Leave())
    while not any(type(each) is TurnTables for each in here.links["a0", lost]):
        here.carry(*next(way for way, messages in here.links.items() if messages))
    other = "c0" if lost == "b0" else "b0"
    carry_all_but(here, ("a0", lost))
    here.break_link("a0", lost)
    here.fire("a0", RETRY)
    here.settle()
    assert here.brokers[other].strategy.product.brokers == ("b0", "c0")
