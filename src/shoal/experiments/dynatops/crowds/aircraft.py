"""Users that fly: each wants the publications of its cell and of those beside it.

An aircraft says where it is to its cell, so topics are published to as often as there are positions
in their cells.  It is a user from its first position on, until it has not been heard of for a
while.  The time of the file is put into the hours of a run, so that a slot is some minutes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.experiments.dynatops.crowds.changes import CrowdChange, Topics
from shoal.experiments.dynatops.crowds.columns import check_columns
from shoal.experiments.dynatops.crowds.users import StudyCrowd
from shoal.experiments.dynatops.setting import Area, DynatopsSetting

_COLUMNS = ("timestamp", "icao24", "latitude", "longitude")
# Distinguishes the recordings of a file.
_RECORDING = "sample"
# An aircraft without a message for this long is gone, and comes back as new.
GONE_S = 600.0


def check_aircraft(path: Path) -> None:
    """ValueError unless the file has positions of aircraft."""
    check_columns(path, _COLUMNS, "aircraft")


def area_of(path: Path) -> Area:
    """West, south, east and north of all positions."""
    table = _read(path)
    (south, north), (west, east) = (
        (float(table[each].min()), float(table[each].max())) for each in ("latitude", "longitude")
    )
    if not (west < east and south < north):
        raise ValueError(f"{path}: its aircraft fly nowhere")
    return west, south, east, north


def read_aircraft(setting: DynatopsSetting) -> StudyCrowd:
    """The crowd of the file; it has its own number of users."""
    table = _read(Path(setting.trace))
    times = table.timestamp.to_numpy("datetime64[ms]").astype(float) / 1_000
    begin, span = times.min(), max(times.max() - times.min(), 1.0)
    slots = ((times - begin) / span * setting.hours).clip(0, setting.hours - 1e-9)
    west, south, east, north = setting.area
    x = (table.longitude.to_numpy(float) - west) / (east - west) * setting.columns
    y = (table.latitude.to_numpy(float) - south) / (north - south) * setting.rows
    cells = y.clip(0, setting.rows - 1).astype(int) * setting.columns
    cells += x.clip(0, setting.columns - 1).astype(int)
    users = {name: number for number, name in enumerate(sorted(set(table.icao24)))}
    # Time, aircraft, and the cell to which it comes; None: it is gone.
    coming: list[tuple[float, int, int | None]] = []
    first_cells = [0] * len(users)
    for name, rows in table.groupby("icao24").indices.items():
        user, last, at_s = users[str(name)], None, -1.0
        rows = rows[np.argsort(times[rows], kind="stable")]
        first_cells[user] = int(cells[rows[0]])
        for row in rows.tolist():
            if last is not None and times[row] - at_s > GONE_S:
                gone = (at_s + GONE_S - begin) / span * setting.hours
                coming.append((gone, user, None))
                last = None
            at_s = float(times[row])
            if cells[row] != last:
                last = int(cells[row])
                coming.append((float(slots[row]), user, last))
        coming.append(((at_s + GONE_S - begin) / span * setting.hours, user, None))
    changes: list[list[CrowdChange]] = [[] for _ in range(setting.hours)]
    present = list(first_cells)
    for at, user, cell in sorted(coming, key=lambda each: each[:2]):
        if at < setting.hours:
            present[user] = present[user] if cell is None else cell
            wanted: Topics = frozenset() if cell is None else _around(setting, cell)
            changes[int(at)].append(CrowdChange(user, wanted, present[user]))
    shares = np.bincount(cells, minlength=setting.columns * setting.rows).astype(float)
    return StudyCrowd([frozenset()] * len(users), first_cells, changes, shares / shares.mean())


def _around(setting: DynatopsSetting, cell: int) -> Topics:
    """The cell, and those beside it."""
    column, row = cell % setting.columns, cell // setting.columns
    return frozenset(
        y * setting.columns + x
        for y in range(max(0, row - 1), min(setting.rows, row + 2))
        for x in range(max(0, column - 1), min(setting.columns, column + 2))
    )


def _read(path: Path) -> Any:
    """All positions; of several recordings those of the one with most aircraft."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyarrow ships no types

    is_several = _RECORDING in pq.read_schema(path).names
    columns = [*_COLUMNS, *([_RECORDING] if is_several else [])]
    table = pq.read_table(path, columns=columns).to_pandas().dropna()
    if is_several:
        most = table.groupby(_RECORDING).icao24.nunique().idxmax()
        table = table[table[_RECORDING] == most]
    return table.reset_index(drop=True)
