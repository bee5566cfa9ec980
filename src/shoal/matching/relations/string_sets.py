"""Sets of strings as comparisons and LIKE patterns make them: is one empty, within another, apart?

A set is an ordered set of strings, less those without the shape of some patterns. If the points of
one set decide, they are tried; if a string that is easily found decides, that one is; other
questions go to `string_search`. Each answer spends `Work`, and is the cautious one when there is
too little: a set may have a string, and is not within another.

>>> prefix = Strings(ordered_set(STRINGS, "a", "b"), frozenset({("%x%", True)}))
>>> some_string(prefix, Work()), strings_within(prefix, ALL_STRINGS, Work()), witness(prefix)
(True, True, None)
>>> share_string(prefix, Strings(ordered_set(STRINGS, points=["abx", "b"])), Work())
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from shoal.ledger import remembered
from shoal.matching.domains import END, after_prefix
from shoal.matching.relations.ordered_sets import (
    STRINGS,
    OrderedSet,
    intersection,
    is_empty,
    is_subset,
    ordered_set,
)
from shoal.matching.relations.string_search import (
    MAX_CHARACTERS,
    AtLeast,
    Below,
    Like,
    OneOf,
    Wanted,
    Work,
    exists,
)
from shoal.matching.shapes import Shape, searched_characters, shape
from shoal.model.like import Wildcard, elements

# As many as there are predicates that make them.
CACHED_WITNESSES = 8_192


class Strings(NamedTuple):
    """Strings of an ordered set that also have, or have not, the shape of LIKE patterns."""

    ordered: OrderedSet
    shapes: frozenset[tuple[str, bool]] = frozenset()


# Characters per step of work: searched, or read of a pattern.
_CHARACTERS_A_STEP = 500
_READ_A_STEP = 8
# A witness is remembered, so its search always has the same work.
_WITNESS_WORK = 2_000

# A witness has this in place of each wildcard.
_FILLED = {Wildcard.ANY_RUN: "", Wildcard.ANY_ONE: "a"}

ALL_STRINGS = Strings(ordered_set(STRINGS))
NO_STRINGS = Strings(ordered_set(STRINGS, points=()))


def plain_pattern(pattern: str, *, wanted: bool) -> OrderedSet | None:
    """The set of a pattern that is a text, a prefix or just `%`; None for all others."""
    match elements(pattern):
        case (Wildcard.ANY_RUN,):
            return (ALL_STRINGS if wanted else NO_STRINGS).ordered
        case (str(prefix), Wildcard.ANY_RUN) if wanted:
            return ordered_set(STRINGS, prefix, after_prefix(prefix))
        case () | (str(),) as parts:
            text = "".join(map(str, parts))
            points, excluded = ([text], ()) if wanted else (None, [text])
            return ordered_set(STRINGS, points=points, excluded=excluded)
    return None


def settle(strings: Strings, work: Work) -> Strings:
    """Without shapes where points alone say it, and the work suffices to tell."""
    points = strings.ordered.points
    if points is None or not strings.shapes:
        return strings
    judge = _judge(strings.shapes, work)
    kept = []
    for point in points:
        has_all = judge(point)
        if has_all is None:
            return strings
        if has_all:
            kept.append(point)
    return Strings(strings.ordered._replace(points=frozenset(kept)))


def _judge(shapes: Iterable[tuple[str, bool]], work: Work) -> Callable[[str], bool | None]:
    """Says whether a text has, or has not, the shapes; None when there is too little work left."""
    tests: list[tuple[Shape, bool, int]] = []
    # In one order everywhere, so that the same work is spent everywhere.
    for pattern, wanted in sorted(shapes):
        if len(pattern) > MAX_CHARACTERS or not work.spend(1 + len(pattern) // _READ_A_STEP):
            return lambda text: None
        tests.append((shape(pattern), wanted, 1 + searched_characters(pattern)))

    def judge(text: str) -> bool | None:
        for has_shape, wanted, times in tests:
            if not work.spend(1 + len(text) * times // _CHARACTERS_A_STEP):
                return None
            if has_shape(text) is not wanted:
                return False
        return True

    return judge


def some_string(strings: Strings, work: Work) -> bool:
    """Return whether there may be a string in the set."""
    if not strings.shapes or is_empty(strings.ordered):
        return not is_empty(strings.ordered)
    if witness(strings) is not None:
        return True
    return _exists(strings, None, work) is not False


def _exists(inner: Strings, outer: Strings | None, work: Work) -> bool | None:
    """Return whether a string is in the first set (and not in the second); None for too much
    work.
    """
    together = (inner,) if outer is None else (inner, outer)
    if sum(map(_characters, together)) > MAX_CHARACTERS:
        return None
    breaking = None if outer is None else _constraints(outer)
    return exists(_constraints(inner), breaking, work)


def _characters(strings: Strings) -> int:
    ordered = strings.ordered
    texts = ordered.excluded if ordered.points is None else ordered.points
    high = "" if ordered.high is END else ordered.high
    shapes = sum(len(pattern) for pattern, _ in strings.shapes)
    return shapes + sum(map(len, texts)) + len(texts) + len(ordered.low) + len(high)


def _constraints(strings: Strings) -> list[Wanted]:
    ordered = strings.ordered
    constraints: list[Wanted] = [(Like(pattern), wanted) for pattern, wanted in strings.shapes]
    if ordered.points is not None:
        return [*constraints, (OneOf(ordered.points), True)]
    if ordered.low:
        constraints.append((AtLeast(ordered.low), True))
    if ordered.high is not END:
        constraints.append((Below(ordered.high), True))
    if ordered.excluded:
        constraints.append((OneOf(ordered.excluded), False))
    return constraints


def strings_within(inner: Strings, outer: Strings, work: Work) -> bool:
    if outer.shapes <= inner.shapes and is_subset(inner.ordered, outer.ordered):
        return True
    if not inner.shapes and not outer.shapes:
        return False
    if inner.ordered.points is not None:
        if not is_subset(inner.ordered, outer.ordered):
            return False
        judge = _judge(outer.shapes, work)
        return all(judge(point) is True for point in sorted(inner.ordered.points))
    example = witness(inner)
    if example is not None and not _holds(outer, example, work):
        return False
    return _exists(inner, outer, work) is False


def _holds(strings: Strings, text: str, work: Work) -> bool:
    """Return whether a text is surely in the set."""
    return text in strings.ordered and _judge(strings.shapes, work)(text) is True


def witness(strings: Strings) -> str | None:
    """Return a string of the set, if one is easily found: a set without it does not contain this
    set.
    """
    return _witness(strings) if _characters(strings) <= MAX_CHARACTERS else None


@remembered("strings of patterns", most=CACHED_WITNESSES, bytes_each=800)
def _witness(strings: Strings) -> str | None:
    work = Work(_WITNESS_WORK)
    tries = [
        "".join(part if isinstance(part, str) else _FILLED[part] for part in elements(pattern))
        for pattern, wanted in sorted(strings.shapes)
        if wanted
    ]
    tries += [strings.ordered.low, strings.ordered.low + "a"]
    judge = _judge(strings.shapes, work)
    return next((text for text in tries if text in strings.ordered and judge(text)), None)


def share_string(left: Strings, right: Strings, work: Work) -> bool:
    if left is NO_STRINGS or right is NO_STRINGS:
        return False
    ordered = intersection(left.ordered, right.ordered)
    return some_string(settle(Strings(ordered, left.shapes | right.shapes), work), work)
