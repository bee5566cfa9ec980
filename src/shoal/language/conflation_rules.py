"""The texts of `$every` and `$changed`, and the conflation rule that they make.

`$every` is an interval, and after BY the values that tell keys apart; `$changed` is a list of
values, a number among them with the least difference that counts after its BY. An interval is a
number with `ms`, `s`, `m` or `h`, from 100 ms to 24 h. BY and commas within quotes, back-quotes or
parentheses belong to a value.

>>> rule = read_conflation("10s BY sensor", "round(temp, 1) BY 0.5, `door.state`")
>>> rule.every_us, [value.text for value in rule.by]
(10000000, ['sensor'])
>>> [(each.value.text, each.least) for each in rule.changes]
[('round(temp, 1)', 0.5), ('`door.state`', None)]
>>> read_conflation("10", "")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
ConflationRuleError: $every: '10' is no interval: write 500ms, 10s, 5m or 1h
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from shoal.language.errors import CostlyFilterError, FilterSyntaxError
from shoal.language.query import CHANGED, EVERY, read_plain_value
from shoal.language.sql import parse_value
from shoal.model import Attributes, Value
from shoal.model.expressions import ValueExpression, cost_of, evaluator

# The bounds of an interval.
LEAST_EVERY_US, MOST_EVERY_US = 100_000, 24 * 3_600_000_000
# The most values of `$every` and of `$changed`, and the characters of one text.
MOST_VALUES, MOST_CHARACTERS = 16, 4_096
# The most that working out the values of a message may cost (see `model.expressions.cost_of`), and
# the cost that is as much work as a delivery.
MOST_COST, COST_PER_WORK = 2_000, 50

_UNIT_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_INTERVAL = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)", re.ASCII)
_BY = re.compile(r"\s+BY\s+", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)


class ConflationRuleError(ValueError):
    """A text of `$every` or `$changed` cannot be read; says why, and what can be written."""


class ConflationCostError(ConflationRuleError):
    """The values of a rule may cost too much to work out."""


class ConflatedValue:
    """A value of a message; `text` is what the client wrote.

    `evaluate` works it out from attributes: None where it is missing.
    """

    __slots__ = ("cost", "evaluate", "text")

    def __init__(self, text: str, expression: ValueExpression) -> None:
        self.text = text
        self.cost = cost_of(expression)
        self.evaluate: Callable[[Attributes], Value | None] = evaluator(expression)


class ChangeRule(NamedTuple):
    """One value of `$changed`; numbers count as changed from the difference `least` on."""

    value: ConflatedValue
    least: int | float | None = None


class ConflationRule(msgspec.Struct, frozen=True, eq=False):
    """The rule that `$every` and `$changed` of a subscription make.

    `every_us` is the interval, 0 without `$every`; `by` tells keys apart, with the topic; `changes`
    are the values of `$changed`; `cost` is that of all values of a message. `every` and `changed`
    are the texts, without white space around: rules with equal texts are equal.
    """

    every: str
    changed: str
    every_us: int = 0
    by: tuple[ConflatedValue, ...] = ()
    changes: tuple[ChangeRule, ...] = ()
    cost: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConflationRule) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)

    @property
    def texts(self) -> tuple[str, str]:
        return self.every, self.changed

    def key_of(self, topic: str, attributes: Attributes) -> tuple[Value | None, ...]:
        """The topic and the BY values of a message."""
        return (topic, *[value.evaluate(attributes) for value in self.by])

    def values_of(self, attributes: Attributes) -> tuple[Value | None, ...]:
        """The values of `$changed` in a message."""
        return tuple([each.value.evaluate(attributes) for each in self.changes])

    @property
    def work(self) -> int:
        """The work of a message, in deliveries."""
        return 1 + self.cost // COST_PER_WORK

    @property
    def asks(self) -> bool:
        """Whether attributes must be read."""
        return bool(self.by or self.changes)


def read_conflation(every: str, changed: str) -> ConflationRule | None:
    """The rule of these texts, None if both are empty; ConflationRuleError."""
    every, changed = every.strip(), changed.strip()
    if not (every or changed):
        return None
    every_us, by = _read_every(every) if every else (0, ())
    changes = tuple(_read_changes(changed)) if changed else ()
    cost = sum(value.cost for value in (*by, *[each.value for each in changes]))
    if cost > MOST_COST:
        raise ConflationCostError(
            f"{EVERY}, {CHANGED}: cost {cost:,} of values; at most {MOST_COST:,}"
        )
    return ConflationRule(every, changed, every_us, by, changes, cost)


def _read_every(text: str) -> tuple[int, tuple[ConflatedValue, ...]]:
    _check_length(EVERY, text)
    parts = list(_split(EVERY, text, _BY))
    if len(parts) > 2:
        raise ConflationRuleError(f"{EVERY}: BY stands once, and commas join its values")
    every_us = _interval_us(parts[0].strip())
    if len(parts) == 1:
        return every_us, ()
    values = [_read_value(EVERY, each) for each in _split(EVERY, parts[1], re.compile(","))]
    _check_count(EVERY, len(values))
    return every_us, tuple(values)


def _interval_us(text: str) -> int:
    """The interval in µs; ConflationRuleError outside its bounds."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ConflationRuleError(
            f"{EVERY}: {text[:40]!r} is no interval: write 500ms, 10s, 5m or 1h"
        )
    every_us = float(found[1]) * _UNIT_US[found[2]]
    if not LEAST_EVERY_US <= every_us <= MOST_EVERY_US:
        raise ConflationRuleError(f"{EVERY}: {text[:40]}: an interval is from 100ms to 24h")
    return round(every_us)


def _read_changes(text: str) -> Iterator[ChangeRule]:
    _check_length(CHANGED, text)
    items = list(_split(CHANGED, text, re.compile(",")))
    _check_count(CHANGED, len(items))
    for item in items:
        value, *least = _split(CHANGED, item, _BY)
        if len(least) > 1:
            raise ConflationRuleError(f"{CHANGED}: BY stands once behind a value")
        yield ChangeRule(_read_value(CHANGED, value), _least(least[0]) if least else None)


def _least(text: str) -> int | float:
    """The least difference that counts."""
    number = read_plain_value(text.strip())
    if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
        raise ConflationRuleError(
            f"{CHANGED}: BY {text.strip()[:40]}: write a number above 0, as in temp BY 0.5"
        )
    return number


def _check_length(name: str, text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise ConflationRuleError(f"{name} has at most {MOST_CHARACTERS:,} characters")


def _check_count(name: str, count: int) -> None:
    if count > MOST_VALUES:
        raise ConflationRuleError(f"{name} has at most {MOST_VALUES} values")


def _split(name: str, text: str, separator: re.Pattern[str]) -> Iterator[str]:
    """The parts between separators that stand outside quotes and parentheses."""
    start = position = depth = 0
    while position < len(text):
        character = text[position]
        if character in "'\"`":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                raise ConflationRuleError(f"{name}: the quote at {position + 1} is not closed")
            position = quoted.end()
            continue
        depth += (character == "(") - (character == ")")
        found = separator.match(text, position) if not depth else None
        if found is not None:
            yield text[start:position]
            start = position = found.end()
        else:
            position += 1
    yield text[start:]


def _read_value(name: str, text: str) -> ConflatedValue:
    """The value that a client wrote; ConflationRuleError."""
    text = text.strip()
    if not text:
        raise ConflationRuleError(f"{name}: there is no value; commas stand between values")
    try:
        return ConflatedValue(text, parse_value(text))
    except CostlyFilterError as error:
        raise ConflationCostError(f"{name}: {error.one_line}") from None
    except FilterSyntaxError as error:
        raise ConflationRuleError(f"{name}: {text[:80]!r}: {error.one_line}") from None
