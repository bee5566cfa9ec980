"""Checks that filters compare attributes with values of the data's kinds.

A comparison across kinds is unknown, never an error, so such a filter silently matches nothing.
Publications and subscriptions of any number are judged by their first ones.

>>> from shoal.language import parse
>>> tests = CheckedKind.of([parse("dep_delay > 30 AND carier = 'UA'")])
>>> for text in complaints(tests, [{"dep_delay": 41, "carrier": "UA"}, {"dep_delay": "none"}]):
...     print(text)
no publication has carier, and `carier = 'UA'` asks for it; did you mean carrier?
dep_delay is text in 1 of 2 rows; `dep_delay > 30` compares numbers

One text makes all of a CSV's column text, so texts that could be otherwise do not count:

>>> tests = CheckedKind.of([parse("dep_delay > 30")])
>>> for text in complaints(tests, [{"dep_delay": "41"}, {"dep_delay": "n/a"}]):
...     print(text)
dep_delay is text (in 1 of 2 rows no number: 'n/a'); `dep_delay > 30` compares numbers
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shoal.frames.spelling import did_you_mean
from shoal.language import format_filter
from shoal.model import (
    And,
    Attributes,
    Expression,
    Filter,
    FilterError,
    Kind,
    Not,
    Or,
    Predicate,
    kind_of,
)
from shoal.model.expressions import is_derived

# Enough rows to see a table's kinds of values, and quickly read.
SAMPLE = 10_000

NOUNS = {Kind.BOOLEAN: "a boolean", Kind.NUMBER: "a number", Kind.STRING: "text"}
PLURALS = {Kind.BOOLEAN: "booleans", Kind.NUMBER: "numbers", Kind.STRING: "text"}


class CheckedKind:
    """The filters' tests: by attribute and kind of value, one of the tests as text.

    A test of an expression says nothing about the kinds of its attributes.
    """

    def __init__(self) -> None:
        self.by_attribute: dict[str, dict[Kind, str]] = {}

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> CheckedKind:
        """Those of the first of these filters."""
        tests = cls()
        for filter in itertools.islice(filters, SAMPLE):
            for tested in _predicates(filter.expression):
                if tested.kind is not None and not is_derived(tested.attribute):
                    tests.add(tested.attribute, tested.kind, tested)
        return tests

    def add(self, attribute: str, kind: Kind, test: Predicate | str) -> None:
        """A test, unless there is one of the same attribute and kind."""
        known = self.by_attribute.setdefault(attribute, {})
        if kind not in known:
            known[kind] = test if isinstance(test, str) else _text(test)


def complaints(
    tests: CheckedKind, publications: Sequence[Attributes], known: Sequence[str] = ()
) -> Iterator[str]:
    """Return tests that no publication, or not every one, can answer; a line per attribute.

    `known` are attributes that exist, though these publications were read without them.
    """
    rows = publications[:SAMPLE]
    found: dict[str, Counter[Kind]] = {}
    for attributes in rows:
        for name, value in attributes.items():
            found.setdefault(name, Counter())[kind_of(value)] += 1
    if rows:
        first = "" if len(rows) == len(publications) else "the first "
        for attribute, asked in sorted(tests.by_attribute.items()):
            if attribute in found:
                yield from _complaint(attribute, asked, found[attribute], first, rows)
                continue
            test = next(iter(asked.values()))
            hint = did_you_mean(attribute, sorted({*found, *known} - {attribute}))
            none = f"none of {first}{len(rows):,} publications" if first else "no publication"
            yield f"{none} has {attribute}, and `{test}` asks for it{hint}"


def _complaint(
    attribute: str,
    asked: Mapping[Kind, str],
    counts: Counter[Kind],
    first: str,
    rows: Sequence[Attributes],
) -> Iterator[str]:
    for kind, test in asked.items():
        others = {each: n for each, n in counts.items() if each not in asked}
        if not counts[kind]:
            others = {each: n for each, n in counts.items() if each is not kind}
        if others:
            other = max(others, key=lambda each: others[each])
            where = f" in {others[other]:,} of {first}{counts.total():,} rows"
            if other is Kind.STRING and others[other] == counts.total():
                texts = [str(row[attribute]) for row in rows if attribute in row]
                wrong = [text for text in texts if not _reads_as(text, kind)]
                if 0 < len(wrong) < len(texts):
                    where = (
                        f" (in {len(wrong):,} of {first}{len(texts):,} rows no "
                        f"{NOUNS[kind].removeprefix('a ')}: {wrong[0]!r})"
                    )
            yield f"{attribute} is {NOUNS[other]}{where}; `{test}` compares {PLURALS[kind]}"
            return


def _reads_as(text: str, kind: Kind) -> bool:
    if kind is Kind.BOOLEAN:
        return text.lower() in ("true", "false")
    try:
        float(text)
    except ValueError:
        return False
    return True


def _predicates(expression: Expression) -> Iterator[Predicate]:
    match expression:
        case Predicate():
            yield expression
        case And() | Or():
            for operand in expression.operands:
                yield from _predicates(operand)
        case Not():
            yield from _predicates(expression.operand)


def _text(test: Predicate) -> str:
    try:
        return format_filter(Filter(test))
    except FilterError:
        return repr(test)  # with values that no text can express, such as an infinity
