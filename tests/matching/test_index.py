"""The match index against naive matching through churn, and its errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching import index as index_module
from shoal.matching.filed import buckets
from shoal.matching.filed import filters as filed_filters
from shoal.matching.filed.filters import FiledFilters
from shoal.model import Filter, FilterError, Kind, Not, Operator, Or, Predicate, Value, predicate
from tests.examples import examples
from tests.strategies import attributes, conjunctions, filters

Publication = dict[str, Value]
ANY_FILTERS = st.one_of(filters(), conjunctions())
CHANGES = st.tuples(st.integers(0, 9), st.one_of(st.none(), ANY_FILTERS))


def is_small(filter: Filter | None) -> bool:
    try:
        return filter is None or len(filter.normal_form) >= 0
    except FilterError:
        return False


def is_bare(index: MatchIndex) -> bool:
    return not (len(index) or index._tables or index._by_first or index._named or index._filters)


@given(
    st.lists(CHANGES.filter(lambda change: is_small(change[1])), max_size=30),
    st.lists(attributes(), min_size=1, max_size=8),
    st.sampled_from([0, buckets.FEW]),
)
@settings(max_examples=examples(100))
def test_the_index_equals_naive_matching_through_churn(
    changes: list[tuple[int, Filter | None]], publications: list[Publication], few: int
) -> None:
    with mock.patch.object(buckets, "FEW", few), mock.patch.object(filed_filters, "FEW", few):
        churn(changes, publications)


def churn(changes: list[tuple[int, Filter | None]], publications: list[Publication]) -> None:
    index, truth = MatchIndex(), {}
    for id, filter in changes:
        if filter is not None:
            index.add(id, filter)
            truth[id] = filter
        elif truth.pop(id, None) is not None:
            index.remove(id)
    assert len(index) == len(truth)
    offsets, ids = index.match_batch(publications)
    for number, publication in enumerate(publications):
        expected = sorted(id for id, filter in truth.items() if matches(filter, publication))
        assert sorted(index.match(publication)) == expected
        assert sorted(ids[offsets[number] : offsets[number + 1]]) == expected
    for id in list(truth):
        index.remove(id)
    assert is_bare(index)


# As one client of a broker may subscribe, with attributes of all publications and of its own.
MANY_ATTRIBUTES = {
    "equal": "topic = 't' AND x{} = 1",
    "above": "topic = 't' AND x{} > 0",
    "below": "topic = 't' AND x{} < 2",
    "between": "topic = 't' AND x{} > 0 AND x{} < 2",
    "tested": "topic = 't' AND x{} > 0 AND y{} != 1",
    "equal and tested": "topic = 't' AND x{} = 1 AND y{} != 1",
}


@pytest.mark.parametrize("text", MANY_ATTRIBUTES.values(), ids=list(MANY_ATTRIBUTES))
def test_filters_on_attributes_that_a_publication_lacks_cost_it_nothing(text: str) -> None:
    class CountedAttributes(dict[str, Value]):
        looked_for = 0

        def get(self, name: str, default: Any = None) -> Any:
            self.looked_for += 1
            return super().get(name, default)

    index = MatchIndex()
    for number in range(500):
        index.add(number, parse(text.format(number, number)))
    publication = CountedAttributes(topic="t", x7=1, x9=1, y7=2, y9=1)
    is_tested = "y" in text
    assert index._walk(publication, None) == ([7] if is_tested else [7, 9])
    ranges = 2 if "> 0 AND x" in text else 0
    assert index._tests_for(publication) == (2 if is_tested else ranges)
    assert publication.looked_for < 20


def test_filters_on_many_attributes_are_not_compiled() -> None:
    """Otherwise one client's filters would make thousands of columns of each publication."""
    index = MatchIndex()
    for number in range(index_module.ATTRIBUTES_MAXIMUM):
        index.add(number, parse(f"x{number} = 1 AND y != {number}"))
    for number in range(1_000, 3_000):
        index.add(number, parse(f"y != {number}"))
    publication: Publication = {"x1": 1, "y": 1_000}
    expected = {1, *range(1_001, 3_000)}
    for _ in range(2):
        with mock.patch.object(index, "_match_compiled", side_effect=AssertionError):
            assert set(index.match(publication)) == expected
            assert list(map(set, index.match_each([publication] * 3))) == [expected] * 3
        index.remove(0)  # x0
        with mock.patch.object(index, "_match_compiled", return_value=[[]] * 3) as compiled:
            assert index.match(publication) == []
            assert index.match_each([publication] * 3) == [[]] * 3
        assert compiled.call_count == 2
        index.add(0, parse("x0 = 1"))


def test_a_filter_that_matches_in_two_ways_is_named_once() -> None:
    index = MatchIndex()
    index.add("s", parse("a > 1 OR a > 2 OR b = 1 OR b LIKE 'x'"))
    assert index.match({"a": 3, "b": 1}) == ["s"]


def test_the_same_id_replaces() -> None:
    index = MatchIndex()
    index.add("s", parse("a = 1"))
    index.add("s", parse("a = 2"))
    assert index.match({"a": 1}) == []
    assert index.match({"a": 2}) == ["s"]
    assert len(index) == 1
    assert "s" in index


def test_removing_a_missing_id_is_an_error() -> None:
    with pytest.raises(KeyError):
        MatchIndex().remove("s")


def test_a_filter_too_large_changes_nothing() -> None:
    index = MatchIndex()
    index.add("s", parse("a = 1"))
    large = Filter(parse(" AND ".join(f"(a = {n} OR b = {n})" for n in range(6))).expression)
    wide = Filter(type(large.expression)((large.expression, parse("c = 1 OR d = 1").expression)))
    with pytest.raises(FilterError):
        index.add("s", wide)
    assert index.match({"a": 1}) == ["s"]


@pytest.mark.parametrize("pattern", ["x\\y", "x\\", "%\\ "])
@pytest.mark.parametrize("operator", [Operator.LIKE, Operator.NOT_LIKE])
def test_a_wrong_pattern_is_refused_at_construction(operator: Operator, pattern: str) -> None:
    with pytest.raises(FilterError, match=r"attribute 'a', operator (NOT )?LIKE: .*must stand"):
        predicate("a", operator, pattern)


def state_of(index: MatchIndex) -> object:
    """All that adding changes, and the answers for some publications."""
    publications: list[Publication] = [{"a": 1}, {"a": 5, "b": 1}, {"a": "x"}, {}]
    answers = [index.match(each) for each in publications]
    goals = [index.match_destinations(each) for each in publications]
    batch = [each.tolist() for each in index.match_batch({"a": [1, 5, "x"]})]
    ids = [id for id in ("s", "t", 1, 2, 7) if id in index]
    return len(index), ids, answers, goals, batch, index._tested, index._several


# Built past `predicate`, which refuses it.
UNFIT = Filter(Predicate("a", Operator.LIKE, "x\\y", Kind.STRING))
LARGE = Filter(Not(parse(" OR ".join(f"(a = {n} AND b = {n})" for n in range(7))).expression))


@pytest.mark.parametrize("id", ["s", "t", "new", 7], ids=str)
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((UNFIT,), ValueError, "must stand before"),
        ((Filter(Or((parse("a = 1").expression, UNFIT.expression))),), ValueError, "stand before"),
        ((LARGE,), FilterError, "more than 64"),
        (("a = 1",), TypeError, r"filter is wanted, not str; shoal\.language\.parse makes one"),
        ((parse("a = 1").expression,), TypeError, "not Predicate"),
        ((parse("a = 1"), ["unhashable"]), TypeError, "unhashable"),
    ],
    ids=["pattern", "one of two", "large", "text", "expression", "destination"],
)
def test_an_add_that_fails_changes_nothing(
    arguments: tuple[Any, ...], error: type[Exception], message: str, is_compiled: bool, id: object
) -> None:
    index = MatchIndex()
    index.add("s", parse("a = 1 OR b = 1 AND a LIKE 'x%'"))
    index.add("t", parse("a > 3"), "north")
    if is_compiled:
        index.add_ranges([1, 7], ("a",), [[0.0], [4.0]], [[2.0], [6.0]])
    before = state_of(index)
    with pytest.raises(error, match=message):
        index.add(id, *arguments)
    assert state_of(index) == before
    with pytest.raises(TypeError, match="unhashable"):
        index.add([1], parse("a = 1"))  # type: ignore[arg-type]
    assert state_of(index) == before
    for each in ["s", "t"] + [1, 7] * is_compiled:
        index.remove(each)
    assert len(index) == 0


@pytest.mark.parametrize(
    ("load", "error"),
    [
        (lambda i: i.add_ranges([1.5, 2.0], ("a",), [[0.0]] * 2, [[1.0]] * 2), ValueError),
        (lambda i: i.add_ranges(["1", "2"], ("a",), [[0.0]] * 2, [[1.0]] * 2), ValueError),
        (lambda i: i.add_ranges([2**63, 1], ("a",), [[0.0]] * 2, [[1.0]] * 2), ValueError),
        (lambda i: i.add_ranges([2**64, 1], ("a",), [[0.0]] * 2, [[1.0]] * 2), ValueError),
        (lambda i: i.add_ranges([1, 2], ("a",), [[0.0]], [[1.0]]), ValueError),
        (lambda i: i.add_ranges([[1, 2]], ("a",), [[0.0]] * 2, [[1.0]] * 2), ValueError),
        (lambda i: i.add_ranges([1, 2], ("a", "a"), [[0.0] * 2] * 2, [[1.0] * 2] * 2), ValueError),
        (lambda i: i.add_ranges([1], ("a",), [["x"]], [["y"]]), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1, None], "a": ["x", "x"]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1.5], "a": ["x"]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": ["1"], "a": ["x"]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "a.low": ["5"]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "a.low": [True]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "a": [b"1.5"]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "a": [Decimal("1.5")]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "a": [date(2013, 1, 1)]})), ValueError),
        (lambda i: i.add_table(pa.table({"id": [1], "b": ["x"], "a": [2**53 + 1]})), ValueError),
        (lambda i: i.add_table(pa.table([[1], ["x"], ["y"]], ["id", "a", "a"])), ValueError),
        (lambda i: i.add_table(pa.table({"a": ["x"]})), ValueError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_load_that_fails_changes_nothing(
    load: Callable[[MatchIndex], None], error: type[Exception], is_compiled: bool
) -> None:
    index = MatchIndex()
    index.add(1, parse("a = 1 OR b = 1"))
    index.add("t", parse("a > 3"), "north")
    if is_compiled:
        index.add_ranges([2, 7], ("a",), [[0.0], [4.0]], [[2.0], [6.0]])
    before = state_of(index)
    with pytest.raises(error):
        load(index)
    assert state_of(index) == before


def test_an_uncompilable_filter_changes_nothing() -> None:
    index = MatchIndex()
    for number in range(40):
        index.add(number, parse(f"a > {number}"))
    index.match_batch({"a": [5]})
    for number in range(40, 60):
        index.add(number, parse(f"a > {number}"))
    with (
        mock.patch("shoal.matching.compiled.batches.CompiledSource", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        index.match_batch({"a": [5]})
    assert sorted(index.match_batch({"a": [50]})[1]) == list(range(50))
    for number in range(10, 60):
        index.remove(number)
    with (
        mock.patch("shoal.matching.compiled.batches.CompiledSource", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        index.match_batch({"a": [5]})
    assert sorted(index.match_batch({"a": [50]})[1]) == list(range(10))


@pytest.mark.parametrize("id", [5, np.int64(5), 5.0], ids=repr)
def test_ids_that_are_equal_are_one(id: Any) -> None:
    index = MatchIndex()
    index.add_ranges([5, 6], ("a",), [[0.0]] * 2, [[1.0]] * 2)
    assert id in index
    index.add(id, parse("a = 1"))
    assert len(index) == 2
    assert sorted(index.match({"a": 1})) == [5, 6]
    index.remove(id)
    assert id not in index
    index.add_ranges([5], ("a",), [[0.0]], [[1.0]])
    index.remove(id)
    assert index.match({"a": 1}) == [6]


def test_a_table_of_dictionaries_is_loaded() -> None:
    index = MatchIndex()
    coded = pa.DictionaryArray.from_arrays([0, 1, None, 2], ["x", "y", None])
    index.add_table(pa.table({"id": [1, 2, 3, 4], "a": coded}))
    index.add_table(pa.table({"id": [5, 6], "b": pa.array([3, 4]).dictionary_encode()}))
    assert sorted(index.match({"a": "x", "b": 3})) == [1, 3, 4, 5]
    assert sorted(index.match({})) == [3, 4]
    assert sorted(index.match_batch({"a": ["x", None], "b": [3, None]})[1]) == [1, 3, 3, 4, 4, 5]


def test_kinds_do_not_mix_under_one_key() -> None:
    index = MatchIndex()
    for text in ("a = 1", "a = TRUE", "a = 1 AND b = 1", "a = TRUE AND b = FALSE", "a IN (0, 1)"):
        index.add(text, parse(text))
    assert sorted(index.match({"a": 1.0, "b": 1})) == ["a = 1", "a = 1 AND b = 1", "a IN (0, 1)"]
    assert index.match({"a": True, "b": False}) == ["a = TRUE", "a = TRUE AND b = FALSE"]
    assert index.match({"a": True, "b": 1}) == ["a = TRUE"]


def test_ids_are_any_hashable_and_batches_may_be_empty() -> None:
    index = MatchIndex()
    for id in (("broker", 1), None, 7):
        index.add(id, parse("TRUE"))
    assert index.match({}) == [("broker", 1), None, 7]
    offsets, ids = index.match_batch([])
    assert offsets.tolist() == [0]
    assert offsets.dtype == "int64"
    assert ids.tolist() == []


def test_long_churn_leaves_no_rows() -> None:
    chance = random.Random(7)
    index, truth = MatchIndex(), {}
    for _ in range(5_000):
        id = chance.randrange(200)
        if id in truth and chance.random() < 0.6:
            index.remove(id)
            del truth[id]
        else:
            carrier = chance.choice("ABC")
            truth[id] = parse_once(f"carrier = '{carrier}' AND delay > {chance.randrange(5)}")
            index.add(id, truth[id])
    for carrier in "ABC":
        publication: Publication = {"carrier": carrier, "delay": 3}
        expected = sorted(id for id, filter in truth.items() if matches(filter, publication))
        assert sorted(index.match(publication)) == expected
    for id in truth:
        index.remove(id)
    assert is_bare(index)


def parse_once(text: str, known: dict[str, Filter] = {}) -> Filter:  # noqa: B006  # a cache
    if text not in known:
        known[text] = parse(text)
    return known[text]


def test_values_of_a_list_are_separate_places() -> None:
    index = MatchIndex()
    index.add("list", parse("carrier IN ('UA', 'AA', 'UA') OR carrier = 'AA' OR carrier IN ('DL')"))
    index.add("numbers", parse("a IN (1, 2.0, 3) AND b IN ('x', 'y') AND a > 1"))
    index.add("long", parse(f"a IN ({', '.join(map(str, range(100)))})"))
    assert index.match({"carrier": "AA"}) == ["list"]
    assert index.match({"carrier": "EV"}) == []
    assert sorted(index.match({"a": 2, "b": "y"})) == ["long", "numbers"]
    assert index.match({"a": 1, "b": "y"}) == ["long"]
    assert index.match({"a": True, "b": "y"}) == []
    for id in ("list", "numbers", "long"):
        index.remove(id)
    assert is_bare(index)


@given(
    st.lists(CHANGES.filter(lambda change: is_small(change[1])), max_size=20),
    st.lists(attributes(), min_size=1, max_size=6),
    st.sampled_from([-1, 2, 1_000]),
)
@settings(max_examples=examples(30))
def test_compiled_parts_find_the_same_matches(
    changes: list[tuple[int, Filter | None]], publications: list[Publication], maximum: int
) -> None:
    filed, index = FiledFilters(), MatchIndex()
    with mock.patch.object(index_module, "TESTS_MAXIMUM", maximum):
        for number, (id, filter) in enumerate(changes):
            for each in (filed, index):
                if filter is not None:
                    each.add(id, filter)
                elif id in each:
                    each.remove(id)
            if number % 7 == 0:
                index.match(publications[0])
        expected = [sorted(filed.match(publication)) for publication in publications]
        assert [sorted(index.match(publication)) for publication in publications] == expected
        assert [sorted(found) for found in index.match_each(publications)] == expected


def test_tests_are_counted_without_being_made() -> None:
    index = FiledFilters()
    index.add("ladder", parse("a > 1 AND b LIKE 'x%'"))
    index.add("equal", parse("c = 1 AND d <> 2 AND e <> 3"))
    index.add("falling", parse("a < 10 AND b LIKE 'x%' OR f = 1"))
    index.add("plain", parse("a > 1"))
    publications: list[Publication] = [{}, {"a": 0}, {"a": 5}, {"a": "5", "c": 1}, {"c": True}]
    assert [index._tests_for(each) for each in publications] == [0, 1, 2, 1, 0]
    index.remove("ladder")
    index.remove("falling")
    assert (index._tests_for({"a": 5}), index._tested) == (0, 1)


def test_many_ranges_are_searched_by_the_compiled_parts() -> None:
    index = MatchIndex()
    for number in range(2_000):
        index.add(("s", number), parse(f"a > {number} AND b < {number + 10} AND c <> 0"))
    publications: list[Publication] = [{"a": 1_500, "b": at, "c": 1} for at in (7, 1_505, 1_508)]
    found = index.match_each(publications)
    assert [len(each) for each in found] == [1_500, 4, 1]
    assert index.match(publications[2]) == found[2] == [("s", 1_499)]
    assert index.match_each([]) == []
