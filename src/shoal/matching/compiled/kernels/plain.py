"""The matching kernels with NumPy, for where numba is not installed.

Each function takes and gives what the kernel of its name does, down to the order of members.  Many
points go through NumPy's own loops at once; `PAIRS` bounds the memory that they take.

>>> import numpy as np
>>> places_of(np.array([10, 30]), np.array([2, 1])).tolist()
[10, 11, 30]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels.lanes import LANES, PUT_MARGIN

# Points and nodes, or points and conjunctions, that are compared at once.
PAIRS = 2**16
# Points that are matched together at most.
POINTS = 1024

_Doubles = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint16]
_Members = npt.NDArray[np.uint32]
_Flags = npt.NDArray[np.bool_]


def places_of(begins: _Numbers, counts: _Numbers) -> _Numbers:
    """The places of all runs, one run after the other."""
    ends = np.cumsum(counts)
    return np.repeat(begins - (ends - counts), counts) + np.arange(ends[-1] if ends.size else 0)


def copy_ids(
    ids: _Numbers,
    order: _Numbers,
    found: _Members,
    begins: _Numbers,
    counts: _Numbers,
    cursor: _Numbers,
    out: _Numbers,
) -> None:
    """See `answers.copy_ids`."""
    out[places_of(cursor, counts)] = ids[found[places_of(begins, counts)]]
    cursor += counts


def drop_removed(
    kept: _Flags, numbers: _Numbers, found: _Members, begins: _Numbers, counts: _Numbers
) -> None:
    """See `answers.drop_removed`."""
    members = found[places_of(begins, counts)]
    is_kept = kept[numbers[members]]
    owners = np.repeat(np.arange(counts.size), counts)
    counts[:] = np.bincount(owners[is_kept], minlength=counts.size)
    found[places_of(begins, counts)] = members[is_kept]


def name_once(numbers: _Numbers, offsets: _Numbers, highest: int) -> tuple[_Numbers, _Numbers]:
    """See `answers.name_once`."""
    owners = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    named = owners * (highest + 1) + numbers[: owners.size]
    _, first = np.unique(named, return_index=True)
    first.sort()
    return np.searchsorted(first, offsets), numbers[first]


def step_table(edges: _Doubles, origin: float, scale: float) -> _Codes:
    """No table: `code_points` bisects."""
    return np.empty(0, np.uint16)


def code_points(
    values: _Doubles,
    edges: _Doubles,
    steps: _Codes,
    origin: float,
    scale: float,
    codes: _Codes,
    column: int,
) -> None:
    """See `boxes.code_points`; the edges that pad the others are NaN, which NumPy sorts last."""
    is_there = ~np.isnan(values)
    codes[is_there, column] = np.searchsorted(edges, values[is_there])


def even_codes(
    values: _Doubles,
    origin: float | _Doubles,
    scale: float | _Doubles,
    first: int,
    steps: int,
) -> npt.NDArray[np.int64]:
    """See `boxes.even_code`."""
    with np.errstate(invalid="ignore", over="ignore"):
        position = (values - origin) * scale
    position = np.where(position > 0.0, position, 0.0)
    return first + np.minimum(position, steps - 1.0).astype(np.int64)


def match_boxes(
    order: _Numbers,
    most: _Codes,
    least: _Codes,
    down: _Doubles,
    up: _Doubles,
    slack: _Codes,
    bounds: _Doubles,
    nodes: _Codes,
    levels: _Numbers,
    is_even: bool,
    begins: _Numbers,
    counts: _Numbers,
    found: _Members,
    at: int,
    done: int,
) -> tuple[int, int]:
    """See `boxes.match_boxes`."""
    dimensions = most.shape[1]
    tree = nodes.reshape(-1, dimensions, 2, LANES)
    leaves = int(levels[1]) if levels.size > 1 else 1
    together = min(max(PAIRS // leaves, 1), POINTS)
    # Codes of boxes that may hold a point, and of those that do for sure.
    highest, lowest = most.astype(np.int32), least.astype(np.int32)
    sure_highest, sure_lowest = highest - slack[:dimensions], lowest + slack[dimensions:]
    if is_even:
        highest, lowest = highest + 1, lowest - 1
    is_coarse = is_even or bool(slack.any())
    while done < order.size:
        points = order[done : done + together]
        # Pairs of a point, by its place among `points`, and a node that may hold it.
        place, node = np.arange(points.size), np.zeros(points.size, np.int64)
        for level in range(levels.size - 1, 0, -1):
            pairs = points[place], levels[level] + node
            chosen, lane = _within(tree, pairs, highest, lowest)
            place, node = place[chosen], node[chosen] * LANES + lane
        looked_at = np.bincount(place, minlength=points.size)
        chosen, lane = _within(tree, (points[place], node), highest, lowest)
        place, box = place[chosen], node[chosen] * LANES + lane
        if is_coarse:
            point = points[place]
            holds = np.ones(box.size, np.bool_)
            for at_dimension in range(dimensions):
                side = tree[box // LANES, at_dimension, :, box % LANES]
                holds &= side[:, 0] <= sure_highest[point, at_dimension]
                holds &= side[:, 1] >= sure_lowest[point, at_dimension]
            open_ = np.flatnonzero(~holds)
            inside, asked = bounds[box[open_]], point[open_]
            holds[open_] = (inside[:, :dimensions] <= down[asked]).all(axis=1)
            holds[open_] &= (inside[:, dimensions:] >= up[asked]).all(axis=1)
            place, box = place[holds], box[holds]
        matched = np.bincount(place, minlength=points.size)
        starts = at + np.cumsum(matched) - matched
        full = np.flatnonzero(starts + looked_at * LANES + PUT_MARGIN > found.size)
        fitting = int(full[0]) if full.size else points.size
        size = int(matched[:fitting].sum())
        begins[points[:fitting]] = starts[:fitting]
        counts[points[:fitting]] = matched[:fitting]
        found[at : at + size] = box[:size]
        at += size
        done += fitting
        if full.size:
            break
    return done, at


def _within(
    tree: _Codes,
    pairs: tuple[_Numbers, _Numbers],
    highest: npt.NDArray[np.int32],
    lowest: npt.NDArray[np.int32],
) -> tuple[_Numbers, _Numbers]:
    """The pairs and lanes that pass in every dimension."""
    chosen, lanes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin in range(0, pairs[0].size, PAIRS):
        point, node = (each[begin : begin + PAIRS] for each in pairs)
        passed: _Flags | None = None
        for dimension in range(tree.shape[1]):
            # Codes are compared in 16 bits, which vectors hold most of; no code is beyond them.
            upper = np.clip(highest[point, dimension], 0, 2**16 - 1).astype(np.uint16)
            lower = np.clip(lowest[point, dimension], 0, 2**16 - 1).astype(np.uint16)
            sides = tree[node, dimension]
            inside = sides[:, 0] <= upper[:, None]
            inside &= sides[:, 1] >= lower[:, None]
            passed = inside if passed is None else passed & inside
        assert passed is not None
        some, lane = np.nonzero(passed)
        chosen.append(some + begin)
        lanes.append(lane)
    return np.concatenate(chosen), np.concatenate(lanes)


def hash_keys(keys: _Numbers) -> npt.NDArray[np.int32]:
    """No hash: `find_key` bisects."""
    return np.empty(0, np.int32)


def find_key(keys: _Numbers, places: npt.NDArray[np.int32], key: int) -> int:
    """See `tables.find_key`; keys ascend."""
    place = int(np.searchsorted(keys, key))
    return place if place < keys.size and keys[place] == key else -1


def match_key(
    key: int,
    point: _Doubles,
    keys: _Numbers,
    places: npt.NDArray[np.int32],
    starts: _Numbers,
    tested: npt.NDArray[np.int16],
    low: _Doubles,
    high: _Doubles,
    found: _Members,
) -> int:
    """See `tables.match_key`."""
    number = find_key(keys, places, key)
    if number < 0:
        return 0
    start, end = int(starts[number]), int(starts[number + 1])
    asked = point[tested[start:end]]
    passed = (low[start:end] <= asked[..., 0]) & (high[start:end] >= asked[..., 1])
    members = start + np.flatnonzero(passed.all(axis=1))
    found[: members.size] = members
    return members.size


def match_table(
    codes: npt.NDArray[np.int32],
    down: _Doubles,
    up: _Doubles,
    sizes: _Numbers,
    keys: _Numbers,
    places: npt.NDArray[np.int32],
    starts: _Numbers,
    tested: npt.NDArray[np.int16],
    low: _Doubles,
    high: _Doubles,
    begins: _Numbers,
    counts: _Numbers,
    found: _Members,
    at: int,
    done: int,
) -> tuple[int, int]:
    """See `tables.match_table`."""
    key = np.zeros(len(codes), np.int64)
    is_known = np.full(len(codes), keys.size > 0)
    for column, size in enumerate(sizes):
        code = codes[:, column]
        is_known &= (code >= 0) & (code < size)
        key = key * size + code
    number = np.minimum(np.searchsorted(keys, key), max(keys.size - 1, 0))
    is_known[is_known] = keys[number[is_known]] == key[is_known]
    starting = np.where(is_known, starts[number], 0)
    candidates = np.where(is_known, starts[np.minimum(number + 1, keys.size)], 0) - starting
    ends = np.cumsum(candidates)
    while done < len(codes):
        before = int(ends[done - 1]) if done else 0
        end = max(int(np.searchsorted(ends, before + PAIRS)), done + 1)
        end = min(end, len(codes))
        some = slice(done, end)
        member = places_of(starting[some], candidates[some])
        owner = np.repeat(np.arange(done, end), candidates[some])
        passed = np.ones(member.size, np.bool_)
        for slot in range(tested.shape[1]):
            attribute = tested[member, slot]
            passed &= low[member, slot] <= down[owner, attribute]
            passed &= high[member, slot] >= up[owner, attribute]
        matched = np.bincount(owner[passed] - done, minlength=end - done)
        begin = at + np.cumsum(matched) - matched
        is_full = is_known[some] & (begin + candidates[some] >= found.size)
        full = np.flatnonzero(is_full)
        fitting = int(full[0]) if full.size else end - done
        size = int(matched[:fitting].sum())
        begins[done : done + fitting] = begin[:fitting]
        counts[done : done + fitting] = matched[:fitting]
        found[at : at + size] = member[passed][:size]
        at += size
        done += fitting
        if full.size:
            break
    return done, at
