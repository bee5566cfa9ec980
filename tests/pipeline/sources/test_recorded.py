"""From a recording of live brokers to every system's run: own clients, their times, the truth."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.client import Client
from shoal.experiments.live import replay
from shoal.experiments.live.comparison import compare
from shoal.experiments.live.judge import expected_by_filters
from shoal.experiments.live.networks import running as scenario_running
from shoal.experiments.run_files import read_workload
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.overlays.registry import SYSTEMS
from shoal.pipeline.schemas import PUBLICATION_COLUMNS, arrow_schema
from shoal.pipeline.truth import write_truth
from shoal.pipeline.workloads.workload import WorkloadOptions, write_workload
from shoal.runtime.network_file import dump_network
from tests.runtime.live import PATIENCE_S
from tests.runtime.one_service import network, running

ROOMS = ("kitchen", "hall", "cellar")
PER_ROOM = 20
PARAMETERS: dict[str, dict[str, Any]] = {
    "bluedove": {"dimensions": [{"attribute": "warm", "low": 0, "high": 40}]},
    "octopia": {"clusters": 1},
}

Triple = tuple[str, int, str]


def record(folder: Path, version: str) -> Path:
    """An hour at home, in a moment."""

    async def run() -> None:
        home = network(2)
        async with asyncio.timeout(PATIENCE_S), running(home, "B1", "B2") as (here, there):
            # Where they listen is known only now.
            text = dump_network(home)
            for service in (here, there):
                text = text.replace(
                    'admin = "127.0.0.1:0"', f'admin = "{service.listening["admin"]}"', 1
                )
            (folder / "network.toml").write_text(text)
            async with (
                Client(str(here.listening["mqtt"]), "cosy") as cosy,
                Client(str(there.listening["mqtt"]), "all") as everything,
                Client(str(there.listening["mqtt"])) as sensors,
                cosy.subscribe(
                    "home/kitchen/+", "warm > 20 AND `air.co2` > 400 AND state IN (0, 1)"
                ),
                everything.subscribe("home/#"),
            ):
                await sensors.publish("home/hall/old", b"1", retain=True)
                recording = asyncio.create_task(asyncio.to_thread(_cli, _words(folder, here)))
                # The recorder's own subscription is the third.
                while sum(s.front_end.clients.subscriptions.count for s in (here, there)) < 3:
                    await asyncio.sleep(0.01)
                for number in range(PER_ROOM):
                    for room in ROOMS:
                        payload = {
                            "warm": number + 10,
                            "dry": number % 2 == 0,
                            "air": {"co2": 400.5},
                            ".x": 1,
                            "state": number % 2 or "ON",
                        }
                        await sensors.publish(f"home/{room}/air", json.dumps(payload).encode())
                    await sensors.publish("home/hall/light", b"on" if number % 2 else b"17.5")
                await recording

    def _words(folder: Path, here: Any) -> list[str]:
        return [
            *("record", "--out", str(folder / "recorded"), "--mqtt", version),
            *("--broker", str(here.listening["mqtt"]), "--topic", "home/#"),
            *("--network", str(folder / "network.toml"), "--count", str(4 * PER_ROOM)),
        ]

    asyncio.run(run())
    return folder / "recorded"


def _cli(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert not caught.value.code


def test_a_recording_is_replayed_against_every_system(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorded = record(tmp_path, "3.1.1")
    assert (
        "80 publications of 4 publishers, 2 subscriptions at 2 brokers, 3 clients"
        in capfd.readouterr().out
    )
    table = pq.read_table(recorded / "publications.parquet")
    columns = arrow_schema(PUBLICATION_COLUMNS)
    assert table.select(columns.names).schema == columns
    rows = table.to_pylist()
    first = next(row for row in rows if row["publisher"] == "home/kitchen/air")
    expected = {
        ".x": 1,
        "air.co2": 400.5,
        "dry": True,
        "mqtt_levels": 3,
        "mqtt_topic": "home/kitchen/air",
        "mqtt_topic_0": "home",
        "mqtt_topic_1": "kitchen",
        "mqtt_topic_2": "air",
        "payload": None,
        "state": {"bigint": None, "string": "ON"},
        "payload_text": None,
        "warm": 10,
    }
    assert first["attributes"] == expected
    interests = pq.read_table(recorded / "subscriptions.parquet").to_pylist()
    found = {(row["client"], row["broker"], row["filter"]) for row in interests}
    cosy = (
        "mqtt_topic_0 = 'home' AND mqtt_topic_1 = 'kitchen' AND mqtt_levels = 3 AND warm > 20"
        " AND `air.co2` > 400 AND state IN (0, 1)"
    )
    assert ("cosy", "B1", cosy) in found
    assert ("all", "B2", "mqtt_topic_0 = 'home' AND mqtt_levels >= 1") in found
    workload = tmp_path / "workload"
    options = WorkloadOptions(
        brokers=str(recorded / "brokers.parquet"),
        own_subscriptions=recorded / "subscriptions.parquet",
        duration_us=2_000_000,
    )
    counts = write_workload(spark, recorded, workload, options)
    assert (counts.events, counts.publishers, counts.subscriptions, counts.brokers) == (80, 4, 2, 2)
    truth = written_truth(spark, workload, tmp_path / "truth")
    # The recorder itself has gone by then.
    assert len(truth) == 80 + sum(number + 10 > 20 and number % 2 for number in range(PER_ROOM))
    for system in SYSTEMS:
        assert simulated(workload, system) == truth, system


def written_truth(spark: SparkSession, workload: Path, out: Path) -> set[Triple]:
    write_truth(spark, workload, out)
    return {tuple(row) for row in spark.read.parquet(str(out)).collect()}  # type: ignore[misc]


def simulated(workload: Path, system: str) -> set[Triple]:
    data = {
        "name": "s",
        "system": system,
        "workload": {"path": str(workload)},
        "underlay": {"kind": "constant"},
        **({system: PARAMETERS[system]} if system in PARAMETERS else {}),
    }
    tables = run_scenario(parse_scenario(data)).tables["deliveries"]
    return set(triples(tables["publisher"], tables["sequence"], tables["subscription"]))


def triples(*columns: Iterable[Any]) -> Iterable[Triple]:
    return zip(*columns, strict=True)  # type: ignore[arg-type]


COLUMNS = "publisher string, sequence bigint, time_us bigint, attributes struct<x: bigint>"


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A workload of 100 publications within 10 s, and subscriptions that come and go."""
    folder = tmp_path_factory.mktemp("guests")
    rows = [("p", n, n * 100_000, {"x": n}) for n in range(100)]
    rows += [("q", n, n * 100_000, {"x": -n}) for n in range(100)]
    publications = folder / "publications.parquet"
    spark.createDataFrame(rows, COLUMNS).write.parquet(str(publications))
    subscriptions = folder / "own.csv"
    subscriptions.write_text(
        "id,filter,broker,from,to\n"
        "stays,x >= 0,B1,,\n"
        "comes,x >= 0,B0,6000000,\n"
        "goes,x >= 0,B1,,2000000\n"
        "visits,x >= 0,,6000000,8000000\n"
        "was,x >= 0,,,-5\n"
    )
    publishers = folder / "publishers.csv"
    publishers.write_text("publisher,broker,advertisement\np,B1,x >= 0\n")
    options = WorkloadOptions(
        brokers="2", own_subscriptions=subscriptions, own_publishers=publishers
    )
    counts = write_workload(spark, publications, folder / "workload", options)
    assert (counts.events, counts.subscriptions, counts.left_out) == (100, 4, 1)
    return folder / "workload"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A table of one publication."""
    path = tmp_path_factory.mktemp("one") / "publications.parquet"
    spark.createDataFrame([("p", 0, 0, {"x": 1})], COLUMNS).write.parquet(str(path))
    return path


EXPECTED = {
    *(("stays", n) for n in range(100)),
    *(("comes", n) for n in range(60, 100)),
    *(("goes", n) for n in range(20)),
    *(("visits", n) for n in range(60, 80)),
}


def test_own_clients_come_and_go_in_the_simulator(
    spark: SparkSession, guests: Path, tmp_path: Path
) -> None:
    (publisher,) = read_workload(guests).publishers
    assert (publisher.publisher, publisher.broker, publisher.advertisement) == ("p", "B1", "x >= 0")
    truth = written_truth(spark, guests, tmp_path / "truth")
    assert {(name, n) for _, n, name in truth} == EXPECTED
    assert simulated(guests, "tree") == truth
    assert {(name, n) for name, _, n in expected_by_filters(read_workload(guests), guests)} == (
        EXPECTED
    )


def test_own_clients_come_and_go_live(
    guests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "AHEAD_S", 0.5)
    workload = read_workload(guests).at_speed(5)
    scenario = parse_scenario(
        {"name": "s", "system": "tree", "workload": {"path": str(guests)},
         "underlay": {"kind": "constant"}}
    )  # fmt: skip

    async def run() -> Any:
        async with scenario_running(scenario, workload, tmp_path / "live") as net:
            expected = expected_by_filters(workload, guests)
            return await compare(workload, net, expected, "the filters", name="n")

    found = asyncio.run(run())
    assert (found.expected, found.lost, found.duplicated, found.phantom) == (180, 0, 0, 0)


@pytest.mark.parametrize(
    ("subscriptions", "publishers", "problem"),
    [
        ("id,filter,broker\na,TRUE,B7\n", "", "'a': there is no broker 'B7'; did you mean B1?"),
        ("id,filter,to\na,TRUE,-1\n", "", "all come and go outside the events' time"),
        ("", "publisher\nnobody\n", "'nobody' has no publication in the window; there are p"),
        ("", "publisher,broker\np,B9\n", "'p': there is no broker 'B9'"),
    ],
)
def test_own_clients_that_cannot_be_are_named(
    spark: SparkSession,
    one: Path,
    tmp_path: Path,
    subscriptions: str,
    publishers: str,
    problem: str,
) -> None:
    given = {}
    for name, text in (("own_subscriptions", subscriptions), ("own_publishers", publishers)):
        if text:
            given[name] = tmp_path / f"{name}.csv"
            given[name].write_text(text)
    options = WorkloadOptions(brokers="2", **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape(problem)):
        write_workload(spark, one, tmp_path / "out", options)
