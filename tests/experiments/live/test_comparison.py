"""Replays through networks of processes: figures that are compared, and those that cannot be."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.experiments.live import admission, replay
from shoal.experiments.live.admission import LiveAdmission
from shoal.experiments.live.comparison import compare, predict
from shoal.experiments.live.judge import LiveJudge, expected_by_filters
from shoal.experiments.live.networks import running, scenario_network
from shoal.experiments.live.replay import Players, ReplayError
from shoal.experiments.run_files import WorkloadFiles, read_workload
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario
from shoal.report.replays import Replay
from shoal.runtime.supervisor import get_json
from tests.cli.live.test_replay import EVENTS, make_workload
from tests.experiments.test_run_files import event, write_workload

BLUEDOVE = {
    "system": "bluedove",
    "bluedove": {"dimensions": [{"attribute": "x", "low": 0, "high": EVENTS}]},
}


def of(path: Path, **changed: Any) -> tuple[Scenario, WorkloadFiles]:
    data = {"name": "s", "workload": {"path": str(path)}, "topology": {"kind": "line"}}
    return parse_scenario(data | changed), read_workload(path)


def replayed(folder: Path, path: Path, **changed: Any) -> Replay:
    scenario, workload = of(path, **changed)

    async def run() -> Replay:
        async with running(scenario, workload, folder) as network:
            expected = expected_by_filters(workload, path)
            return await compare(workload, network, expected, "the filters", name="n")

    return asyncio.run(run())


def test_a_cluster_delivers_and_has_nothing_to_compare(tmp_path: Path) -> None:
    found = replayed(tmp_path / "live", make_workload(tmp_path / "workload"), **BLUEDOVE)
    assert (found.delivered, found.lost, found.duplicated) == (EVENTS + 9 + 25, 0, 0)
    assert (found.predicted, found.measured, found.places) == (None, None, ())


def test_refused_clients_are_left_out_and_the_rest_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "STALLED_S", 1.0)
    is_stalled = LiveAdmission._is_stalled.fget  # type: ignore[attr-defined]
    # However slow the machine is, the admissible clients are admitted.
    patient = property(lambda self: self._inside > 0 and is_stalled(self))
    monkeypatch.setattr(LiveAdmission, "_is_stalled", patient)
    path = make_workload(tmp_path / "workload")
    scenario, workload = of(path, system="tree")

    async def run() -> Replay:
        async with running(scenario, workload, tmp_path / "live") as network:
            with socket.create_server(("127.0.0.1", 0)) as nobody:
                closed = f"127.0.0.1:{nobody.getsockname()[1]}"
            brokers = tuple(
                msgspec.structs.replace(each, mqtt=closed) if each.name == "C" else each
                for each in network.brokers
            )
            moved = msgspec.structs.replace(network, brokers=brokers)
            expected = expected_by_filters(workload, path)
            return await compare(workload, moved, expected, "the filters", name="n")

    monkeypatch.setattr("shoal.client.client.CONNECT_TIMEOUT_S", 1.0)
    found = asyncio.run(run())
    assert (found.expected, found.delivered, found.lost) == (9, 9, 0)
    assert found.predicted is None
    (why,) = found.unfinished
    assert re.match("2 of 3 subscribers did not get in, (far|all) for one: .* no broker answ", why)


def test_a_dead_network_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends, and the report has what had arrived."""
    monkeypatch.setattr(replay, "STALLED_S", 1.0)
    path = make_workload(tmp_path / "workload")
    scenario, workload = of(path, system="tree")
    slow = workload._replace(events=workload.events.at_speed(0.1))

    async def run() -> Replay:
        async with running(scenario, workload, tmp_path / "live") as network:
            begun = asyncio.Event()

            def progress(what: str, share: float) -> None:
                if what == "replaying" and share > 0.2:
                    begun.set()

            expected = expected_by_filters(workload, path)
            comparing = asyncio.create_task(
                compare(slow, network, expected, "the filters", name="n", progress=progress)
            )
            await begun.wait()
            answers = [
                await get_json(broker.address("admin"), "/status") for broker in network.brokers
            ]
            for each in answers:
                os.kill(each["pid"], signal.SIGSTOP)
            try:
                return await comparing
            finally:
                for each in answers:
                    os.kill(each["pid"], signal.SIGCONT)

    found = asyncio.run(run())
    assert any("no broker has acknowledged anything" in why for why in found.unfinished)
    assert 0 < found.expected <= found.delivered < EVENTS
    assert (found.lost, found.phantom, found.predicted) == (0, 0, None)


def test_progress_is_reported_between_distant_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is that of the time, also during five minutes without an event."""
    monkeypatch.setattr(replay, "TOLD_S", 0.01)
    scenario, workload = of(make_workload(tmp_path), system="tree")
    path = write_workload(tmp_path / "few", events=[event(0, 0), event(1, 400_000)])
    alone = workload._replace(publishers=[], subscriptions=[], events=read_workload(path).events)
    players = Players(alone, scenario_network(scenario), LiveJudge(set()))
    told: list[float] = []
    asyncio.run(players.play(told.append))
    assert told == sorted(told)
    assert told[0] < 0.5
    assert len([share for share in told if 0 < share < 1]) > 2
    assert told[-1] == 1


def test_progress_is_reported_while_brokers_are_late(tmp_path: Path) -> None:
    """Progress continues although deliveries are late."""
    scenario, workload = of(make_workload(tmp_path), system="tree")
    players = Players(workload, scenario_network(scenario), LiveJudge(set()))
    told: list[float] = []

    async def late() -> None:
        players._due = 10
        players.acknowledged.update(("p", number) for number in range(3))
        telling = asyncio.create_task(players._report_progress(told.append, 0.0, 1))
        await asyncio.sleep(0)
        telling.cancel()

    asyncio.run(late())
    assert told == [0.3]


def test_events_without_an_mqtt_form_are_named(tmp_path: Path) -> None:
    path = write_workload(tmp_path / "workload", events=[event(0, 0), event(1, 1, dep_delay=1e400)])
    with pytest.raises(ReplayError, match="event 1 of UA-EWR cannot be published: inf has no form"):
        replayed(tmp_path / "live", path, system="tree")


def test_a_prediction_is_a_simulation_of_the_network(tmp_path: Path) -> None:
    scenario, workload = of(make_workload(tmp_path), system="tree")
    network = scenario_network(scenario)
    prediction = predict(workload, network)
    assert prediction.places == {}
    assert prediction.figures.messages == 3 * EVENTS
    assert prediction.figures.hops_mean == 2 * (EVENTS + 25) / (EVENTS + 9 + 25)
    # The network may have brokers that the workload does not use.
    few = workload._replace(brokers=[row for row in workload.brokers if row.broker != "B"])
    assert predict(few, network) == prediction
    moving = msgspec.structs.replace(network, system="grape", parameters={})
    assert predict(workload, moving).places == {"p": "C"}
