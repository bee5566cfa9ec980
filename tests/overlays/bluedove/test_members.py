"""The member table: newest entries win, and owners equal those of a search of all members."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.matching.segments import HIGHEST, LOWEST, Range
from shoal.overlays.bluedove.cluster.members import (
    NOTHING,
    WHOLE,
    Member,
    MemberTable,
    Segment,
    Status,
    is_serving,
)

PLACES = st.sampled_from([LOWEST, -3.0, 0.0, 1.0, 2.0, 5.0, HIGHEST])
BOUNDS = st.sampled_from([LOWEST, 0.0, 1.0, 2.0, 5.0, math.inf])
MEMBERS = st.lists(
    st.builds(
        Member,
        broker=st.sampled_from(["A", "B", "C", "D"]),
        generation=st.integers(0, 2),
        version=st.integers(1, 3),
        status=st.sampled_from(list(Status)),
        segments=st.tuples(st.builds(Segment, BOUNDS, BOUNDS)),
    ),
    max_size=8,
)


def table(*members: Member, dimensions: int = 1) -> MemberTable:
    made = MemberTable(dimensions)
    made.merge(members, 0)
    return made


def member(name: str, *segments: Segment, generation: int = 1, version: int = 1) -> Member:
    return Member(broker=name, generation=generation, version=version, segments=segments)


@given(MEMBERS, MEMBERS, st.sampled_from([None, "A"]))
def test_entries_that_are_left_out_would_not_be_taken(
    before: list[Member], after: list[Member], own: str | None
) -> None:
    tables = [MemberTable(1, own), MemberTable(1, own)]
    for made in tables:
        made.merge(before, 0)
        versions = np.frombuffer(made.heartbeats.to_bytes(), "<u4") + np.uint32(1)
        made.renew_all(versions.tobytes(), 1)
    whole, short = tables
    assert whole.merge(after, 2) == short.merge(short.without_known(after), 2)
    for one in (whole, short):
        assert one.ages == {name: each.age for name, each in one.members.items()}
    assert whole.members == short.members
    assert whole.contested == short.contested
    assert [whole.heartbeats.heard_us(name) for name in whole.names] == [
        short.heartbeats.heard_us(name) for name in short.names
    ]
    assert not short.without_known(short.members[name] for name in short.names if name != own)


@given(MEMBERS, PLACES, PLACES)
def test_owners_are_the_members_whose_segment_has_the_place(
    members: list[Member], low: float, high: float
) -> None:
    made = table(*members)
    serving = [row for row in made.members.values() if is_serving(row)]
    owners = {row.broker for row in serving if row.segments[0].has(low)}
    assert set(made.owners(0, low)) == owners
    met = made.owners_met(0, [Range(min(low, high), max(low, high))])
    assert len(met) == len(set(met))
    wanted = Range(min(low, high), max(low, high))
    assert set(met) >= {row.broker for row in serving if row.segments[0].meets([wanted])}
    in_hole = any(hole.has(low) for hole in made.holes(0))
    assert in_hole == (not owners)


@given(MEMBERS, st.permutations(range(8)))
def test_tables_agree_whatever_the_order_of_news(members: list[Member], order: list[int]) -> None:
    distinct = {(row.broker, row.age): row for row in members}.values()
    one = table(*distinct)
    other = table(*(list(distinct)[n] for n in order if n < len(distinct)))
    assert one.members == other.members


@given(MEMBERS, MEMBERS, st.permutations(range(8)))
def test_a_table_is_as_if_every_entry_were_compared(
    members: list[Member], others: list[Member], order: list[int]
) -> None:
    made, newest = table(*members), {}
    # Some incoming entries are the very objects in the table, as where tables are exchanged.
    coming = [*members, *others]
    made.merge([coming[n] for n in order if n < len(coming)], 1)
    for row in [*members, *(coming[n] for n in order if n < len(coming))]:
        if row.broker not in newest or row.age > newest[row.broker].age:
            newest[row.broker] = row
    assert made.members == newest
    assert list(made.ages.items()) == [(name, newest[name].age) for name in sorted(newest)]


@given(MEMBERS, MEMBERS)
def test_heartbeats_renew_otherwise_equal_entries(
    members: list[Member], others: list[Member]
) -> None:
    made = table(*members)
    before, ages = dict(made.members), {row.broker: row.age for row in others}
    made.renew(ages, 7)
    for name, row in before.items():
        age = ages.get(name, row.age)
        is_alive = age.version > row.version and age == row.age._replace(version=age.version)
        expected = msgspec.structs.replace(row, version=age.version) if is_alive else row
        assert (made.members[name], made.ages[name]) == (expected, expected.age)
        assert made.heartbeats.heard_us(name) == (7 if is_alive else 0)
    assert made.members.keys() == before.keys()


def test_a_later_generation_wins_over_death_and_death_over_life() -> None:
    made = table(member("A", WHOLE, version=9))
    dead = msgspec.structs.replace(member("A", WHOLE), status=Status.DEAD)
    assert made.merge([dead], 1) == ["A"]
    assert made.merge([member("A", WHOLE, version=99)], 2) == []
    assert made.gone() == ("A",)
    assert made.merge([member("A", NOTHING, generation=2)], 3) == ["A"]
    assert made.gone() == ()
    assert made.heartbeats.heard_us("A") == 3


def test_only_changes_beyond_the_version_count_as_changes() -> None:
    made = table(member("A", WHOLE))
    revision = made.revision
    assert made.merge([member("A", WHOLE, version=2)], 5) == []
    assert (made.revision, made.heartbeats.heard_us("A")) == (revision, 5)


def test_entries_of_another_configuration_are_left_out() -> None:
    made = table(member("A", WHOLE, WHOLE))
    assert made.members == {}


def test_expected_members_do_not_serve_yet() -> None:
    made = table(member("A", WHOLE, generation=0))
    assert made.owners(0, 1.0) == ()
    assert made.holes(0) == [WHOLE]


def test_clockwise_neighbours() -> None:
    low, middle, high = Segment(LOWEST, 1.0), Segment(1.0, 5.0), Segment(5.0, math.inf)
    made = table(member("A", low), member("B", middle), member("C", high))
    assert [made.clockwise(0, place) for place in (0.0, 1.0, 7.0)] == ["B", "C", "A"]
    assert table(member("A", WHOLE)).clockwise(0, 1.0) is None


@pytest.mark.parametrize(
    ("segment", "expected"), [(WHOLE, True), (NOTHING, False), (Segment(3.0, 3.0), False)]
)
def test_empty_segments_are_false(segment: Segment, expected: bool) -> None:
    assert bool(segment) is expected
