"""Values that tell keys apart, and values that may have changed.

Two values are the same as in SQL's IS NOT DISTINCT FROM: missing is the same as missing, NaN as
NaN, an integer as an equal double; a boolean, a number and a string are never the same.

>>> key_name(("t", 1, True)) == key_name(("t", 1.0, True)), key_name((1,)) == key_name((True,))
(True, False)
>>> key_values(key_name(("t", 1, True, None)))
('t', 1, True, None)

A long text is kept as its hash, so that a key has a bounded size, whatever publishers send.
>>> key_name(("a" * 20_000,)) == key_name(("a" * 20_001,)), len(shortened("a" * 20_000))
(False, 33)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from hashlib import blake2b
from math import nan

from shoal.model import Value, kind_of

# A key as keys of tables compare it: a boolean stands alone in a tuple, as Python's True is 1; NaN
# is the empty tuple, as it is not equal to itself.
KeyName = tuple[Hashable, ...]
# Characters of a text that is kept as it is.
LONGEST_TEXT = 128


def key_name(values: Iterable[Value | None]) -> KeyName:
    """The name of a key: equal for the same values."""
    return tuple([_name(value) for value in values])


def _name(value: Value | None) -> Hashable:
    if isinstance(value, bool):
        return (value,)
    return () if value != value else shortened(value)


def shortened(value: Value | None) -> Value | None:
    """A value, or the hash of a long text in its place: equal for equal texts."""
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    text = value.encode("utf-8", "surrogatepass")
    return f"#{blake2b(text, digest_size=16).hexdigest()}"


def key_values(name: KeyName) -> tuple[Value | None, ...]:
    """The values of a key."""
    return tuple([_value(part) for part in name])


def _value(part: Hashable) -> Value | None:
    if isinstance(part, tuple):
        return part[0] if part else nan
    return part  # type: ignore[return-value]  # `_name` made it


def is_same_value(one: Value | None, other: Value | None) -> bool:
    """Whether two values are the same.

    >>> is_same_value(1, 1.0), is_same_value(True, 1), is_same_value(None, None)
    (True, False, True)
    """
    if one is None or other is None:
        return one is other
    if kind_of(one) is not kind_of(other):
        return False
    return one == other or (one != one and other != other)


def differs(old: Value | None, new: Value | None, least: float | None) -> bool:
    """Whether a value has changed; numbers if they differ by `least`, where it is given.

    >>> differs(20.0, 20.3, 0.5), differs(20.0, 20.5, 0.5), differs(20.0, None, 0.5)
    (False, True, True)
    """
    if is_same_value(old, new):
        return False
    if least is None or not (_is_number(old) and _is_number(new)):
        return True
    assert old is not None
    assert new is not None
    if isinstance(old, int) and isinstance(new, int):
        return abs(new - old) >= least
    difference = abs(float(new) - float(old))
    return difference >= least or difference != difference  # NaN on one side


def _is_number(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
