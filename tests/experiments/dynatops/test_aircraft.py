"""Flying users from a file: their topics by place, and until when."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

from shoal.experiments.dynatops.crowds.aircraft import area_of, check_aircraft, read_aircraft
from shoal.experiments.dynatops.grid import SCALES, Files, grid
from shoal.experiments.dynatops.model import DynatopsModel
from shoal.experiments.dynatops.runs import model_runs
from shoal.experiments.dynatops.setting import DynatopsSetting
from shoal.experiments.dynatops.study import DYNATOPS, DynatopsOptions

# Four cells in a row, each a degree wide; ten slots of six minutes.
AREA = (0.0, 0.0, 4.0, 1.0)
SETTING = DynatopsSetting(
    what="bayeux-location", seed=1, users_are="aircraft", columns=4, rows=1, hours=10, area=AREA
)
# Recording, aircraft, minute, longitude; the first and the last give the area and the time.
FLIGHTS = [
    ("alps", "edge", 0, 0.0),
    ("alps", "east", 0, 0.5),
    ("alps", "east", 7, 1.5),
    ("alps", "east", 13, 2.5),
    ("alps", "back", 6, 3.5),
    ("alps", "back", 50, 3.6),
    ("alps", "edge", 60, 4.0),
    ("texas", "alone", 3, -90.0),
]


def written(folder: Path) -> Path:
    begin = pd.Timestamp("2018-08-01", tz="UTC")
    rows = [
        (sample, begin + pd.Timedelta(minutes=minute), name, float(name == "edge" and minute), east)
        for sample, name, minute, east in FLIGHTS
    ]
    path = folder / "aircraft.parquet"
    columns = ["sample", "timestamp", "icao24", "latitude", "longitude"]
    pd.DataFrame(rows, columns=columns).to_parquet(path)
    return path


def setting_of(path: Path) -> DynatopsSetting:
    return msgspec.structs.replace(SETTING, trace=str(path))


def test_an_aircraft_wants_its_cell_and_neighbouring_ones_until_it_is_gone(tmp_path: Path) -> None:
    path = written(tmp_path)
    check_aircraft(path)
    assert area_of(path) == (0.0, 0.0, 4.0, 60.0)  # of the recording with most aircraft
    crowd = read_aircraft(setting_of(path))
    wanted, seen = list(crowd.wanted), []
    assert wanted == [set()] * 3
    for changes in crowd.slots:
        for change in changes:
            wanted[change.user] = change.wanted
        seen.append([sorted(each) for each in wanted])
    back, east = [users[0] for users in seen], [users[1] for users in seen]
    # It comes back after three quarters of an hour, and is a user for ten minutes each time.
    assert back == [[], [2, 3], [], [], [], [], [], [], [2, 3], [2, 3]]
    assert east == [[0, 1], [0, 1, 2], [1, 2, 3], [], [], [], [], [], [], []]
    assert crowd.cells == [3, 0, 0]
    assert crowd.slots[-1][-1].cell == 3


def test_a_cells_publications_are_its_positions(tmp_path: Path) -> None:
    crowd = read_aircraft(setting_of(written(tmp_path)))
    assert crowd.rates is not None
    assert crowd.rates.tolist() == [2 / 1.75, 1 / 1.75, 1 / 1.75, 3 / 1.75]
    slots = DynatopsModel(setting_of(written(tmp_path)), crowd).run()
    # In the second slot one wants the two eastern cells, another all but these's last.
    rate = SETTING.rate / 1.75
    assert slots[1].deliveries == pytest.approx(rate * ((1 + 3) + (2 + 1 + 1)))


def test_an_aircraft_in_another_cell_changes_its_broker(tmp_path: Path) -> None:
    setting = setting_of(written(tmp_path))
    slots = DynatopsModel(setting, read_aircraft(setting)).run()
    # One crosses twice, another goes from the west of the area to its east.
    assert [slot.session_transfer for slot in slots] == [0, 1, 1, 0, 0, 0, 0, 0, 0, 1]


def test_a_run_reads_its_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    cells = grid(SCALES["small"], 1, "", Files(aircraft=str(path), area=area_of(path)))
    cell = next(each for each in cells if each.name.startswith("aircraft/geops"))
    tiny = cell._replace(setting=msgspec.structs.replace(cell.setting, columns=4, rows=2, hours=4))
    (run,) = model_runs([tiny], tmp_path)
    assert len(run.measure().slots) == 4
    plan = DYNATOPS.plan(DynatopsOptions(aircraft=path), "small", tmp_path, 1)
    assert sum("aircraft/" in run.name for run in plan.runs()) == 6


def test_a_file_without_aircraft_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pd.DataFrame({"icao24": ["a"]}).to_parquet(path)
    with pytest.raises(ValueError, match="has no column timestamp, latitude, longitude; aircraft"):
        DYNATOPS.plan(DynatopsOptions(aircraft=path), "small", tmp_path, 1)
    rows = {"timestamp": [pd.Timestamp("2018-08-01")], "icao24": ["a"], "latitude": [1.0]}
    pd.DataFrame({**rows, "longitude": [1.0]}).to_parquet(path)
    with pytest.raises(ValueError, match="its aircraft fly nowhere"):
        DYNATOPS.plan(DynatopsOptions(aircraft=path), "small", tmp_path, 1)
