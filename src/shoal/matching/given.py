"""Attribute values as callers have them: our own types, and others that mean exactly one of ours.

numpy's scalars, and subclasses of `str`, `int` and `float`, count as their equals; None and pandas'
NA stand for a missing attribute. Any other type (dates, decimals, bytes) has no exact meaning: it
raises, because silence would look like "nothing matches".

>>> import numpy as np
>>> checked({"price": np.float32(1.5), "symbol": "A"})
{'price': 1.5, 'symbol': 'A'}
>>> checked({"price": b"1.5"})
Traceback (most recent call last):
TypeError: attribute 'price': bytes is not a value; use a boolean, an integer, a double or a string
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.model import INTEGER_MAX, INTEGER_MIN, Attributes, Value, check_value

# Types that need no second look.
PLAIN_TYPES = frozenset((bool, int, float, str, type(None)))


def checked(attributes: Mapping[str, Any]) -> Attributes:
    """The attributes with values of our own types; TypeError names a value without exact meaning.

    So does ValueError an integer beyond 64 bits.  A mapping that needs no change is handed back.
    """
    try:
        values = attributes.values()
    except (AttributeError, TypeError):  # a row of pandas has an array called `values`
        raise TypeError(
            f"attributes are a mapping from names to values, not {type(attributes).__name__}"
        ) from None
    for value in values:
        kind = type(value)
        if kind not in PLAIN_TYPES or (kind is int and not INTEGER_MIN <= value <= INTEGER_MAX):
            plain = {name: plain_value(name, each) for name, each in attributes.items()}
            return {name: each for name, each in plain.items() if each is not None}
    return attributes


def columns_of(publications: Any) -> Mapping[str, Any] | None:
    """The columns of a mapping, or of a table of pandas, Polars or Arrow; None of rows.

    TypeError for any other object, and for a table with columns of one name.

    >>> import pyarrow as pa
    >>> columns_of(pa.table({"price": [1.5]})).keys(), columns_of([{"price": 1.5}])
    (dict_keys(['price']), None)
    """
    if isinstance(publications, Mapping):
        return publications
    names = getattr(publications, "column_names", getattr(publications, "columns", None))
    if names is not None:
        found = {name: publications[name] for name in names}
        if len(found) < len(names):
            raise TypeError("the table has columns of the same name")
        return found
    if isinstance(publications, str | bytes) or not hasattr(publications, "__len__"):
        raise TypeError(
            "publications are a sequence of attributes, columns by attribute, or a table, "
            f"not {type(publications).__name__}"
        )
    return None


def plain_value(name: str, given: Any) -> Value | None:
    """A value of one of our own types, None for a missing one; raises as `checked` does."""
    value: Value
    match given:
        case None | bool() | np.bool_():
            return None if given is None else bool(given)
        case str():
            return str.__str__(given)
        case int() | np.integer():
            check_value(int(given), f"attribute {name!r}")
            return int(given)
        case float() | np.floating():
            value = float(given)
            if value == given or given != given:
                return value
    if type(given).__name__ == "NAType" and type(given).__module__.startswith("pandas."):
        return None
    raise TypeError(
        f"attribute {name!r}: {type(given).__name__} is not a value; "
        "use a boolean, an integer, a double or a string"
    )
