"""Outlines: the attributes that a region fixes and bounds, coarse enough to be compared by the
thousand.

If one region contains another, its outline may hold the other's (`may_fix`, `may_hold`), but not
always the other way round. An attribute is fixed when a region leaves it one value, else it has the
least interval around its values. Strings have a place on the line of doubles by their first bytes,
so that tables of bounds are tables of doubles.

>>> from shoal.language import parse
>>> from shoal.matching.relations.decisions import regions
>>> (region,) = regions(parse("class = 'STOCK' AND price >= 5 AND price < 7"))
>>> outline(region).fixed["class"], outline(region).bounds["price"]
(Fixed(attribute='class', kind='string', value='STOCK'), Bounds(kind='number', low=5.0, high=7.0))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.matching.domains import Beyond
from shoal.matching.relations.decisions import Region, Values
from shoal.matching.relations.ordered_sets import OrderedSet
from shoal.matching.relations.string_sets import witness

# As many bytes of a string as a double holds exactly: enough to order most of them.
_ORDERING_BYTES = 6
INFINITY = float("inf")

# Kinds of fixed or bounded values.
NUMBER = "number"
STRING = "string"
BOOLEAN = "boolean"
ABSENT = "absent"
SHAPE = "shape"
ANY = "any"


class Fixed(NamedTuple):
    """An attribute that a region fixes: to be absent, to a value, or to some shape of string.

    A set of strings with patterns may turn out to be a single string, or within any bounds: it
    is filed by its attribute alone (kind "shape").
    """

    attribute: str
    kind: str
    value: Any


class Bounds(NamedTuple):
    """The least interval around an attribute's values; "any" kind has no bounds."""

    kind: str
    low: float
    high: float


class Outline(NamedTuple):
    """A region's index entry, by attribute in order of the names.

    A witness is one of the strings of a shape: only a set with the witness can contain the shape.
    """

    fixed: dict[str, Fixed]
    bounds: dict[str, Bounds]
    witnesses: Mapping[str, str] = {}


def outline(region: Region) -> Outline:
    """The outline of a region that some publication can match."""
    fixed: dict[str, Fixed] = {}
    bounds: dict[str, Bounds] = {}
    witnesses: dict[str, str] = {}
    for name in sorted(region):
        only = _only_value(region[name])
        if only is not None:
            fixed[name] = Fixed(name, *only)
            example = witness(region[name].strings) if only[0] == SHAPE else None
            if example is not None:
                witnesses[name] = example
        else:
            bounds[name] = _bounds(region[name])
    return Outline(fixed, bounds, witnesses)


def _only_value(values: Values) -> tuple[str, Any] | None:
    """The kind and the value, if there is but one."""
    if values.absent:
        return ABSENT, None
    if values.strings.shapes and values.strings.ordered.points is None:
        return SHAPE, None
    kind = _kind(values)
    if kind == BOOLEAN and len(values.booleans) == 1:
        return kind, min(values.booleans)
    if kind not in (NUMBER, STRING):
        return None
    ordered = values.numbers if kind == NUMBER else values.strings.ordered
    if ordered.points is None:
        is_single = not ordered.domain.successor(ordered.low) < ordered.high
        return (kind, ordered.low) if is_single else None
    return (kind, min(ordered.points)) if len(ordered.points) == 1 else None


def _kind(values: Values) -> str:
    kinds = []
    if values.booleans:
        kinds.append(BOOLEAN)
    if values.numbers.points is None or values.numbers.points:
        kinds.append(NUMBER)
    if values.strings.ordered.points is None or values.strings.ordered.points:
        kinds.append(STRING)
    return kinds[0] if len(kinds) == 1 else ANY


def hull(values: Values) -> Bounds:
    """Return the least interval around an attribute's possible values, fixed or not."""
    return Bounds(ABSENT, -INFINITY, INFINITY) if values.absent else _bounds(values)


def _bounds(values: Values) -> Bounds:
    kind = _kind(values)
    if kind == NUMBER:
        return _hull(kind, values.numbers)
    if kind == STRING:
        return _hull(kind, values.strings.ordered)
    return Bounds(kind, -INFINITY, INFINITY)


def _hull(kind: str, ordered: OrderedSet) -> Bounds:
    low, high = ordered.low, ordered.high
    if ordered.points is not None:
        low, high = min(ordered.points), ordered.domain.successor(max(ordered.points))
    return Bounds(kind, _place_on_line(low), _place_on_line(high))


def _place_on_line(bound: Any) -> float:
    """Return a double that keeps the order of bounds, up to ties."""
    if isinstance(bound, Beyond):
        return INFINITY
    if isinstance(bound, str):
        # A character has at least one byte, so those beyond cannot matter.
        head = bound[:_ORDERING_BYTES].encode("utf-8", "surrogatepass")[:_ORDERING_BYTES]
        return float(int.from_bytes(head.ljust(_ORDERING_BYTES, b"\0")))
    return float(bound)


def bounds_of(fixed: Fixed) -> Bounds:
    """The bounds of a fixed attribute as it lies within others; those of a shape are unknown."""
    if fixed.kind == SHAPE:
        return Bounds(STRING, INFINITY, -INFINITY)
    if fixed.kind in (NUMBER, STRING):
        place = _place_on_line(fixed.value)
        return Bounds(fixed.kind, place, place)
    return Bounds(fixed.kind, -INFINITY, INFINITY)


def may_hold(outer: Bounds, inner: Bounds) -> bool:
    """Return whether one attribute's values may contain others."""
    return suits(outer.kind, inner.kind) and outer.low <= inner.low and inner.high <= outer.high


def suits(outer_kind: str, inner_kind: str) -> bool:
    return outer_kind == inner_kind or (outer_kind == ANY and inner_kind != ABSENT)


def inner_bounds(inner: Outline, name: str) -> Bounds | None:
    """Return bounds of an attribute of a region that may lie within others; None if it is open."""
    fixed = inner.fixed.get(name)
    return inner.bounds.get(name) if fixed is None else bounds_of(fixed)


def may_fix(outer: Fixed, inner: Outline) -> bool:
    """Return whether the fixed values of a region may hold for another, all of whose attributes are
    given.
    """
    fixed = inner.fixed.get(outer.attribute)
    if outer.kind == SHAPE:
        bounds = inner_bounds(inner, outer.attribute)
        return bounds is not None and bounds.kind == STRING
    if fixed is None:
        return False
    if fixed.kind == SHAPE and outer.kind == STRING:
        return bool(inner.witnesses.get(outer.attribute, outer.value) == outer.value)
    return fixed == outer
