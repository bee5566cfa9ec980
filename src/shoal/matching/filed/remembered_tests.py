"""Tests of conjunctions with costly expressions, whose results a limited search keeps.

A message that meets thousands of such tests would hold a broker for 100 ms. So they are made in
time slices before (`limited_search`), and the match itself finds their results.

>>> from shoal.language import parse
>>> from shoal.matching.limited_search import search_within
>>> from shoal.matching.predicates import compile_conjunction
>>> [conjunction] = parse("a * b > 5").normal_form
>>> test = RememberedTest(conjunction, compile_conjunction(conjunction), work=4)
>>> message = {"a": 2, "b": 4}
>>> search_within(1, lambda: test(message)), test.knows(message), test.knows({"a": 3, "b": 4})
(True, True, False)
"""

from __future__ import annotations

from typing import Any

from shoal.matching.limited_search import may_look, spend
from shoal.matching.predicates import Test
from shoal.model import Attributes, Conjunction
from shoal.model.expressions import derived_expression, is_derived, references

# Time of a test at worst, with integers of many digits.
_TEST_US = 2.5


class RememberedTest:
    """The test of a conjunction whose expressions count as `work` tests.

    A limited search keeps the result for the message's values: the same objects, so that 1 and TRUE
    differ.
    """

    __slots__ = ("_names", "_result", "_test", "_us", "_values")

    def __init__(self, conjunction: Conjunction, test: Test, work: int) -> None:
        self._test = test
        self._us = _TEST_US * (1 + work)
        names: dict[str, None] = {}
        for each in conjunction:
            name = each.attribute
            inner = references(derived_expression(name)) if is_derived(name) else (name,)
            names |= dict.fromkeys(inner)
        self._names = tuple(names)
        self._values: tuple[Any, ...] | None = None
        self._result = False

    def __call__(self, attributes: Attributes) -> bool:
        if self._values is not None and self.knows(attributes):
            return self._result
        if not may_look():
            return self._test(attributes)
        result = self._test(attributes)
        spend(self._us)
        get = attributes.get
        self._values = tuple([get(name) for name in self._names])
        self._result = result
        return result

    def knows(self, attributes: Attributes) -> bool:
        """Whether the result for these values is kept."""
        if self._values is None:
            return False
        get = attributes.get
        for name, value in zip(self._names, self._values, strict=True):
            if get(name) is not value:
                return False
        return True
