"""Hostile filters of up to 64 KB: the cost of comparing a pair, and the answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from unittest import mock

import pytest

from shoal.language import parse
from shoal.matching import (
    MatchIndex,
    check_cost,
    covering_set,
    covers,
    matches,
    overlaps,
)
from shoal.matching.limited_search import search_within
from shoal.matching.relations import decisions as relations
from shoal.matching.relations import string_sets
from shoal.model import And, Expression, Filter, FilterError, Operator, Or, Value, predicate
from tests.calls import Calls
from tests.examples import one_in

# Some times the goal of 50 ms: other machines are slower, and busy.
SECONDS = 1.5


def like(pattern: str, name: str = "a") -> Expression:
    return predicate(name, Operator.LIKE, pattern)


def all_of(*parts: Expression) -> Filter:
    return Filter(And(parts))


def distinct(count: int, first: int = 0x4E00) -> str:
    return "".join(chr(first + at) for at in range(count))


def listed(first: int, count: int = 9_000) -> Expression:
    return predicate("a", Operator.IN, tuple(range(first, first + count)))


def texts(first: int, count: int = 6_000) -> Expression:
    return predicate("a", Operator.IN, tuple(f"{at:x}" for at in range(first, first + count)))


def ways(first: int) -> Expression:
    """64 conjunctions."""
    pairs = [(f"x{at}", f"y{at}") for at in range(6)]
    return And(
        tuple(Or(tuple(predicate(name, Operator.GT, first) for name in pair)) for pair in pairs)
    )


def crossed(first: int) -> Filter:
    """64 conjunctions, each with another range of each of 80 attributes."""
    sides = [
        Or(
            (
                And(tuple(predicate(f"n{n}", Operator.GT, first + at) for n in range(80))),
                And(tuple(predicate(f"n{n}", Operator.LT, first + 90 - at) for n in range(80))),
            )
        )
        for at in range(6)
    ]
    return Filter(And(tuple(sides)))


PAIRS: dict[str, Callable[[], tuple[Filter, Filter]]] = {
    "1,000 distinct characters": lambda: (
        all_of(*(like(f"%{each}%") for each in distinct(500))),
        all_of(*(like(f"%{each}%") for each in distinct(500, 0x5E00))),
    ),
    "1,000 distinct characters in two patterns": lambda: (
        Filter(like("%" + "%".join(distinct(1_000)) + "%")),
        Filter(like("%" + "%".join(distinct(1_000)[::-1]) + "%")),
    ),
    "60 patterns": lambda: (
        all_of(*(like(f"%{chr(97 + at % 26)}%{chr(97 + at // 3)}%") for at in range(60))),
        all_of(*(like(f"%{chr(65 + at % 26)}_{chr(97 + at // 3)}%") for at in range(60))),
    ),
    "900 patterns": lambda: (
        all_of(*(like(f"%{at}%{at + 7}_%") for at in range(900))),
        all_of(*(like(f"%{at}_{at + 3}%") for at in range(900))),
    ),
    "900 patterns that are not to be": lambda: (
        all_of(*(predicate("a", Operator.NOT_LIKE, f"%{at}%x_") for at in range(900))),
        all_of(*(predicate("a", Operator.NOT_LIKE, f"%{at}_y") for at in range(900))),
    ),
    "450 attributes of two patterns": lambda: (
        all_of(*(like(p, f"n{at}") for at in range(450) for p in ("%ab%cd%", "%cb%a_"))),
        all_of(*(like(p, f"n{at}") for at in range(450) for p in ("%dc%b%", "_%b%c%d"))),
    ),
    "one pattern of 64 KB": lambda: (
        Filter(like("%" + "ab_" * 21_000 + "%")),
        Filter(like("%" + "ba_" * 21_000 + "%")),
    ),
    "64 KB of one character, or nearly": lambda: (
        Filter(like("%a%" + "a" * 64_000 + "b%")),
        Filter(like("%" + "a_" * 32_000 + "%")),
    ),
    "wildcards against each other": lambda: (
        Filter(like("%a" + "_" * 400 + "b%")),
        all_of(like("%b" + "_" * 300 + "a%"), like("%ab_" * 60 + "%")),
    ),
    "many values against many": lambda: (
        all_of(listed(0), ways(0)),
        all_of(listed(9_000), ways(1)),
    ),
    "many values against nearly the same": lambda: (
        all_of(listed(0), ways(0)),
        all_of(listed(1), ways(1)),
    ),
    "many texts against patterns": lambda: (
        all_of(texts(0)),
        all_of(*(like(f"%{at:x}%{at:x}_%") for at in range(900))),
    ),
    "many texts in 64 ways": lambda: (all_of(texts(0), ways(0)), all_of(texts(9_000), ways(1))),
    "80 attributes in 64 ways": lambda: (crossed(0), crossed(40)),
    "1,000 tests": lambda: (
        all_of(*(predicate(f"n{at}", Operator.GT, at) for at in range(1_000))),
        all_of(*(predicate(f"n{at}", Operator.GE, at) for at in range(1_000))),
    ),
    "1,000 tests of one attribute": lambda: (
        all_of(*(predicate("a", Operator.NE, at) for at in range(1_000))),
        all_of(*(predicate("a", Operator.NE, at + 500) for at in range(1_000))),
    ),
    "64 patterns of one, each way": lambda: (
        Filter(Or(tuple(And((like(f"%{at}a%"), like(f"%b{at}_%"))) for at in range(64)))),
        Filter(Or(tuple(And((like(f"%{at}c%"), like(f"%d{at}_%"))) for at in range(64)))),
    ),
}


@pytest.mark.parametrize("name", one_in(2, PAIRS))
@pytest.mark.parametrize("ask", [overlaps, covers])
def test_every_pair_is_compared_in_bounded_time(
    ask: Callable[[Filter, Filter], bool], name: str
) -> None:
    def seconds(f: Filter, g: Filter) -> float:
        for each in (f, g):
            each.normal_form  # noqa: B018  # its time is `tests/model/test_filters.py`'s
        for known in (relations._cached_values, relations._cached_regions, string_sets._witness):
            known.cache_clear()  # as it is the first time
        started = time.process_time()
        ask(f, g)
        return time.process_time() - started

    make = PAIRS[name]
    assert min(max(seconds(*make()), seconds(*make()[::-1])) for _ in range(2)) < SECONDS


MB = 1_000_000
ONE = "a" * MB
# At the limits: filters, and the questions about them.
COSTLY: dict[str, tuple[Filter, dict[str, Value]]] = {
    "as many searches as may be": (
        all_of(*(predicate("a", Operator.NOT_LIKE, f"%{'a' * (9 + at)}b%") for at in range(16))),
        {"a": ONE},
    ),
    "characters with free ones between": (
        all_of(like("%" + "a_" * 60 + "b%")),
        {"a": ONE},
    ),
    "as many tests as may be": (
        all_of(ways(0), *(predicate(f"n{at}", Operator.NE, "b") for at in range(56))),
        dict.fromkeys([f"{n}{at}" for n in "nxy" for at in range(60)], 9) | {"n55": "b"},
    ),
    "a value of a long list": (all_of(texts(0), listed(0)), {"a": ONE}),
    "the longest texts": (all_of(predicate("a", Operator.GT, "a" * 65_000)), {"a": ONE}),
}


@pytest.mark.parametrize(("filter", "publication"), COSTLY.values(), ids=COSTLY)
def test_every_filter_within_the_limits_takes_bounded_time(
    filter: Filter, publication: dict[str, Value]
) -> None:
    check_cost(filter)
    index = MatchIndex()
    index.add("s", filter)
    for ask in (index.match, index.matches_any, lambda given: matches(filter, given)):
        taken = []
        for _ in range(2):
            started = time.process_time()
            ask(publication)
            taken.append(time.process_time() - started)
        assert min(taken) < SECONDS


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        (all_of(*(like(f"%{at}%") for at in range(17))), "go through a text 17 times; at most 16"),
        (all_of(like("%" + "a_" * 128 + "b%")), "go through a text 17 times"),
        (all_of(like("%a%"), ways(0)), "go through a text 64 times"),
        (Filter(Or((And((predicate("b", Operator.GT, 0),) * 2), And((predicate("b", Operator.GT, 0),
            *(like(f"%{at}%") for at in range(17))))))), "go through a text 17 times"),
        (all_of(ways(0), *(predicate(f"n{at}", Operator.GT, 0) for at in range(57))),
         "comes to 4032 tests; at most 4000"),
    ],
    ids=["patterns", "characters", "ways", "absorbed", "tests"],
)  # fmt: skip
def test_filters_beyond_the_limits_are_refused_in_one_line(filter: Filter, message: str) -> None:
    with pytest.raises(FilterError, match=message) as refused:
        check_cost(filter)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "symbol = 'YHOO' AND headline LIKE '%profit%'",
        " OR ".join(f"headline LIKE '%word{at}%'" for at in range(16)),
        " AND ".join(f"headline LIKE 'x_{at}%' AND name LIKE '%{at}'" for at in range(200)),
        f"a IN ({', '.join(map(str, range(9_000)))})",
        " AND ".join(f"n{at} > {at}" for at in range(1_000)),
    ],
    ids=["one", "sixteen", "anchored", "list", "tests"],
)
def test_usual_filters_are_within_the_limits(text: str) -> None:
    check_cost(parse(text))


def test_undecided_filters_overlap_and_do_not_cover() -> None:
    f, g = PAIRS["1,000 distinct characters in two patterns"]()
    assert overlaps(f, g)
    assert not covers(f, g)
    assert not covers(g, f)
    assert len(covering_set([f, g])) == 2


def test_answers_do_not_depend_on_earlier_questions() -> None:
    """Work is counted per question, and cached answers were found within the same bound."""
    f, g = parse("a LIKE '%x_y%' AND a LIKE '%y%z%'"), parse("a LIKE '%z_y%' AND b = 1")
    alone = overlaps(f, g), covers(f, g), covers(g, g)
    for make in PAIRS.values():
        overlaps(*make())
    again = [Filter(each.expression) for each in (f, g)]
    assert (overlaps(*again), covers(*again), covers(again[1], again[1])) == alone


def test_large_filters_are_still_compared_exactly() -> None:
    names = [f"n{at}" for at in range(300)]
    narrow = all_of(*(predicate(name, Operator.GT, 5) for name in names))
    wide = all_of(*(predicate(name, Operator.GT, 4) for name in names))
    other = all_of(*(predicate(name, Operator.LT, 5) for name in names))
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    assert overlaps(wide, narrow)
    assert not overlaps(narrow, other)
    assert overlaps(Filter(Or((narrow.expression, wide.expression))), other)
    both = Filter(Or((narrow.expression, predicate("x", Operator.GT, 0))))
    assert not overlaps(both, all_of(other.expression, predicate("x", Operator.LE, 0)))
    assert covers(both, narrow)
    assert not covers(narrow, both)


@pytest.mark.parametrize("seed", range(4))
def test_many_regions_are_compared_like_few(seed: int) -> None:
    """Filters with OR, against the answers for each two of their conjunctions."""
    chance = random.Random(seed)

    def some() -> Filter:
        tests = [
            And(tuple(
                predicate(name, chance.choice([Operator.GT, Operator.LT, Operator.EQ]),
                          chance.randrange(6))
                for name in chance.sample("abcd", chance.randint(1, 3))
            ))
            for _ in range(chance.randint(1, 12))
        ]  # fmt: skip
        return Filter(Or(tuple(tests)))

    seen = set()
    for _ in range(150):
        f, g = some(), some()
        ones, others = ([Filter(And(each)) for each in one.normal_form] for one in (f, g))
        meets = any(overlaps(one, other) for one in ones for other in others)
        # A conjunction that nothing matches is covered by all.
        held = all(any(covers(one, other) for one in ones) for other in others)
        assert overlaps(f, g) is meets
        assert covers(f, g) is held
        seen.add((meets, held))
    assert len(seen) > 1


# The bound on reads of a text, as in `long_texts`, and on calls besides: some 40 ms.
MOST_US, MOST_CALLS = 100_000, 200_000
LONG = 16_384  # the longest text of a publication that filters see
NUMBERS = range(1_000, 2_300)
THERE = "".join(f"a{at}b" for at in NUMBERS)


def words(count: int, size: int) -> list[str]:
    """Words of two letters."""
    chance = random.Random(size)
    return ["".join(chance.choices("ab", k=size)) for _ in range(count)]


# Thousands of patterns, and a text that nearly matches all.
MANY: dict[str, tuple[list[str], str]] = {
    "each a number": ([f"%a{at}b%" for at in range(8_000)], "a" * LONG),
    "each a number, and one free": ([f"%a{at}_b%" for at in range(8_000)], "a" * LONG),
    "all there, before what must precede them": (
        [f"%zz%a{at}b%" for at in NUMBERS] + [f"%zz%a_{at}b%" for at in NUMBERS],
        (THERE + "zz" + "a" * LONG)[:LONG],
    ),
    "halves there": (
        [f"%a{at}b{fill}a{at + 2}b%" for at in NUMBERS for fill in ("", "a", "_")],
        (THERE + "a" * LONG)[:LONG],
    ),
    "of two letters": ([f"%{each}%" for each in words(4_000, 20)], words(1, LONG)[0]),
    "of two letters, one free": (
        [f"%{each[:8]}_{each[8:]}%" for each in words(4_000, 16)],
        words(1, LONG)[0],
    ),
    "one letter, of every length": ([f"%{'a' * at}b%" for at in range(2_000)], "a" * LONG),
}


@pytest.mark.parametrize("name", one_in(3, MANY))
def test_many_patterns_together_take_bounded_time(name: str) -> None:
    """Few of them search the text, or each needs little work."""
    patterns, text = MANY[name]
    index = MatchIndex()
    for number, pattern in enumerate(patterns):
        index.add(number, Filter(like(pattern)))
    found: list[object] = []
    with mock.patch.object(MatchIndex, "may_wait", False), Calls() as calls:  # as in a broker
        assert search_within(MOST_US, lambda: found.extend(index.match({"a": text})))
    assert len(found) < len(patterns)
    assert calls.count < MOST_CALLS
