"""Reading workloads: order, missing attributes, contradictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.experiments.run_files import (
    BrokerRow,
    RunFileError,
    SubscriptionRow,
    read_columns,
    read_workload,
)
from shoal.overlays.trace_rows import OverlayLink

SUBSCRIPTION = {"subscription": "s1", "client": "c1", "broker": "ATL", "filter": "TRUE"}


def write_workload(folder: Path, **changed: list[dict[str, Any]]) -> Path:
    tables: dict[str, list[dict[str, Any]]] = {
        "brokers": [
            {"broker": "EWR", "latitude": 40.7, "longitude": -74.2, "name": "Newark", "rank": 2},
            {"broker": "ATL", "latitude": None, "longitude": None, "name": None, "rank": 1},
        ],
        "publishers": [
            {
                "publisher": "UA-EWR",
                "advertisement_id": "UA-EWR#0",
                "advertisement": "carrier = 'UA'",
                "broker": "EWR",
                "latitude": 40.7,
                "longitude": -74.2,
            }
        ],
        "subscriptions": [
            {
                "subscription": name,
                "client": f"c{name}",
                "broker": "ATL",
                "publisher": "UA-EWR",
                "rate_class": "high",
                "aimed_selectivity": 1.0,
                "measured_selectivity": 1.0,
                "filter": "TRUE",
            }
            for name in ("s2", "s1")
        ],
        "events": [event(1, 50), event(0, 20, dep_delay=3, cancelled=None), event(2, 50)],
        **changed,
    }
    for name, rows in tables.items():
        target = folder / ("events/part-0.parquet" if name == "events" else f"{name}.parquet")
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), target)
    (folder / "events" / "_SUCCESS").touch()
    return folder


def event(sequence: int, replay_us: int, **attributes: Any) -> dict[str, Any]:
    return {
        "publisher": "UA-EWR",
        "sequence": sequence,
        "time_us": 1_000_000 + sequence,
        "replay_us": replay_us,
        "attributes": {"carrier": "UA", "dep_delay": None, "cancelled": False, **attributes},
    }


def test_a_workload_is_read_in_order(tmp_path: Path) -> None:
    workload = read_workload(write_workload(tmp_path))
    assert workload.brokers == [
        BrokerRow(broker="ATL", rank=1),
        BrokerRow(broker="EWR", latitude=40.7, longitude=-74.2, name="Newark", rank=2),
    ]
    assert [row.publisher for row in workload.publishers] == ["UA-EWR"]
    assert workload.subscriptions[0] == SubscriptionRow(
        subscription="s1", client="cs1", broker="ATL", filter="TRUE"
    )
    assert workload.links is None
    assert (len(workload.events), workload.events.last_replay_us) == (3, 50)
    events = list(workload.events)
    assert [(one.replay_us, one.sequence) for one in events] == [(20, 0), (50, 1), (50, 2)]
    assert events[0].attributes == {"carrier": "UA", "dep_delay": 3}
    assert events[1].attributes == {"carrier": "UA", "cancelled": False}
    assert events[0].time_us == 1_000_000


def test_events_may_be_replayed_faster_or_slower(tmp_path: Path) -> None:
    events = read_workload(write_workload(tmp_path)).events
    for speed, times in ((4, [5, 12, 12]), (0.5, [40, 100, 100])):
        assert [(one.replay_us, one.sequence) for one in events.at_speed(speed)] == list(
            zip(times, (0, 1, 2), strict=True)
        )


def test_events_may_lie_in_parts_and_links_may_exist(tmp_path: Path) -> None:
    write_workload(tmp_path, links=[{"left": "ATL", "right": "EWR"}])
    part = pa.Table.from_pylist([event(3, 10, dep_delay=7, cancelled=True)])
    pq.write_table(part, tmp_path / "events" / "part-1.parquet")
    workload = read_workload(tmp_path)
    assert workload.links == [OverlayLink(left="ATL", right="EWR")]
    first = next(iter(workload.events))
    assert (first.sequence, first.attributes["dep_delay"]) == (3, 7)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"brokers": [{"broker": "A"}, {"broker": "A"}]}, "brokers.parquet: 'A' is listed twice"),
        ({"brokers": [{"name": "A"}]}, "brokers.parquet: column 'broker' is missing"),
        ({"brokers": [{"broker": "EWR"}]}, "subscriptions.parquet: 's1' is at unknown broker"),
        ({"subscriptions": [{**SUBSCRIPTION, "place": "X"}]}, "'s1' is at unknown broker 'X'"),
        ({"brokers": [{"broker": None}]}, "brokers.parquet: row 0: .*`broker`"),
        ({"links": [{"left": 3, "right": "A"}]}, r"links.parquet: row 0: Expected `str`, got"),
        ({"events": [{**event(0, 1), "publisher": "X"}]}, "events: unknown publisher 'X'"),
        ({"events": [{**event(0, 1), "time_us": None}, event(1, 2)]}, "'time_us' has nulls"),
        ({"events": [{**event(0, 1), "replay_us": 1.5}]}, "'replay_us' is double, not an int"),
        ({"events": [{**event(0, 1), "attributes": 3}]}, "'attributes' is int64, not a struct"),
        ({"events": [event(0, 1, tags=["a"])]}, "attribute 'tags' is list<.*; use strings"),
        ({"events": [{"publisher": "UA-EWR"}]}, "events: column 'replay_us' is missing"),
    ],
)
def test_contradictory_workloads_are_errors(
    tmp_path: Path, changed: dict[str, list[dict[str, Any]]], message: str
) -> None:
    with pytest.raises(RunFileError, match=message):
        read_workload(write_workload(tmp_path, **changed))


def test_missing_and_foreign_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="no such folder; make a workload"):
        read_workload(tmp_path / "nowhere")
    write_workload(tmp_path)
    (tmp_path / "brokers.parquet").write_text("not parquet")
    with pytest.raises(RunFileError, match=r"brokers\.parquet: not a parquet table"):
        read_workload(tmp_path)
    (tmp_path / "brokers.parquet").unlink()
    with pytest.raises(RunFileError, match=r"brokers\.parquet: no such table"):
        read_workload(tmp_path)


def test_columns_of_a_csv_are_typed(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text("src,dst,rtt_ms,n\na,b,1.5,3\na,c,,3\n")
    columns = read_columns(path, ("src", "dst", "rtt_ms"), numbers=("rtt_ms",))
    assert columns == [["a", "a"], ["b", "c"], [1.5, None]]
    assert read_columns(path, ("from", "to"), ("dst", "src")) == [["b", "c"], ["a", "a"]]
    with pytest.raises(RunFileError, match="'rtt' is missing; found: src, dst, rtt_ms, n"):
        read_columns(path, ("rtt",))
