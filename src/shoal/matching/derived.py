"""Derived attributes of a message: the values of the expressions that filters test.

An index works out a derived attribute once for each message, for all filters that share it
(`SharedDerived.extended`). An evaluation without an index reads it by `value_reader`.

>>> from shoal.language import parse
>>> warmer = parse("inside - outside > 5")
>>> [name] = warmer.derived
>>> read = value_reader(name)
>>> read({"inside": 21.5, "outside": 4}), read({"inside": 21.5})
(17.5, None)
>>> shared = SharedDerived()
>>> shared.take([name], shared.refused(warmer.normal_form))
>>> shared.extended({"inside": 21.5, "outside": 4})[name]
17.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from shoal.ledger import remembered
from shoal.matching.listed import listed_item
from shoal.model import Attributes, Conjunction, Value
from shoal.model.expressions import (
    FunctionCall,
    ValueExpression,
    cost_of,
    derived_expression,
    evaluator,
    is_derived,
    references,
)

# Derived attributes that an index works out for each message; tests of others are evaluated with
# those that are alike (`filed/alike.py`), or where a filter's other tests hold.
MAX_SHARED = 256
# So many are shared at once; further ones when a second test has them.
FIRST_SHARED = 16
# Cost of their evaluation together, in steps: some 20 ms at worst.
MAX_SHARED_COST = 100_000
_REMEMBERED = 4_096

Reader = Callable[[Mapping[str, Any]], Value | None]


def _evaluator(name: str) -> Reader:
    return evaluator(derived_expression(name))


derived_reader: Callable[[str], Reader] = remembered(
    "evaluators of derived attributes", most=_REMEMBERED, bytes_each=4_000
)(_evaluator)
"""The function that evaluates a derived attribute, by its name."""


def _cost(name: str) -> int:
    return cost_of(derived_expression(name))


def value_reader(name: str) -> Reader:
    """A function that reads an attribute of a message, or evaluates a derived one.

    A value that is among the attributes already is not evaluated again.
    """
    if not is_derived(name):
        return lambda attributes: attributes.get(name)
    evaluate = derived_reader(name)

    def read(attributes: Mapping[str, Any]) -> Value | None:
        return attributes[name] if name in attributes else evaluate(attributes)

    return read


def guarded_in(conjunction: Conjunction) -> frozenset[str]:
    """The derived attributes that have a plain test beside them, which is a part of their own.

    Such a test is evaluated where the plain test holds, which is rare (`plain_forms`).
    """
    derived = [test.attribute for test in conjunction if is_derived(test.attribute)]
    if not derived:
        return frozenset()
    plain = {test.attribute for test in conjunction}
    return frozenset(name for name in derived if _is_guarded(derived_expression(name), plain))


def _is_guarded(expression: ValueExpression, plain: Set[str]) -> bool:
    """Whether it has one attribute, with a plain test, or is a distance, with one of a band."""
    inner = set(references(expression))
    if isinstance(expression, FunctionCall) and expression.function == "within":
        return not inner.isdisjoint(plain)
    return len(inner) == 1 and inner <= plain


def evaluated_in(
    conjunction: Conjunction, shared: set[str], uses: Mapping[str, int]
) -> frozenset[str]:
    """The derived attributes of a conjunction that are not looked up in columns.

    The others are among `shared`, which has MAX_SHARED at most, and grows; `uses` is the number of
    tests of each, in all conjunctions.
    """
    derived = {test.attribute for test in conjunction if is_derived(test.attribute)}
    evaluated = guarded_in(conjunction) if derived else frozenset()
    for name in sorted(derived - evaluated - shared):
        if len(shared) < (MAX_SHARED if uses[name] > 1 else FIRST_SHARED):
            shared.add(name)
        else:
            evaluated |= {name}
    return evaluated


def uses_of(conjunctions: Iterable[Conjunction]) -> Counter[str]:
    """The number of tests of each derived attribute."""
    return Counter(
        test.attribute
        for conjunction in conjunctions
        for test in conjunction
        if is_derived(test.attribute)
    )


class ExtendedAttributes(dict[str, Any]):
    """Attributes of a message with the derived attributes of one index; missing ones are None."""

    __slots__ = ("shared",)

    def __init__(self, attributes: Mapping[str, Any], shared: SharedDerived) -> None:
        super().__init__(attributes)
        self.shared = shared


class SharedDerived:
    """The derived attributes of one index, by name, and how many of its filters have each."""

    def __init__(self) -> None:
        # Each with the number of its filters; empty for most indexes.
        self.evaluators: dict[str, Reader] = {}
        self._filters: dict[str, int] = {}
        # Those that are not shared, with the number of their filters.
        self._alone: Counter[str] = Counter()
        # Of the evaluation of all for one message, as `cost_of` counts it.
        self.cost = 0

    def refused(self, normal_form: Iterable[Conjunction]) -> frozenset[str]:
        """Return the derived attributes of a filter that it does not share with others.

        They are guarded in all conjunctions, or items of lists there, or there is no room for them,
        or no other test has them yet.
        """
        guarded: set[str] = set()
        wanted: Counter[str] = Counter()
        for conjunction in normal_form:
            own = guarded_in(conjunction) | {
                test.attribute for test in conjunction if listed_item(test) is not None
            }
            guarded |= own
            wanted.update(test.attribute for test in conjunction if test.attribute not in own)
        left, count = MAX_SHARED_COST - self.cost, len(self._filters)
        refused = []
        for name, times in wanted.items():
            if not is_derived(name) or name in self._filters:
                continue
            is_single = times == 1 and name not in self._alone
            cost = _cost(name)
            if count < (FIRST_SHARED if is_single else MAX_SHARED) and cost <= left:
                count, left = count + 1, left - cost
            else:
                refused.append(name)
        return frozenset((*refused, *(guarded - wanted.keys())))

    def take(self, names: Iterable[str], refused: frozenset[str]) -> None:
        """Count a filter with these derived attributes, and those refused as its own."""
        self._alone.update(refused)
        for name in dict.fromkeys(names):
            if name in refused:
                continue
            if name not in self._filters:
                self.evaluators[name] = derived_reader(name)
                self.cost += _cost(name)
            self._filters[name] = self._filters.get(name, 0) + 1

    def give_back(self, names: Iterable[str], refused: frozenset[str]) -> None:
        """Count one filter less."""
        for name in refused:
            self._alone[name] -= 1
            if not self._alone[name]:
                del self._alone[name]
        for name in dict.fromkeys(names):
            if name in refused:
                continue
            self._filters[name] -= 1
            if not self._filters[name]:
                del self._filters[name], self.evaluators[name]
                self.cost -= _cost(name)

    def extended(self, attributes: Attributes) -> Attributes:
        """The attributes with the derived ones; the same if they are extended already."""
        if type(attributes) is ExtendedAttributes and attributes.shared is self:
            return attributes
        found = ExtendedAttributes(attributes, self)
        for name, evaluate in self.evaluators.items():
            found[name] = evaluate(attributes)
        return found
