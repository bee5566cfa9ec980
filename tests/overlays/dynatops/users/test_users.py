"""Users move to brokers where others want the same, and miss nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import Message, Publish
from shoal.clients.front_ends import StandsFor, Stayed, Wants, Wish
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Publication, Subscription
from shoal.overlays.dynatops.parameters import DynatopsParameters, PlacementParameters
from shoal.overlays.dynatops.planning.placement import HashRing
from shoal.overlays.dynatops.records import PlacementRecord
from shoal.overlays.registry import strategy_factory
from shoal.simulation.world import World
from tests.overlays.dynatops.test_trees import SECOND_US, Near

BROKERS = ("A", "B", "C", "D")
# Two users with the same wish at each of two brokers.
SETTLED = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}
TOPIC_OF = {"A": "sport", "B": "news"}


def world(users: Mapping[str, tuple[str, str]], **options: object) -> World:
    """The settled users, and later these, with their brokers and topics."""
    parameters = DynatopsParameters(brokers=BROKERS, topic="topic", update_us=SECOND_US, **options)  # type: ignore[arg-type]
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


def publish_news(ring: World) -> None:
    """Sixty publications, one a second, after the late users have come."""
    ring.add_publisher("P", "D", "D")
    ring.advertise(SECOND_US, Advertisement(id="P", publisher="P", filter=EVERYTHING))
    for number in range(60):
        at_us = (15 + number) * SECOND_US
        attributes = {"topic": "news"}
        said = Publication(
            publisher="P", sequence=number, published_us=at_us, attributes=attributes
        )
        ring.request(at_us, "P", Publish((said,)))


def test_a_user_moves_to_similar_users_and_misses_nothing() -> None:
    ring = world({"late": ("C", "news")}, cluster=4, load_weight=0.5)
    publish_news(ring)
    ring.run()
    assert moves(ring) == [("late", "B")]
    assert {row.client: broker for row, broker in ring.subscriptions}["late"] == "B"
    got = [each.publication.sequence for each in ring.trace.deliveries if each.client == "late"]
    assert got == list(range(60))


def test_a_user_does_not_move_to_a_loaded_broker() -> None:
    assert moves(world_after(load_weight=0.5)) == [("late", "B")]
    assert moves(world_after(load_weight=3.0)) == []


def world_after(load_weight: float) -> World:
    ring = world({"late": ("C", "news")}, cluster=4, load_weight=load_weight)
    ring.run()
    return ring


def test_users_stay_in_their_cluster_and_stay_when_placing_is_off() -> None:
    for cluster in (0, 2):  # A and B, C and D
        ring = world({"late": ("C", "news")}, cluster=cluster)
        ring.run()
        assert moves(ring) == []


def test_brokers_place_early_users_one_after_the_other() -> None:
    """Two users with a wish of their own are at two brokers: only one moves."""
    ring = world({}, cluster=4, load_weight=0.0)
    for name, home in (("c", "C"), ("d", "D")):
        ring.add_subscriber(name, home)
        ring.subscribe(0, home, Subscription(id=name, client=name, filter=parse("topic = 'art'")))
    ring.run()
    assert moves(ring) == [("c", "D")]


def test_users_are_placed_by_hash_whatever_they_want_and_miss_nothing() -> None:
    late = {f"late{number}": (BROKERS[number % 4], "news") for number in range(12)}
    ring = world(late, placement=PlacementParameters.HASH)
    publish_news(ring)
    ring.run()
    hashed = HashRing(BROKERS)
    homes = SETTLED | {name: home for name, (home, _) in late.items()}
    expected = {
        (user, hashed.broker_of(user))
        for user, home in homes.items()
        if hashed.broker_of(user) != home
    }
    assert len(moves(ring)) == len(expected) > 6
    assert set(moves(ring)) == expected
    for name in late:
        got = [each.publication.sequence for each in ring.trace.deliveries if each.client == name]
        assert got == list(range(60))


def test_users_of_any_topic_are_placed_by_hash() -> None:
    ring = world({}, placement=PlacementParameters.HASH)
    home = next(each for each in BROKERS if each != HashRing(BROKERS).broker_of("all"))
    ring.add_subscriber("all", home)
    ring.subscribe(0, home, Subscription(id="all", client="all", filter=EVERYTHING))
    ring.run()
    assert ("all", HashRing(BROKERS).broker_of("all")) in moves(ring)


def test_users_are_placed_by_hash_again_when_a_broker_joins_and_leaves() -> None:
    users = {f"u{number}": ("A", "art") for number in range(20)}
    ring = world(users, placement=PlacementParameters.HASH)
    ring.run(30 * SECOND_US)
    before = len(moves(ring))
    ring.add_broker(31 * SECOND_US, "E", ["A"])
    ring.run(60 * SECOND_US)
    ring.remove_broker(61 * SECOND_US, "E")
    ring.run(120 * SECOND_US)
    names = [*SETTLED, *users]
    with_e, without = HashRing([*BROKERS, "E"]), HashRing(BROKERS)
    theirs = {(name, "E") for name in names if with_e.broker_of(name) == "E"}
    assert set(moves(ring)[before:][: len(theirs)]) == theirs
    at = {row.client: broker for row, broker in ring.subscriptions}
    assert at == {name: without.broker_of(name) for name in names}


def test_users_placed_by_hash_have_no_clusters() -> None:
    with pytest.raises(ValueError, match="cluster: 4"):
        DynatopsParameters(cluster=4, placement=PlacementParameters.HASH)


# --- users behind front ends -----------------------------------------------------------------


class Behind:
    """A front end at C with these clients; both topics are wanted elsewhere."""

    def __init__(self) -> None:
        self.ring = world({}, cluster=4, load_weight=0.0)
        self.now_us = SECOND_US
        self.ring.add_subscriber("front_end", "C")
        for topic in ("sport", "news"):
            wants = Subscription(id=topic, client="front_end", filter=parse(f"topic = '{topic}'"))
            self.ring.subscribe(0, "C", wants)
        self.ring.run(self.now_us)
        self.say(StandsFor())

    def say(self, request: Message) -> None:
        self.ring.brokers["C"].bring(self.now_us, Requested("front_end", request))
        self.now_us += 5 * SECOND_US
        self.ring.run(self.now_us)

    def wishes(self, *wishes: Wish) -> None:
        self.say(Wants(wishes))


def follower(*topics: str, since_us: int = 0) -> Wish:
    return Wish("u", topics, since_us, follows=True)


def test_a_front_ends_clients_are_users_and_it_is_none() -> None:
    front_end = Behind()
    assert moves(front_end.ring) == []
    front_end.wishes(follower("sport"), Wish("stays", ("news",)), Wish("away", ()))
    assert moves(front_end.ring) == [("u", "A")]


def test_a_moved_user_is_not_placed_until_it_stays_or_returns() -> None:
    front_end = Behind()
    front_end.wishes(follower("sport"))
    front_end.wishes(follower("news"))
    assert moves(front_end.ring) == [("u", "A")]
    front_end.say(Stayed("u"))
    front_end.wishes(follower("news"))
    assert moves(front_end.ring) == [("u", "A"), ("u", "B")]
    front_end.wishes(follower("news", since_us=7))
    assert moves(front_end.ring) == [("u", "A"), ("u", "B"), ("u", "B")]
    front_end.wishes(Wish("u", ()))
    front_end.wishes(follower("sport"))
    assert len(moves(front_end.ring)) == 4


def test_a_user_that_does_not_follow_counts_at_its_broker() -> None:
    front_end = Behind()
    front_end.wishes(Wish("stays", ("sport",)))
    front_end.wishes(follower("sport"))
    assert moves(front_end.ring) == []


def test_a_front_end_may_report_a_user_that_is_a_client_itself() -> None:
    front_end = Behind()
    front_end.ring.add_subscriber("u", "C")
    own = Subscription(id="own", client="u", filter=parse("topic = 'art'"))
    front_end.ring.subscribe(front_end.now_us, "C", own)
    front_end.wishes(Wish("u", ("sport",)))
    front_end.ring.unsubscribe(front_end.now_us, "C", own)
    front_end.wishes(Wish("u", ()))
    assert moves(front_end.ring) == []
