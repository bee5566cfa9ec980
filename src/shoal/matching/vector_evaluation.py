"""Tests of numbers by vector instructions, for many conjunctions of one form at once.

The constants are columns, with a row for each conjunction (`ConstantRows`). An evaluation asks each
operator once for all rows, in doubles, and has the values of the scalar evaluator, bit by bit,
because it takes the same steps in the same order:

- an integer below 2^53 is a double exactly; a row with a larger one on the way is *unsure*, and its
  conjunction is to be tested by the scalar evaluator;
- an attribute that is missing, or no number, makes each operator's value missing: no row is TRUE;
- a division by zero and a place off the map are missing in their rows;
- NaN is equal to itself and above all numbers.

>>> from shoal.language import parse
>>> from shoal.matching.vector_forms import vector_form
>>> [conjunction] = parse("a + 2 * b > 5").normal_form
>>> form = vector_form(conjunction, frozenset(test.attribute for test in conjunction))
>>> [test] = vector_tests(form.shape)
>>> rows = ConstantRows()
>>> rows.append(form.constants)
>>> rows.append((3.0, 50.0))
>>> verdict = test({"a": 1, "b": 4.0}.get, rows, None)
>>> verdict.passed.tolist(), verdict.unsure
([True, False], False)
>>> test({"a": 1, "b": "4"}.get, rows, None) is None
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.vector_forms import (
    ATTRIBUTE,
    CONSTANT,
    EXACT,
    ComparedShape,
    ExpressionShape,
    FormShape,
)
from shoal.model.expressions.functions import HALF_DEGREE, SINE_SERIES

Column = npt.NDArray[np.float64]
# A mask of rows; a single verdict is that of all rows.
Mask = npt.NDArray[np.bool_] | np.bool_ | bool
# Numbers of rows; None for all.
Chosen = npt.NDArray[np.intp] | None
_Get = Callable[[str], Any]


class VectorVerdict(NamedTuple):
    """The rows that pass a test, if they are not among the unsure ones."""

    passed: Mask
    unsure: Mask


class ConstantRows:
    """The constants of many conjunctions of one form: a row for each, a column for each constant.

    The last row takes the place of one that is removed.
    """

    __slots__ = ("_bounds", "_columns", "_size")

    def __init__(self) -> None:
        self._size = 0
        # (constants, rows), with room for more rows.
        self._columns: npt.NDArray[np.float64] = np.empty((0, 0))
        # The largest constant of each column that ever was there.
        self._bounds: list[float] = []

    def append(self, constants: tuple[float, ...]) -> None:
        """Add a row, of as many constants as the others."""
        if self._size == self._columns.shape[1]:
            grown = np.zeros((len(constants), max(2 * self._size, 32)))
            grown[:, : self._size] = self._columns[:, : self._size] if self._size else 0.0
            self._columns = grown
        self._columns[:, self._size] = constants
        self._size += 1
        before = self._bounds or [0.0] * len(constants)
        self._bounds = [max(one, abs(new)) for one, new in zip(before, constants, strict=True)]

    def remove(self, row: int) -> None:
        """Remove a row."""
        self._size -= 1
        self._columns[:, row] = self._columns[:, self._size]

    def column(self, number: int, chosen: Chosen) -> Column:
        """A constant of all rows, or of the chosen ones."""
        whole = self._columns[number, : self._size]
        return whole if chosen is None else whole[chosen]

    def bound(self, number: int) -> float:
        """A bound of the absolute values in a column."""
        return self._bounds[number]


# A test of the chosen rows: takes the attributes' values by name; returns None if no row passes.
VectorTest = Callable[[_Get, ConstantRows, Chosen], VectorVerdict | None]


class _MissingError(Exception):
    """An attribute of the message is missing, or no number."""


class _Numbers(NamedTuple):
    """Numbers of all rows; of integers none is above `bound`, but for unsure rows."""

    values: Any
    is_integer: bool
    bound: float


class _Rows:
    """One evaluation: what it reads, and the rows that are unsure, or missing."""

    __slots__ = ("chosen", "constants", "get", "missing", "unsure")

    def __init__(self, get: _Get, constants: ConstantRows, chosen: Chosen) -> None:
        self.get = get
        self.constants = constants
        self.chosen = chosen
        self.unsure: Mask = False
        self.missing: Mask = False

    def column(self, number: int) -> Column:
        return self.constants.column(number, self.chosen)


_Evaluation = Callable[[_Rows], _Numbers]


def vector_tests(shape: FormShape) -> tuple[VectorTest, ...]:
    """The tests of a form, as functions."""
    return tuple([_vector_test(each) for each in shape.tests])


def _vector_test(shape: ComparedShape) -> VectorTest:
    sign, expression, first = shape
    if expression[0] == "within":
        *places, after = _evaluations(expression[1:], first)
        compare = _nearness(places, after)
    else:
        evaluate, after = _evaluation(expression, first)
        compare = _comparison(sign, evaluate, after)

    def ask(get: _Get, constants: ConstantRows, chosen: Chosen) -> VectorVerdict | None:
        rows = _Rows(get, constants, chosen)
        try:
            with np.errstate(all="ignore"):
                passed = compare(rows)
        except _MissingError:
            return None
        if rows.missing is not False:
            passed = passed & ~np.asarray(rows.missing)
        return VectorVerdict(passed, rows.unsure)

    return ask


def _evaluations(shapes: tuple[Any, ...], first: int) -> list[Any]:
    """The evaluations of arguments, and the number of the next column."""
    found: list[Any] = []
    for shape in shapes:
        evaluate, first = _evaluation(shape, first)
        found.append(evaluate)
    return [*found, first]


def _evaluation(shape: ExpressionShape, first: int) -> tuple[_Evaluation, int]:
    kind, *inner = shape
    if kind == ATTRIBUTE:
        return _attribute(inner[0]), first
    if kind == CONSTANT:
        is_integer = bool(inner[0])
        return lambda rows: _constant(rows, first, is_integer=is_integer), first + 1
    *arguments, after = _evaluations(tuple(inner), first)
    return _of_function(kind, arguments), after


def _attribute(name: str) -> _Evaluation:
    def read(rows: _Rows) -> _Numbers:
        value = rows.get(name)
        kind = type(value)
        if kind is float:
            return _Numbers(value, False, 0.0)
        if kind is not int:
            raise _MissingError
        if not -EXACT < value < EXACT:
            rows.unsure = True
            return _Numbers(0.0, True, 0.0)
        return _Numbers(float(value), True, abs(float(value)))

    return read


def _constant(rows: _Rows, number: int, *, is_integer: bool) -> _Numbers:
    return _Numbers(rows.column(number), is_integer, rows.constants.bound(number))


def _of_function(function: str, arguments: list[_Evaluation]) -> _Evaluation:
    first, *others = arguments
    if not others:
        apply_one = _ONE[function]
        return lambda rows: apply_one(rows, first(rows))
    apply = _TWO[function]

    def evaluate(rows: _Rows) -> _Numbers:
        found = first(rows)
        for each in others:
            found = apply(rows, found, each(rows))
        return found

    return evaluate


def _exact(rows: _Rows, values: Any, bound: float) -> _Numbers:
    """Integers as results; rows whose integer may not be a double are unsure."""
    if not bound < EXACT:
        rows.unsure = rows.unsure | ~(np.abs(values) < EXACT)
        bound = float(EXACT)
    return _Numbers(values, True, bound)


def _double(values: Any) -> _Numbers:
    return _Numbers(values, False, 0.0)


def _add(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    values = a.values + b.values
    if a.is_integer and b.is_integer:
        return _exact(rows, values, a.bound + b.bound)
    return _double(values)


def _subtract(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    values = a.values - b.values
    if a.is_integer and b.is_integer:
        return _exact(rows, values, a.bound + b.bound)
    return _double(values)


def _multiply(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    values = a.values * b.values
    if a.is_integer and b.is_integer:
        return _exact(rows, values, a.bound * b.bound)
    return _double(values)


def _divide(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    rows.missing = rows.missing | np.equal(b.values, 0)
    return _double(np.divide(a.values, b.values))


def _remainder(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    rows.missing = rows.missing | np.equal(b.values, 0)
    values = np.fmod(a.values, b.values)
    if a.is_integer and b.is_integer:
        return _Numbers(values, True, a.bound)
    return _double(values)


def _order(rows: _Rows, a: _Numbers, b: _Numbers) -> _Numbers:
    """-1, 0 or 1."""
    del rows
    one, other = a.values, b.values
    is_nan, is_other_nan = one != one, other != other
    above = (one > other) | (is_nan & ~np.asarray(is_other_nan))
    below = (one < other) | (is_other_nan & ~np.asarray(is_nan))
    return _Numbers(np.subtract(above, below, dtype=np.float64), True, 1.0)


def _negate(rows: _Rows, a: _Numbers) -> _Numbers:
    del rows
    return a._replace(values=-a.values)


def _absolute(rows: _Rows, a: _Numbers) -> _Numbers:
    del rows
    return a._replace(values=abs(a.values))


def _floor(rows: _Rows, a: _Numbers) -> _Numbers:
    return a if a.is_integer else _exact(rows, np.floor(a.values), np.inf)


def _ceil(rows: _Rows, a: _Numbers) -> _Numbers:
    return a if a.is_integer else _exact(rows, np.ceil(a.values), np.inf)


_ONE: dict[str, Callable[[_Rows, _Numbers], _Numbers]] = {
    "negative": _negate,
    "abs": _absolute,
    "floor": _floor,
    "ceil": _ceil,
}
_TWO: dict[str, Callable[[_Rows, _Numbers, _Numbers], _Numbers]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "order": _order,
}
# NaN is above all operands: what is not at most one is above it.
_COMPARED: dict[str, Callable[[Any, Column], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": lambda values, operand: ~np.less_equal(values, operand),
    ">=": lambda values, operand: ~np.less(values, operand),
}


def _comparison(sign: str, evaluate: _Evaluation, operand: int) -> Callable[[_Rows], Mask]:
    compare = _COMPARED[sign]
    return lambda rows: compare(evaluate(rows).values, rows.column(operand))


def _nearness(places: list[_Evaluation], most: int) -> Callable[[_Rows], Mask]:
    """Whether two places are near, with the steps of `functions.chord`."""

    def is_near(rows: _Rows) -> Mask:
        lat, lon, lat0, lon0 = [np.asarray(each(rows).values) for each in places]
        is_on_map = (abs(lat) <= 90) & (abs(lat0) <= 90) & (abs(lon) <= 180) & (abs(lon0) <= 180)
        north = _sine((lat - lat0) * HALF_DEGREE)
        turn = abs(lon - lon0)
        east = _sine(np.minimum(turn, 360.0 - turn) * HALF_DEGREE)
        cosines = _cosine_of_degrees(lat) * _cosine_of_degrees(lat0)
        chord = north * north + cosines * (east * east)
        found: Mask = is_on_map & (chord <= rows.column(most))
        return found

    return is_near


def _sine(angle: Any) -> Any:
    square, total = angle * angle, SINE_SERIES[-1]
    for factor in reversed(SINE_SERIES[:-1]):
        total = factor + square * total
    return angle * total


def _cosine_of_degrees(angle: Any) -> Any:
    return _sine((90.0 - abs(angle)) * (2 * HALF_DEGREE))
