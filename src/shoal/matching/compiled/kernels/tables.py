"""Compiled loops of equality tables: conjunctions filed under the values they demand.

All conjunctions of a table demand values of the same attributes; those that demand the same values
lie side by side in one bucket, and a hash of the values finds it. Further tests of a conjunction,
closed ranges of numbers, stand beside it in a fixed number of slots, so that testing it takes no
branch.

>>> import numpy as np
>>> keys = np.array([7, 40])
>>> places = hash_keys(keys)
>>> find_key(keys, places, 40), find_key(keys, places, 8)
(1, -1)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels import plain
from shoal.matching.compiled.kernels.compiler import kernel, kernel_or


@kernel
def _spread(key: int, places: int) -> int:
    """Return the first place of the search for a key; `places` is a power of two."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    place: int = np.int64((mixed >> np.uint64(32)) & np.uint64(places - 1))  # type: ignore[assignment]  # an int to the compiler
    return place


@kernel_or(plain.hash_keys)
def hash_keys(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """An open hash of the keys' numbers, at most half full; -1 where there is none."""
    size = 2
    while size < 2 * keys.size:
        size *= 2
    places = np.full(size, -1, np.int32)
    for number in range(keys.size):
        at = _spread(keys[number], size)
        while places[at] >= 0:
            at = (at + 1) & (size - 1)
        places[at] = number
    return places


@kernel_or(plain.find_key)
def find_key(keys: npt.NDArray[np.int64], places: npt.NDArray[np.int32], key: int) -> int:
    """The key's number, or -1."""
    at = _spread(key, places.size)
    while places[at] >= 0:
        if keys[places[at]] == key:
            return int(places[at])
        at = (at + 1) & (places.size - 1)
    return -1


@kernel
def _passing(
    start: int,
    end: int,
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    tested: npt.NDArray[np.int16],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    found: npt.NDArray[np.uint32],
    at: int,
) -> int:
    """Write those of the conjunctions with ranges around the point to `found`; return the end."""
    for member in range(start, end):
        passed = True
        for slot in range(tested.shape[1]):
            attribute = tested[member, slot]
            passed &= low[member, slot] <= down[attribute]
            passed &= high[member, slot] >= up[attribute]
        found[at] = member
        at += passed
    return at


@kernel_or(plain.match_key)
def match_key(
    key: int,
    point: npt.NDArray[np.float64],
    keys: npt.NDArray[np.int64],
    places: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    tested: npt.NDArray[np.int16],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    found: npt.NDArray[np.uint32],
) -> int:
    """Find the conjunctions of one point by its key; return how many are in `found`.

    `point` has the rows of `match_table`'s `down` and `up`, in two columns. `found` has room for
    one more than the largest bucket.
    """
    number = find_key(keys, places, key)
    if number < 0:
        return 0
    start, end = starts[number], starts[number + 1]
    return _passing(start, end, point[:, 0], point[:, 1], tested, low, high, found, 0)


@kernel_or(plain.match_table)
def match_table(
    codes: npt.NDArray[np.int32],
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    places: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    tested: npt.NDArray[np.int16],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    found: npt.NDArray[np.uint32],
    at: int,
    done: int,
) -> tuple[int, int]:
    """The conjunctions of points `done` and on.

    `codes` is (points, attributes of the equalities): no conjunction demands a value with a code
    that is negative or not below the attribute's entry in `sizes`. `down` and `up` are (points, 1 +
    attributes of the ranges), 0.0 in column 0, to which an empty slot refers; `tested`, `low` and
    `high` are (conjunctions, slots). Stops before a point with a bucket that might not fit in
    `found`, and returns how many points are done and how much of `found` is used.
    """
    for point in range(done, codes.shape[0]):
        begins[point] = at
        key = 0
        for column in range(codes.shape[1]):
            code = codes[point, column]
            known = key >= 0 and 0 <= code < sizes[column]
            key = key * sizes[column] + code if known else -1
        if key < 0:
            continue
        number = find_key(keys, places, key)
        if number < 0:
            continue
        start = starts[number]
        end = starts[number + 1]
        if at + end - start >= found.size:
            return point, at
        at = _passing(start, end, down[point], up[point], tested, low, high, found, at)
        counts[point] = at - begins[point]
    return codes.shape[0], at
