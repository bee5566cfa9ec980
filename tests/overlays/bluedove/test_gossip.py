"""Gossip: news spread in about log N rounds, at the paper's formula's cost or less."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.broker.effects import Received
from shoal.overlays.bluedove.cluster.gossip import (
    choose_partners,
    compare,
    digest,
    fan_out,
    paper_bytes_per_s,
    silent,
)
from shoal.overlays.bluedove.cluster.members import NOTHING, WHOLE, Member, MemberTable, Status
from shoal.overlays.bluedove.messages import Digest
from tests.overlays.bluedove.settled import made


def tables(count: int) -> dict[str, MemberTable]:
    members = [
        Member(broker=f"M{number}", generation=1, version=1, segments=(WHOLE,))
        for number in range(count)
    ]
    made = {member.broker: MemberTable(1) for member in members}
    for table in made.values():
        table.merge(members, 0)
    return made


@pytest.mark.parametrize("changed", [0, 2], ids=["sign of life", "something new"])
@pytest.mark.parametrize("count", [2, 5, 20, 100])
def test_news_reach_everyone_in_about_log_n_rounds(count: int, changed: int) -> None:
    made, random = tables(count), Random(3)
    first = made["M0"].members["M0"]
    news = msgspec.structs.replace(first, version=2, changed=changed, segments=(NOTHING,))
    made["M0"].merge([news], 1)
    rounds = 0
    while any(table.members["M0"].version < 2 for table in made.values()):
        rounds += 1
        for name, table in made.items():
            for partner in choose_partners(table, name, 1, random):
                other = made[partner]
                found = compare(other, digest(table), rounds)
                table.merge(found.members, rounds)
                table.renew(found.ages, rounds)
                other.merge([table.members[name] for name in found.wanted], rounds)
    assert rounds <= 2 + fan_out(count)


def test_an_exchange_brings_only_missing_entries() -> None:
    left, right = tables(3)["M0"], tables(3)["M1"]
    newer = msgspec.structs.replace(right.members["M1"], version=2, changed=2)
    older = msgspec.structs.replace(left.members["M0"], version=3, changed=3)
    alive = msgspec.structs.replace(right.members["M2"], version=5)
    right.merge([newer, alive], 1)
    left.merge([older], 1)
    found = compare(right, digest(left), 1)
    assert found == ((newer,), {"M2": alive.age}, ("M0",))
    left.renew(found.ages, 7)
    assert (left.members["M2"], left.heartbeats.heard_us("M2")) == (alive, 7)
    left.renew({"M1": newer.age, "M9": newer.age}, 8)
    assert left.members["M1"].version == 1
    assert compare(left, digest(left), 9) == ((), {}, ())


ENTRIES = st.lists(
    st.builds(
        Member,
        broker=st.sampled_from(["A", "B", "C", "D"]),
        generation=st.integers(0, 1),
        version=st.integers(1, 3),
        changed=st.integers(1, 2),
        status=st.sampled_from(list(Status)),
        segments=st.just((WHOLE,)),
    ),
    max_size=8,
)


@given(ENTRIES, ENTRIES)
def test_a_comparison_names_the_entries_to_send_and_to_request(
    here: list[Member], there: list[Member]
) -> None:
    mine, theirs = MemberTable(1), MemberTable(1)
    mine.merge(here, 0)
    theirs.merge(there, 0)
    before = dict(mine.members)
    found = compare(mine, digest(theirs), 1)
    both = sorted(mine.members.keys() & theirs.members.keys())
    pairs = {name: (before[name].age, theirs.members[name].age) for name in both}
    same = [name for name in both if pairs[name][0].is_heartbeat_of(pairs[name][1])]
    lacking = sorted(mine.members.keys() - theirs.members.keys())
    newer = [name for name in both if name not in same and pairs[name][0] > pairs[name][1]]
    assert [row.broker for row in found.members] == sorted([*lacking, *newer])
    assert all(row == mine.members[row.broker] for row in found.members)
    # A newer heartbeat is merged at once, and nothing else.
    renewed = [name for name in same if pairs[name][0] < pairs[name][1]]
    assert {name: row.age for name, row in mine.members.items()} == {
        name: theirs.members[name].age if name in renewed else row.age
        for name, row in before.items()
    }
    assert [name for name in mine.members if mine.heartbeats.heard_us(name) == 1] == [
        name for name in mine.members if name in renewed
    ]
    assert list(found.ages.items()) == [
        (name, pairs[name][0]) for name in same if pairs[name][0] > pairs[name][1]
    ]
    older = [name for name in both if name not in same and pairs[name][0] < pairs[name][1]]
    assert found.wanted == (*older, *sorted(theirs.members.keys() - mine.members.keys()))


@given(ENTRIES, ENTRIES)
def test_tables_of_one_basis_exchange_versions_as_they_would_ages(
    here: list[Member], there: list[Member]
) -> None:
    first, second, twin = MemberTable(1, "A"), MemberTable(1), MemberTable(1, "A")
    for table in (first, twin):
        table.merge(here, 0)
    second.merge(there, 0)
    bases = [
        {(row.broker, row.generation, row.status, row.changed) for row in table.members.values()}
        for table in (first, second)
    ]
    assert (first.heartbeats.basis == second.heartbeats.basis) is (bases[0] == bases[1])
    if bases[0] != bases[1]:
        return
    versions = second.heartbeats.to_bytes()
    assert first.heartbeats.fits(second.heartbeats.basis, versions)
    is_ahead = first.heartbeats.is_ahead_of(versions)
    first.renew_all(versions, 5)
    assert is_ahead is bool(compare(twin, digest(second), 5).ages)
    assert first.members == twin.members
    assert first.ages == twin.ages
    for name in first.names:
        assert first.heartbeats.heard_us(name) == twin.heartbeats.heard_us(name)
    assert first.heartbeats.silent(5) == twin.heartbeats.silent(5)


def test_versions_that_do_not_fit_are_not_sent_as_bytes() -> None:
    table = tables(2)["M0"]
    assert len(table.heartbeats.to_bytes()) == 8
    for generation, version in ((1, 2**32), (1, 2**64 - 1), (2, -1)):
        row = table.members["M1"]
        row = msgspec.structs.replace(row, generation=generation, version=version)
        table.merge([row], 1)
        assert table.heartbeats.to_bytes() == b""
        assert digest(table)["M1"].version == version


def test_versions_that_do_not_fit_are_answered_by_ages() -> None:
    cluster = made()
    first, second = (cluster.strategies[name].node.table for name in ("M1", "M2"))
    entry = Member(broker="M9", generation=1, version=5, segments=(NOTHING, NOTHING))
    for table in (first, second):
        table.merge([entry], cluster.now_us)
    first.renew({"M9": entry.age._replace(version=2**32)}, cluster.now_us)
    message = Digest(basis=second.heartbeats.basis, versions=second.heartbeats.to_bytes())
    assert first.heartbeats.fits(message.basis, message.versions)
    cluster.handle("M1", Received("M2", message))
    cluster.settle()
    assert second.members["M9"].version == 2**32


def test_partners_are_alive_and_sometimes_dead() -> None:
    table = tables(5)["M0"]
    dead = msgspec.structs.replace(table.members["M4"], status=Status.DEAD)
    left = msgspec.structs.replace(table.members["M3"], status=Status.LEFT)
    table.merge([dead, left], 1)
    rounds = [choose_partners(table, "M0", number, Random(number)) for number in range(1, 31)]
    assert not any({"M0", "M3"} & set(partners) for partners in rounds)
    assert ["M4" in partners for partners in rounds] == 3 * ([False] * 9 + [True])


def test_members_without_news_are_silent() -> None:
    table = tables(3)["M0"]
    newer = msgspec.structs.replace(table.members["M1"], version=2)
    table.merge([newer], 8)
    assert [member.broker for member in silent(table, "M0", 5)] == ["M2"]
    assert silent(table, "M0", 0) == []


def test_the_papers_formula() -> None:
    assert paper_bytes_per_s(2) == 2_940
    assert [fan_out(count) for count in (1, 2, 3, 20, 500)] == [1, 1, 2, 5, 9]
