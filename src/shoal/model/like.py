r"""LIKE patterns: `%` stands for any run of characters, `_` for one code point.

A canonical pattern, as predicates hold it, escapes `%`, `_` and backslash by a backslash, and
nothing else: what Spark SQL takes by default.

>>> elements(r"50\%%")
('50%', <Wildcard.ANY_RUN: '%'>)
>>> canonical_pattern("50!%%", escape="!") == r"50\%%"
True
"""

from __future__ import annotations

import enum

from shoal.ledger import remembered

ESCAPE = "\\"

# Patterns come with filters, and the same few are read again for each question asked of them.
CACHED_PATTERNS = 4096
# Longer ones are read anew each time, so that strangers cannot fill the memory with them.
CACHED_CHARACTERS = 1_000


class Wildcard(enum.Enum):
    """The parts of a pattern that stand for other characters."""

    ANY_RUN = "%"
    ANY_ONE = "_"


Element = str | Wildcard


def elements(pattern: str, escape: str = ESCAPE) -> tuple[Element, ...]:
    """The pattern's parts: literal runs (never empty) and wildcards; ValueError if malformed."""
    read = _cached_elements if len(pattern) <= CACHED_CHARACTERS else _elements
    return read(pattern, escape)


def _elements(pattern: str, escape: str) -> tuple[Element, ...]:
    parts: list[Element] = []
    literal: list[str] = []

    def flush() -> None:
        if literal:
            parts.append("".join(literal))
            literal.clear()

    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise ValueError(
                    f"in a LIKE pattern {escape} must stand before %, _ or another {escape}, "
                    + (f"not before {escaped}" if escaped else "not at the end")
                )
            literal.append(escaped)
        elif character == "%":
            flush()
            if parts[-1:] != [Wildcard.ANY_RUN]:
                parts.append(Wildcard.ANY_RUN)
        elif character == "_":
            flush()
            parts.append(Wildcard.ANY_ONE)
        else:
            literal.append(character)
    flush()
    return tuple(parts)


_cached_elements = remembered("elements of patterns", most=CACHED_PATTERNS, bytes_each=1_000)(
    _elements
)


def canonical_pattern(pattern: str, escape: str) -> str:
    """The same pattern with backslash as its escape; ValueError if malformed."""
    if escape == ESCAPE:
        elements(pattern)
        return pattern
    return "".join(
        escape_literal(element) if isinstance(element, str) else element.value
        for element in elements(pattern, escape)
    )


def escape_literal(text: str) -> str:
    """The canonical pattern that matches this text only."""
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, ESCAPE + special)
    return text


def is_like(text: str, pattern: str) -> bool:
    """Return whether a whole text has the shape of a canonical pattern.

    In time of the text x the pattern, at most. Filters' own LIKE tests have an index of texts
    besides (`matching.shapes`); this is the LIKE within an expression.

    >>> is_like("50% off", r"50\\%%o_f"), is_like("offer", "%o_f")
    (True, False)
    """
    runs: list[list[Element]] = [[]]
    for element in elements(pattern):
        if element is Wildcard.ANY_RUN:
            runs.append([])
        else:
            runs[-1].append(element)
    first, *others = runs
    at = _stands(text, first, 0)
    if not others:
        return at == len(text)
    if at < 0:
        return False
    *middle, last = others
    for run in middle:
        at = _found(text, run, at)
        if at < 0:
            return False
    start = len(text) - _length(last)
    return start >= at and _stands(text, last, start) >= 0


def _length(run: list[Element]) -> int:
    return sum(len(each) if isinstance(each, str) else 1 for each in run)


def _stands(text: str, run: list[Element], at: int) -> int:
    """The end of a run that stands at a place; -1 if it does not stand there."""
    for each in run:
        if isinstance(each, str):
            if not text.startswith(each, at):
                return -1
            at += len(each)
        else:
            at += 1
    return at if at <= len(text) else -1


def _found(text: str, run: list[Element], at: int) -> int:
    """The end of the first place of a run, at `at` or behind it; -1 if there is none."""
    if len(run) == 1 and isinstance(run[0], str):
        place = text.find(run[0], at)
        return place + len(run[0]) if place >= 0 else -1
    for place in range(at, len(text) - _length(run) + 1):
        end = _stands(text, run, place)
        if end >= 0:
            return end
    return -1
