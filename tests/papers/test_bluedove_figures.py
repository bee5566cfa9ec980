"""BlueDove's own examples: figures 2, 3 and 4 (sections III-A and III-B)."""

from __future__ import annotations

from random import Random

from shoal.language import parse
from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.cluster.forwarding import Candidate, Load, Policy, choose, processing_s
from shoal.overlays.bluedove.cluster.members import Member, MemberTable
from shoal.overlays.bluedove.cluster.planner import copies, initial_segments, ranges_of

# Figure 2: three dimensions of six segments, one of each for the matchers A to F.
LONGITUDE = Dimension(attribute="longitude", low=-180, high=180)
LATITUDE = Dimension(attribute="latitude", low=-90, high=90)
SPEED = Dimension(attribute="speed", low=0, high=120)


def table(dimensions: tuple[Dimension, ...], matchers: str) -> MemberTable:
    made = MemberTable(len(dimensions))
    segments = initial_segments(dimensions, tuple(matchers))
    made.merge(
        [
            Member(broker=name, generation=1, version=1, segments=segments[name])
            for name in matchers
        ],
        now_us=0,
    )
    return made


def test_figure_2_a_subscription_is_stored_at_four_matchers_along_three_dimensions() -> None:
    dimensions = (LONGITUDE, LATITUDE, SPEED)
    filter = parse(
        "longitude >= -42 AND longitude < -41 AND latitude >= 70 AND latitude < 74 "
        "AND speed >= 0 AND speed < 25"
    )
    planned = copies(table(dimensions, "ABCDEF"), ranges_of(dimensions, filter))
    assert planned.searched == {"C": (0,), "F": (1,), "A": (2,), "B": (2,)}
    assert planned.replicas == {}


def test_figure_2_every_publication_that_matches_finds_it_on_each_dimension() -> None:
    dimensions = (LONGITUDE, LATITUDE, SPEED)
    members = table(dimensions, "ABCDEF")
    publication = {"longitude": -41.5, "latitude": 71.0, "speed": 22.0}
    candidates = [
        members.owners(number, dimension.place(publication))
        for number, dimension in enumerate(dimensions)
    ]
    assert candidates == [("C",), ("F",), ("B",)]


def test_figure_3_the_matcher_with_fewer_subscriptions_on_its_dimension_is_chosen() -> None:
    """The dot lies in column X4, which is D's with 4 subscriptions, and row Y1, A's with 13."""
    dimensions = (Dimension(attribute="x"), Dimension(attribute="y"))
    members = table(dimensions, "ABCD")
    sizes = {"D": 4, "A": 13}
    publication = {"x": 800, "y": 100}
    candidates = []
    for number, dimension in enumerate(dimensions):
        (owner,) = members.owners(number, dimension.place(publication))
        load = Load(queue=0, arrival_per_s=0, matching_per_s=1, subscriptions=sizes[owner])
        candidates.append(Candidate(number, owner, load, 0))
    chosen = choose(Policy.SUBSCRIPTIONS, candidates, 0, Random(1))
    assert (chosen.dimension, chosen.matcher) == (0, "D")


def test_figure_4_with_extrapolation_messages_turn_to_b_before_the_next_update() -> None:
    """A and B match equally fast; A has the shorter queue, and gets everything at first."""
    a = Load(queue=0, arrival_per_s=200, matching_per_s=100, subscriptions=1)
    b = Load(queue=50, arrival_per_s=0, matching_per_s=100, subscriptions=1)
    candidates = [Candidate(0, "A", a, 0), Candidate(1, "B", b, 0)]
    times_us = range(0, 1_000_000, 100_000)

    def chosen(policy: Policy) -> str:
        return "".join(choose(policy, candidates, now_us, Random(1)).matcher for now_us in times_us)

    assert chosen(Policy.RESPONSE_TIME) == "AAAAAAAAAA"
    assert chosen(Policy.ADAPTIVE) == "AAABBBBBBB"
    assert processing_s(a, 0, 300_000) > processing_s(b, 0, 300_000)
