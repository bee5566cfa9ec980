"""Times that would press a replay together: rows far from all others, and a wrong unit.

>>> hour, day = 3_600_000_000, 86_400_000_000
>>> usual = np.arange(48) * hour + 20_454 * day
>>> (line,) = time_warnings(lambda: iter([usual, usual[:1] + 33_000 * day]))
>>> print(line)
1 of 49 rows (2 %) is far from the others in time, at 2116-05-09 00:00; the others, \
from 2026-01-01 00:00 to 2026-01-02 23:00, would be pressed into 0.0059 % of a replay: \
write before = "2026-01-03" under [time] in the declaration to reject it
>>> time_warnings(lambda: iter([usual]))
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from shoal.pipeline.sources.declaration import EPOCH_UNITS_PER_SECOND

Times = npt.NDArray[np.int64]

# Times so many interquartile ranges, of an hour at least, from the quartiles are far away...
FAR = 20
SHORTEST_RANGE_US = 3_600_000_000
# ... and are named if the others would have less than this share of a replay.
SMALL_SHARE = 0.1
# Times that are looked at for quartiles.
MOST_SAMPLED = 1_000_000
_DAY_US = 86_400_000_000
# Years in which most events are; others hint at a wrong unit.
_USUAL = (1_990, 2_100)
_POSSIBLE = (1_971, 2_200)
_LAST_YEAR = 9_999


def time_warnings(times: Callable[[], Iterator[Times]], formats: Sequence[str] = ()) -> list[str]:
    """Return what is odd about times, in µs since 1970, in one line each; `times` yields them anew
    each time.

    `formats` are those of the declaration, if it is known.
    """
    sample = _sample(times())
    if not len(sample):
        return []
    unit = _unit_warning(sample, formats)
    return [unit] if unit else _far_away(times, sample)


def _sample(times: Iterator[Times]) -> Times:
    """Every nth time, sorted."""
    chunks, step, kept = [np.empty(0, np.int64)], 1, 0
    for chunk in times:
        chunks.append(chunk[::step])
        kept += len(chunks[-1])
        if kept > MOST_SAMPLED:
            chunks, step = [np.concatenate(chunks)[::2]], step * 2
            kept = len(chunks[0])
    return np.sort(np.concatenate(chunks))


def _unit_warning(ordered: Times, formats: Sequence[str]) -> str:
    """A line about times that are in usual years if their numbers are in another unit."""
    low, high = (int(ordered[int((len(ordered) - 1) * share)]) for share in (0.01, 0.5))
    if _POSSIBLE[0] <= _year(high) < _POSSIBLE[1]:
        return ""
    given = [format for format in formats if format in EPOCH_UNITS_PER_SECOND]
    for format in given or EPOCH_UNITS_PER_SECOND:
        for other, units in EPOCH_UNITS_PER_SECOND.items():
            in_other = [at * EPOCH_UNITS_PER_SECOND[format] // units for at in (low, high)]
            if other != format and all(_USUAL[0] <= _year(at) < _USUAL[1] for at in in_other):
                remedy = (
                    f'write format = "{other}" for "{format}"'
                    if given
                    else "the declaration's epoch format has the wrong unit"
                )
                at, other_at = _shown(high), _shown(in_other[1])
                return f"times are around {at}, or in another unit {other_at}: {remedy}"
    return ""


def _far_away(times: Callable[[], Iterator[Times]], ordered: Times) -> list[str]:
    first, third = (int(ordered[(len(ordered) - 1) * part // 4]) for part in (1, 3))
    reach = FAR * max(third - first, SHORTEST_RANGE_US)
    rows = near = 0
    early: list[int] = []
    late: list[int] = []
    ends = [third, first]
    for chunk in times():
        inside = chunk[(chunk >= first - reach) & (chunk <= third + reach)]
        rows, near = rows + len(chunk), near + len(inside)
        if len(inside):
            ends = [min(ends[0], int(inside.min())), max(ends[1], int(inside.max()))]
        early += [int(each.min()) for each in [chunk[chunk < first - reach]] if len(each)]
        late += [int(each.max()) for each in [chunk[chunk > third + reach]] if len(each)]
    if rows == near or (rows - near) * 3 > rows:
        return []
    whole = max([ends[1], *late]) - min([ends[0], *early])
    share = max(ends[1] - ends[0], 1) / whole
    if share >= SMALL_SHARE:
        return []
    far = rows - near
    keys = [f'earliest = "{_date(ends[0])}"'] if early else []
    keys += [f'before = "{_date(ends[1] + _DAY_US)}"'] if late else []
    farthest = [*([min(early)] if early else []), *([max(late)] if late else [])]
    places = " and ".join(map(_shown, farthest))
    return [
        f"{far:,} of {rows:,} rows ({far / rows * 100:.2g} %) {'is' if far == 1 else 'are'} far "
        f"from the others in time, at {places}; the others, from {_shown(ends[0])} to "
        f"{_shown(ends[1])}, would be pressed into {share * 100:.2g} % of a replay: write "
        f"{' and '.join(keys)} under [time] in the declaration to reject "
        f"{'it' if far == 1 else 'them'}"
    ]


def _year(time_us: int) -> float:
    return 1970 + time_us / _DAY_US / 365.2425


def _moment(time_us: int) -> datetime | None:
    if not 1 < _year(time_us) < _LAST_YEAR:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def _shown(time_us: int) -> str:
    moment = _moment(time_us)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else f"the year {_year(time_us):,.0f}"


def _date(time_us: int) -> str:
    moment = _moment(time_us)
    return f"{moment:%Y-%m-%d}" if moment else "YYYY-MM-DD"
