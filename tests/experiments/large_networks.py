"""Workloads and scenarios of many brokers, for every system: the same clients and publications.

Every subscriber wants one class, and every publisher publishes all classes in turns, so a
publication goes to subscribers / classes subscribers, wherever they are.

    python -m tests.experiments.large_networks SYSTEM FOLDER

simulates the workload in a folder, and prints a `MeasuredRun` as JSON.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.experiments.run_files import read_workload
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.trace_sinks import ParquetSink
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario
from shoal.overlays.registry import SYSTEMS


class LargeNetwork(NamedTuple):
    """Sizes of a workload; publications are spread evenly over `seconds` of virtual time.

    Clients are at the first `entrances` brokers, or at any.
    """

    brokers: int = 1_000
    publishers: int = 20
    subscribers: int = 1_000
    classes: int = 100
    publications: int = 6_000
    seconds: int = 60
    entrances: int = 0

    def write(self, folder: Path) -> Path:
        """Write the workload's tables into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"B{number:04}" for number in range(self.brokers)]
        random = np.random.default_rng(1)
        clients = self.publishers + self.subscribers
        at = random.integers(self.entrances or self.brokers, size=clients)
        rows: dict[str, list[dict[str, Any]]] = {
            "brokers": [{"broker": name, "rank": rank} for rank, name in enumerate(names)],
            "publishers": [
                {
                    "publisher": f"P{number}",
                    "advertisement_id": f"P{number}.A",
                    "advertisement": "class > ''",
                    "broker": names[at[number]],
                }
                for number in range(self.publishers)
            ],
            "subscriptions": [
                {
                    "subscription": f"S{number}",
                    "client": f"C{number}",
                    "broker": names[at[self.publishers + number]],
                    "filter": f"class = 'c{number % self.classes}'",
                }
                for number in range(self.subscribers)
            ],
        }
        for table, found in rows.items():
            pq.write_table(pa.Table.from_pylist(found), folder / f"{table}.parquet")
        numbers = np.arange(self.publications)
        replay_us = numbers * (self.seconds * 1_000_000) // self.publications
        sequences = numbers // self.publishers
        classes = random.integers(self.classes, size=self.publications)
        texts = pa.array([f"c{number}" for number in range(self.classes)])
        writers = pa.array([f"P{number}" for number in range(self.publishers)])
        events = pa.table(
            {
                "publisher": writers.take(pa.array(numbers % self.publishers)),
                "sequence": sequences,
                "time_us": replay_us,
                "replay_us": replay_us,
                "attributes": pa.StructArray.from_arrays(
                    [texts.take(pa.array(classes)), pa.array(random.random(self.publications))],
                    ["class", "x"],
                ),
            }
        )
        pq.write_table(events, folder / "events.parquet")
        return folder


def large_scenario(system: str, workload: Path, **changed: Any) -> Scenario:
    """A scenario of a system over the workload, with the system's defaults where it has any.

    Brokers are fast enough for all control messages of the start. The brokers with clients are
    BlueDove's dispatchers, all others its matchers.
    """
    data: dict[str, Any] = {
        "name": system,
        "system": system,
        "workload": {"path": str(workload)},
        "topology": {"kind": "balanced", "fan_out": 4},
        "underlay": {"kind": "constant", "latency_us": 5_000},
        "service": {"processing_us": 50, "matching_us": 30, "transmission_us": 15},
        "run": {"client_spacing_us": 1_000, "drain_us": 10_000_000},
        **changed,
    }
    parameters = SYSTEMS[system].parameters.__struct_fields__
    if "dimensions" in parameters:
        found = read_workload(workload)
        clients = {row.broker for row in (*found.publishers, *found.subscriptions)}
        others = [row.broker for row in found.brokers if row.broker not in clients]
        data[system] = {"dimensions": [{"attribute": "x", "high": 1}]}
        if others:
            data[system] |= {"dispatchers": sorted(clients), "matchers": others}
    if "topic" in parameters:
        data[system] = {"topic": "class"}
    return parse_scenario(data)


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time (s) and peak memory (MB) of a process that simulated a scenario, its checks,
    and the expected number of deliveries.
    """

    seconds: float
    megabytes: int
    checks: dict[str, int]
    expected: int

    @property
    def faults(self) -> dict[str, int]:
        """Wrong deliveries, by kind."""
        kinds = ("duplicates", "phantoms", "out_of_order", "refused")
        return {kind: self.checks[kind] for kind in kinds if self.checks[kind]}


def sized_for(system: str) -> LargeNetwork:
    """1,000 brokers.

    BlueDove's matchers tell each other about all matchers every second, so few seconds say enough.
    """
    if system == "bluedove":
        return LargeNetwork(entrances=20, publications=500, seconds=5)
    return LargeNetwork()


def measure(system: str, network: LargeNetwork, folder: Path) -> MeasuredRun:
    """Simulate a system in a process of its own; the workload is written into the folder."""
    network.write(folder)
    command = [sys.executable, "-m", __name__, system, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return msgspec.json.decode(done.stdout, type=MeasuredRun)


def main(system: str, folder: Path) -> None:
    """Simulate, with the tables on disk, and print what it took."""
    start_s = time.process_time()
    with TemporaryDirectory() as tables:
        result = run_scenario(large_scenario(system, folder), sink=ParquetSink(Path(tables)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workload = read_workload(folder)
    wanted = {row.filter for row in workload.subscriptions}
    each = len(workload.subscriptions) // len(wanted)
    found = MeasuredRun(
        seconds=round(time.process_time() - start_s, 1),
        megabytes=peak // (2**20 if sys.platform == "darwin" else 2**10),
        checks=dict(result.checks),
        expected=each * len(workload.events),
    )
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
