"""Covering sets: kept and covered filters, through churn."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import CoveringSet, Work, covering_set, covers
from shoal.model import And, Filter, FilterError, Operator, Or, predicate
from tests.examples import examples
from tests.strategies import conjunctions, filters


def is_small(filter: Filter) -> bool:
    try:
        return len(filter.normal_form) <= 8
    except FilterError:
        return False


def check(table: CoveringSet[int], truth: dict[int, Filter]) -> None:
    """The kept filters equal the definition's, from all pairs."""
    kept = table.kept
    assert len(table) == len(truth)
    assert all(truth[id] == filter for id, filter in kept.items())
    for one in kept:
        assert not any(covers(kept[other], kept[one]) for other in kept if other != one)
    for id, filter in truth.items():
        coverer = table.coverer(id)
        assert coverer in kept
        assert (coverer == id) is (id in kept)
        assert covers(kept[coverer], filter)


def is_bare(table: CoveringSet[int]) -> bool:
    candidates = table._candidates
    return not (
        table.kept or table._by_id or table._by_filter or table._nothing
        or candidates._buckets or candidates._outlines or candidates._fixing
        or candidates._anchored or candidates._anchored_strings
    )  # fmt: skip


def check_churn(changes: list[tuple[int, Filter | None]]) -> None:
    """Apply the changes; compare each report and the kept filters with the definition."""
    table: CoveringSet[int] = CoveringSet()
    truth: dict[int, Filter] = {}
    for id, filter in changes:
        before = dict(table.kept)
        if filter is not None:
            change = table.add(id, filter)
            truth[id] = filter
        elif truth.pop(id, None) is not None:
            change = table.remove(id)
        else:
            continue
        after = dict(table.kept)
        assert set(change.kept) == {id for id in after if before.get(id) != after[id]}
        assert set(change.dropped) == {id for id in before if before[id] != after.get(id)}
        check(table, truth)
    for id in list(truth):
        table.remove(id)
        del truth[id]
        check(table, truth)
    assert is_bare(table)


ONE_NAME = ["a"]
SHAPES = ["'a%'", "'%a'", "'a'", "'_'", "'%a%'", "'ab%'", "'a_'", "'%'", "'_%'", "'a%b'"]
SHAPED = st.lists(
    st.one_of(
        st.builds("a LIKE {}".format, st.sampled_from(SHAPES)),
        st.builds("a NOT LIKE {}".format, st.sampled_from(SHAPES)),
        st.builds("a {} '{}'".format, st.sampled_from(["=", "<", ">=", "<>"]),
                  st.sampled_from(["", "a", "ab", "b", "ba"])),
        st.sampled_from(["b = 1", "b > 0", "a IS NOT NULL"]),
    ),
    min_size=1, max_size=3,
).map(lambda parts: parse(" AND ".join(parts)))  # fmt: skip
ANY_FILTERS = st.one_of(
    conjunctions(), conjunctions(ONE_NAME, max_size=2), filters(max_leaves=5), filters(), SHAPED
).filter(is_small)


@given(st.lists(st.tuples(st.integers(0, 12), st.one_of(st.none(), ANY_FILTERS)), max_size=25))
@settings(max_examples=examples(100))
def test_the_set_equals_the_definition_through_churn(
    changes: list[tuple[int, Filter | None]],
) -> None:
    check_churn(changes)


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), SHAPED)), max_size=20))
@settings(max_examples=examples(60))
def test_patterns_are_found_without_bounds(
    changes: list[tuple[int, Filter | None]],
) -> None:
    check_churn(changes)


def random_box(chance: random.Random) -> Filter:
    """Ranges over few values of many attributes: tables of bounds grow, and filters cover much."""
    parts = []
    for name in chance.sample(["p", "q", "r"], chance.randint(1, 3)):
        low = chance.randrange(30)
        parts.append(predicate(name, Operator.GE, low))
        parts.append(predicate(name, Operator.LE, low + chance.randrange(1, 12)))
    if chance.random() < 0.1:
        return Filter(Or((And(tuple(parts)), predicate("s", Operator.EQ, chance.choice("xyz")))))
    if chance.random() < 0.3:
        parts.append(predicate("s", Operator.GE, chance.choice(["x", "y", "yy", "longer text"])))
    return Filter(And(tuple(parts)))


def test_long_churn_with_tables_of_bounds_equals_the_definition() -> None:
    chance = random.Random(17)
    table: CoveringSet[int] = CoveringSet()
    truth: dict[int, Filter] = {}
    for step in range(2_500):
        id = chance.randrange(400)
        if id in truth and chance.random() < 0.6:
            table.remove(id)
            del truth[id]
        else:
            truth[id] = random_box(chance)
            table.add(id, truth[id])
        if step % 500 == 499:
            check(table, truth)
    for id in truth:
        table.remove(id)
    assert is_bare(table)


def test_bounds_may_keep_more_and_never_fewer() -> None:
    """At most three are covered by one, and work is bounded: the rest is placed later."""
    chance = random.Random(23)
    table: CoveringSet[int] = CoveringSet(most=3)
    truth: dict[int, Filter] = {}
    unplaced = 0
    for _ in range(1_500):
        id, work = chance.randrange(120), Work(chance.choice([0, 40, 200, 10_000]))
        before = dict(table.kept)
        if id in truth and chance.random() < 0.6:
            change = table.remove(id, work)
            del truth[id]
        else:
            truth[id] = random_box(chance)
            change = table.add(id, truth[id], work)
        after = dict(table.kept)
        assert set(change.kept) == {id for id in after if before.get(id) != after[id]}
        assert set(change.dropped) == {id for id in before if before[id] != after.get(id)}
        assert len(change.kept) <= 4 + 8  # one, the filters it covered, and those placed later
        unplaced += bool(table._unplaced)
        for id, filter in truth.items():
            assert covers(truth[table.coverer(id)], filter)
            assert table.coverer(id) in table.kept
    assert unplaced > 100
    for id in truth:
        table.remove(id)
    assert is_bare(table)
    assert not table._unplaced


def kept_of(*texts: str) -> list[str]:
    table: CoveringSet[str] = CoveringSet()
    for text in texts:
        table.add(text, parse(text))
    return list(table.kept)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["a = 1", "a = 1.0"], ["a = 1"]),
        (["a = 1", "a = TRUE"], ["a = 1", "a = TRUE"]),
        (["a >= 5 AND a <= 5", "a = 5"], ["a >= 5 AND a <= 5"]),
        (["a LIKE 'x' AND a NOT LIKE 'y%'", "a = 'x'"], ["a LIKE 'x' AND a NOT LIKE 'y%'"]),
        (["a = 'x'", "a LIKE 'x%' AND a NOT LIKE 'x_%' AND a LIKE '%x'"], ["a = 'x'"]),
        (["a > 'a'", "a LIKE 'b%c'"], ["a > 'a'"]),
        (["a = 1", "TRUE"], ["TRUE"]),
        (["FALSE", "a = 1 AND a = 2"], ["FALSE"]),
        (["FALSE", "a = 1"], ["a = 1"]),
        (["a = 1", "FALSE"], ["a = 1"]),
        (["a IS NULL", "a IS NULL AND b = 1"], ["a IS NULL"]),
        (["a IS NOT NULL", "a > FALSE", "a > 1", "a > 'x'"], ["a IS NOT NULL"]),
        (["a > 9007199254740992", "a >= 9007199254740993"], ["a > 9007199254740992"]),
        (["a = 1 OR b = 2", "b = 2 AND c = 3", "a = 1 OR b = 2 AND c = 3"], ["a = 1 OR b = 2"]),
        (["a IN (1, 2)", "a IN (2, 3)", "a IN (2)"], ["a IN (1, 2)", "a IN (2, 3)"]),
        (["NOT (a = 1 OR b > 2)", "a > 1 AND b < 2"], ["NOT (a = 1 OR b > 2)"]),
    ],
)
def test_worked_cases_hold_in_both_orders(texts: list[str], kept: list[str]) -> None:
    assert kept_of(*texts) == kept
    assert len(kept_of(*reversed(texts))) == len(kept)


def test_a_removed_covering_filter_restores_those_it_alone_covered() -> None:
    table: CoveringSet[str] = CoveringSet()
    for id, text in [
        ("wide", "a > 0"),
        ("mid", "a > 5"),
        ("low", "a > 9"),
        ("b", "a > 9 AND b = 1"),
    ]:
        table.add(id, parse(text))
    table.add("c", parse("b = 1"))
    assert list(table.kept) == ["wide", "c"]
    assert table.remove("wide") == (("mid",), ("wide",))
    assert table.remove("mid") == (("low",), ("mid",))
    assert table.remove("low") == ((), ("low",))
    assert table.coverer("b") == "c"


def test_equal_filters_share_one_place() -> None:
    table: CoveringSet[int] = CoveringSet()
    assert table.add(1, parse("a > 0")) == ((1,), ())
    assert table.add(2, parse("a > 0")) == ((), ())
    assert table.add(3, parse("a >= 0")) == ((3,), (1,))
    assert table.remove(3) == ((1,), (3,))
    assert table.remove(1) == ((2,), (1,))
    assert table.add(2, parse("a > 1")) == ((2,), (2,))


def test_a_refused_change_changes_nothing() -> None:
    table: CoveringSet[str] = CoveringSet()
    table.add("s", parse("a = 1"))
    large = And(tuple(parse(f"(a = {n} OR b = {n})").expression for n in range(7)))
    with pytest.raises(FilterError):
        table.add("s", Filter(large))
    with pytest.raises(KeyError):
        table.remove("t")
    assert table.kept == {"s": parse("a = 1")}


def test_the_plain_function_equals_the_set() -> None:
    filters = [parse(text) for text in ("a > 5", "b = 1", "a > 4", "b = 1", "a > 6")]
    assert covering_set(filters) == [parse("b = 1"), parse("a > 4")]
    assert covering_set([]) == []
