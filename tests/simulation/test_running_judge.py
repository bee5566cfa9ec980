"""A judge of deliveries in parts finds what a judge of all of them finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.model import Publication
from shoal.simulation.judging.checkers import tally
from shoal.simulation.judging.running_judge import RunningJudge
from shoal.simulation.trace import DeliveryEvent

FILTERS = {"s1": parse("x >= 2"), "s2": parse("x < 2"), "s3": parse("TRUE")}


def delivery(
    publisher: str, sequence: int, names: tuple[str, ...], made_us: int, takes_us: int
) -> tuple[int, DeliveryEvent]:
    publication = Publication(
        publisher=publisher, sequence=sequence, published_us=0, attributes={"x": sequence}
    )
    return made_us, DeliveryEvent(publication, names, "c", "B", made_us + takes_us, 1)


DELIVERIES = st.lists(
    st.builds(
        delivery,
        st.sampled_from(["p", "q"]),
        st.integers(0, 3),
        st.sampled_from([("s1",), ("s1", "s2"), ("s2", "s3")]),
        st.integers(0, 12),
        st.integers(0, 5),
    ),
    max_size=30,
).map(lambda found: sorted(found, key=lambda each: each[0]))


@given(DELIVERIES, st.sets(st.integers(0, 12)))
def test_parts_count_as_the_whole(made: list[tuple[int, DeliveryEvent]], ends: set[int]) -> None:
    judge, begin_us = RunningJudge(FILTERS, {"s2"}), 0
    for end_us in [*sorted(ends), 20]:
        part = [each for made_us, each in made if begin_us <= made_us < end_us]
        judge.take(part, end_us)
        begin_us = end_us
    every = [each for _, each in made]
    counts, out_of_order = tally(sorted(every, key=lambda each: each.delivered_us))
    assert judge.delivered == counts.total()
    assert judge.out_of_order == sum(name != "s2" for _, name in out_of_order)
    keys = [(*each.publication.key, name) for each in every for name in each.subscriptions]
    assert judge.duplicates(keys) == counts.total() - len(counts)
    assert judge.phantoms == sum(
        not {"s1": sequence >= 2, "s2": sequence < 2, "s3": True}[name]
        for _, sequence, name in keys
    )


def test_late_deliveries_are_told_from_duplicates() -> None:
    judge = RunningJudge(FILTERS, frozenset())
    order = [2, 3, 2, 3, 1]  # the second 3 follows a 2, and is in order
    found = [delivery("p", sequence, ("s3",), at, 0)[1] for at, sequence in enumerate(order)]
    judge.take(found, 10)
    assert judge.suspects == {("p", sequence, "s3") for sequence in (1, 2, 3)}
    assert (judge.out_of_order, judge.duplicates([*map(_key, found)])) == (2, 2)


def _key(delivery: DeliveryEvent) -> tuple[str, int, str]:
    return (*delivery.publication.key, delivery.subscriptions[0])
