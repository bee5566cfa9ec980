"""Relations of filters: covering and overlap, against cases and enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import covers, matches, overlaps
from shoal.matching.domains import Beyond, number_predecessor, number_successor
from shoal.model import And, Filter, FilterError, Operator, Predicate, Value, predicate
from tests.examples import examples
from tests.strategies import NUMBERS, attributes, conjunctions, filters

# --- worked cases -------------------------------------------------------------------------------

COVERED = [
    ("TRUE", "a = 1"),
    ("a = 1", "a = 1 AND b = 2"),
    ("a > 1", "a >= 2"),
    ("a > 9007199254740992", "a >= 9007199254740993"),
    ("a >= 9007199254740993", "a > 9007199254740992 AND a <> 9007199254740992.5"),
    ("a <> 5", "a > 5"),
    ("a IN (1, 2, 3)", "a IN (1.0, 3)"),
    ("a IN (9223372036854775806, 9223372036854775807)",
     "a >= 9223372036854775806 AND a < 9.3e18 AND a < 9223372036854775808.0"),
    ("a IS NOT NULL", "a LIKE '%'"),
    ("a LIKE '%'", "a > ''"),
    ("a LIKE 'ab%'", "a >= 'ab' AND a < 'ac'"),
    ("a >= 'ab' AND a < 'ac'", "a LIKE 'ab%'"),
    ("a LIKE 'a%'", "a LIKE 'ab%c'"),
    ("a LIKE '%b%'", "a LIKE '_b%'"),
    ("a LIKE '%ab%'", "a LIKE '%b%ab'"),
    ("a NOT LIKE '%b%'", "a NOT LIKE '%b%' AND a > 'x'"),
    ("a NOT LIKE 'b%'", "a LIKE 'a%' AND a <> 'a'"),
    ("a > 'a'", "a LIKE 'b%c'"),
    ("a <> 'x'", "a NOT LIKE '_'"),
    ("a = ''", "a NOT LIKE '_%' AND a LIKE '%'"),
    ("a IN ('x')", "a LIKE 'x' AND b = 1"),
    ("a = TRUE", "a > FALSE"),
    ("a <= TRUE", "a"),
    ("a = 1", "a = 1 AND a = 2"),
    ("a = 1", "b IS NULL AND b = 1"),
    ("a = 1 OR b = 2", "b = 2 AND c = 3"),
    ("a > 1 OR b > 1", "a > 2 OR b = 7"),
    ("a IS NULL", "a IS NULL AND b = 1"),
]  # fmt: skip

NOT_COVERED = [
    ("a = 1", "TRUE"),
    ("a = 1 AND b = 2", "a = 1"),
    ("a >= 2", "a > 1"),
    ("a > 9007199254740992", "a >= 9007199254740992.0"),
    ("a < 300", "a > 0"),
    ("a <> 5", "a IS NOT NULL"),
    ("a IS NOT NULL", "TRUE"),
    ("a LIKE '%'", "a IS NOT NULL"),
    ("a LIKE 'ab%'", "a >= 'ab' AND a <= 'ac'"),
    ("a LIKE '%b%'", "a LIKE '_%'"),
    ("a = TRUE", "a = 1"),
    ("a < 'b'", "a < 5"),
    ("a = 1", "a = 1 OR b = 2"),
]

DISJOINT = [
    ("a = 1", "a = 2"),
    ("a = 1", "a = TRUE"),
    ("a = 1", "a = '1'"),
    ("a < 5", "a >= 5"),
    ("a > 9007199254740992", "a < 9007199254740993"),
    ("a > 1e300", "a IS NULL"),
    ("a IS NULL", "a IS NOT NULL"),
    ("a LIKE 'a%'", "a LIKE 'b%'"),
    ("a LIKE '%a'", "a LIKE '%b'"),
    ("a LIKE '_'", "a LIKE '__'"),
    ("a LIKE 'a%'", "a > 'b'"),
    ("a LIKE '%a%'", "a NOT LIKE '%a%'"),
    ("a > 'a'", "a <= 'a'"),
    ("a = 1 AND a = 2", "TRUE"),
    ("a IN (1, 2)", "a NOT IN (2, 1.0)"),
    ("a > FALSE", "a < TRUE"),
    ("a = 1 OR a = 2", "a = 3 OR a = 4"),
]

MEETING = [
    ("a = 1", "b = 1"),
    ("a > 1", "a < 2"),
    ("a > 1.7976931348623157e308", "a > 0"),
    ("a >= 5", "a <= 5"),
    ("a LIKE 'a%'", "a LIKE '%b'"),
    ("a > 'a'", "a < 'a\\0\\0'"),
    ("a NOT LIKE '%a%'", "a NOT LIKE '%b%'"),
    ("a IS NULL", "b = 1"),
    ("a <> 1", "a <> 2"),
    ("a = 1 OR a = 2", "a = 2 OR a = 3"),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERED)
def test_covering_pairs_are_recognised(wide: str, narrow: str) -> None:
    assert covers(parse(wide), parse(narrow))


@pytest.mark.parametrize(("one", "other"), NOT_COVERED)
def test_non_covering_pairs_are_recognised(one: str, other: str) -> None:
    assert not covers(parse(one), parse(other))


@pytest.mark.parametrize(("one", "other"), DISJOINT)
def test_disjoint_pairs_are_recognised(one: str, other: str) -> None:
    assert not overlaps(parse(one), parse(other))
    assert not overlaps(parse(other), parse(one))


@pytest.mark.parametrize(("one", "other"), MEETING)
def test_overlapping_pairs_are_recognised(one: str, other: str) -> None:
    assert overlaps(parse(one), parse(other))
    assert overlaps(parse(other), parse(one))


# --- against naive answers ----------------------------------------------------------------------


@given(filters(), filters(), st.lists(attributes(), min_size=1, max_size=10))
@settings(max_examples=examples(100))
def test_no_publication_contradicts_a_relation(
    f: Filter, g: Filter, publications: list[dict[str, Value]]
) -> None:
    try:
        covering, meeting = covers(f, g), overlaps(f, g)
    except FilterError:
        assume(False)
    for publication in publications:
        of_f, of_g = matches(f, publication), matches(g, publication)
        assert of_f or not of_g or not covering
        assert meeting or not (of_f and of_g)


def neighbours(operand: Value) -> Iterator[Value]:
    """Numbers around an operand, where some comparison with it changes its answer."""
    assert isinstance(operand, int | float)
    yield operand
    for beyond in (number_successor(operand), number_predecessor(operand)):
        if beyond is not None and not isinstance(beyond, Beyond):
            yield beyond
            further = number_successor(beyond), number_predecessor(beyond)
            yield from (v for v in further if v is not None and not isinstance(v, Beyond))


def distinguishing_values(tests: list[Predicate]) -> list[Value | None]:
    """Values that distinguish any two combinations of these number predicates."""
    found: list[Value | None] = [None, False, True, "", math.nan, math.inf, -math.inf, 0.5]
    for tested in tests:
        operands = tested.operand if isinstance(tested.operand, tuple) else (tested.operand,)
        for operand in operands:
            if operand is not None:
                found += neighbours(operand)
    return found


# Enough for the patterns below: two of them, and two that forbid, fit in five characters. `c` and
# NUL stand for the characters of no pattern, above and below.
SHORT_STRINGS: list[Value | None] = [
    None,
    5,
    *("".join(letters) for size in range(6) for letters in product("\0abc", repeat=size)),
]


def by_enumeration(
    f: Filter, g: Filter, publications: Iterable[dict[str, Value]]
) -> tuple[bool, bool]:
    """Whether f covers g and whether they overlap, as far as these publications show."""
    covering, meeting = True, False
    for publication in publications:
        of_f, of_g = matches(f, publication), matches(g, publication)
        covering &= of_f or not of_g
        meeting |= of_f and of_g
    return covering, meeting


def publications_of(name: str, values: Iterable[Value | None]) -> Iterator[dict[str, Value]]:
    for value in values:
        yield {} if value is None else {name: value}


SINGLE = st.sampled_from(
    [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
)
LISTED = st.sampled_from([Operator.IN, Operator.NOT_IN])
PRESENCE = st.sampled_from([Operator.IS_NULL, Operator.IS_NOT_NULL])
SHAPED = st.sampled_from([Operator.LIKE, Operator.NOT_LIKE])
SHORT = st.sampled_from(["", "a", "b", "ab", "ba", "aa", "a\0"])
SHAPES = st.sampled_from(
    ["%", "_", "", "a", "a%", "%a", "%a%", "a_", "_a%", "a%b", "__", "%_", "ab%", "%ab", "%b%"]
)


def number_tests(name: str) -> st.SearchStrategy[Predicate]:
    numbers = st.sampled_from(NUMBERS)
    few = st.lists(numbers, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(predicate, st.just(name), SINGLE, numbers),
        st.builds(predicate, st.just(name), LISTED, few),
        st.builds(predicate, st.just(name), PRESENCE),
    )


def string_tests(name: str) -> st.SearchStrategy[Predicate]:
    few = st.lists(SHORT, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(predicate, st.just(name), SINGLE, SHORT),
        st.builds(predicate, st.just(name), LISTED, few),
        st.builds(predicate, st.just(name), SHAPED, SHAPES),
        st.builds(predicate, st.just(name), SHAPED, SHAPES),
    )


def conjunction_of(tests: st.SearchStrategy[Predicate], size: int) -> st.SearchStrategy[Filter]:
    return st.lists(tests, min_size=1, max_size=size).map(lambda parts: Filter(And(tuple(parts))))


@given(conjunction_of(number_tests("a"), 4), conjunction_of(number_tests("a"), 4))
@settings(max_examples=examples(150))
def test_relations_are_exact_for_numbers(f: Filter, g: Filter) -> None:
    values = distinguishing_values([*f.normal_form[0], *g.normal_form[0]])
    expected = by_enumeration(f, g, publications_of("a", values))
    assert (covers(f, g), overlaps(f, g)) == expected


@given(conjunction_of(string_tests("a"), 2), conjunction_of(string_tests("a"), 2))
@settings(max_examples=examples(60))
def test_relations_are_exact_for_strings_and_patterns(f: Filter, g: Filter) -> None:
    expected = by_enumeration(f, g, publications_of("a", SHORT_STRINGS))
    assert (covers(f, g), overlaps(f, g)) == expected


TWO_ATTRIBUTES = st.one_of(number_tests("a"), number_tests("b"))


@given(conjunction_of(TWO_ATTRIBUTES, 3), conjunction_of(TWO_ATTRIBUTES, 3))
@settings(max_examples=examples(50))
def test_relations_are_exact_across_attributes(f: Filter, g: Filter) -> None:
    both = [*f.normal_form[0], *g.normal_form[0]]
    by_name = [
        publications_of(name, distinguishing_values([p for p in both if p.attribute == name]))
        for name in ("a", "b")
    ]
    expected = by_enumeration(f, g, (left | right for left, right in product(*map(list, by_name))))
    assert (covers(f, g), overlaps(f, g)) == expected


@given(conjunctions())
def test_a_filter_covers_itself(f: Filter) -> None:
    assert covers(f, f)


@given(filters(), filters())
def test_overlap_is_symmetric(f: Filter, g: Filter) -> None:
    try:
        assert overlaps(f, g) is overlaps(g, f)
    except FilterError:
        assume(False)


def test_too_complex_patterns_have_the_safe_answer() -> None:
    # Distinguishing these takes 2**20 states: the last twenty characters that were an `a`.
    gap = "_" * 20
    f, g = parse(f"s LIKE '%a{gap}%' AND s > ''"), parse(f"s NOT LIKE '%a{gap}%' AND s > ''")
    assert overlaps(f, g)
    assert not covers(parse(f"s NOT LIKE '%b{gap}_%'"), parse(f"s NOT LIKE '%b{gap}%'"))
