"""Users go to brokers where others want the same, by themselves, and miss nothing."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Publication, Subscription
from shoal.overlays.dynatops.parameters import Parameters
from shoal.overlays.dynatops.records import PlacementRecord
from shoal.overlays.registry import strategy_factory
from shoal.simulation.world import World
from tests.overlays.dynatops.test_trees import SECOND_US, Near

BROKERS = ("A", "B", "C", "D")
# Two that want the same at each of two brokers.
SETTLED = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}
TOPIC_OF = {"A": "sport", "B": "news"}


def world(users: Mapping[str, tuple[str, str]], **options: object) -> World:
    """The settled ones, and later these: where they come, and what they want."""
    parameters = Parameters(brokers=BROKERS, topic="topic", update_us=SECOND_US, **options)  # type: ignore[arg-type]
    found = World((), strategy_factory("dynatops", parameters), Near(), brokers=BROKERS)
    settled = {name: (home, TOPIC_OF[home]) for name, home in SETTLED.items()}
    for at_us, some in ((0, settled), (10 * SECOND_US, users)):
        for name, (home, topic) in some.items():
            found.add_subscriber(name, home)
            wants = Subscription(id=name, client=name, filter=parse(f"topic = '{topic}'"))
            found.subscribe(at_us, home, wants)
    return found


def moves(found: World) -> list[tuple[str, str]]:
    rows = [row for row in found.trace.records if isinstance(row, PlacementRecord)]
    return [(row.client, row.target) for row in rows]


def test_a_user_goes_where_others_want_the_same_and_misses_nothing() -> None:
    ring = world({"late": ("C", "news")}, cluster=4, load_weight=0.5)
    ring.add_publisher("P", "D", "D")
    ring.advertise(SECOND_US, Advertisement(id="P", publisher="P", filter=EVERYTHING))
    for number in range(60):
        at_us = (15 + number) * SECOND_US
        attributes = {"topic": "news"}
        said = Publication(
            publisher="P", sequence=number, published_us=at_us, attributes=attributes
        )
        ring.request(at_us, "P", Publish((said,)))
    ring.run()
    assert moves(ring) == [("late", "B")]
    assert {row.client: broker for row, broker in ring.subscriptions}["late"] == "B"
    got = [each.publication.sequence for each in ring.trace.deliveries if each.client == "late"]
    assert got == list(range(60))


def test_a_broker_that_has_much_to_do_is_no_place_for_it() -> None:
    assert moves(world_after(load_weight=0.5)) == [("late", "B")]
    assert moves(world_after(load_weight=3.0)) == []


def world_after(load_weight: float) -> World:
    ring = world({"late": ("C", "news")}, cluster=4, load_weight=load_weight)
    ring.run()
    return ring


def test_users_see_no_brokers_of_other_clusters_and_stay_unless_they_are_to_go() -> None:
    for cluster in (0, 2):  # A and B, C and D
        ring = world({"late": ("C", "news")}, cluster=cluster)
        ring.run()
        assert moves(ring) == []
