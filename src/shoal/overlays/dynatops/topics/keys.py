"""Topics of publications and of filters: the texts of one attribute.

>>> from shoal.language import parse
>>> sorted(keys_of(parse("symbol IN ('A', 'B') AND price > 3"), "symbol", 16))
['A', 'B']
>>> keys_of(parse("price > 3"), "symbol", 16) is None
True
"""

from __future__ import annotations

from shoal.model import Attributes, Filter, Operator
from shoal.model.values import Kind


def key_of(attributes: Attributes, attribute: str) -> str | None:
    """The topic of a publication; None if it has none."""
    value = attributes.get(attribute)
    return value if isinstance(value, str) else None


def keys_of(filter: Filter, attribute: str, most: int) -> frozenset[str] | None:
    """The topics of all that a filter matches; None if these are any, or more than `most`."""
    found: set[str] = set()
    for conjunction in filter.normal_form:
        for test in conjunction:
            if test.attribute != attribute or test.kind is not Kind.STRING:
                continue
            if test.operator is Operator.EQ and isinstance(test.operand, str):
                found.add(test.operand)
                break
            if test.operator is Operator.IN and isinstance(test.operand, tuple):
                found.update(str(value) for value in test.operand)
                break
        else:
            return None
        if len(found) > most:
            return None
    return frozenset(found)
