"""The end of the demo: the first days again, through brokers that are processes on this machine.

Fifteen of the airports, linked as the demo links all; real MQTT clients publish and subscribe over
loopback, once with publishers that stay and once with GRAPE. The simulator, with the same brokers,
clients and publications, predicts the measurements.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.cli.support.steps import CommandStep, CommandSteps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.experiments.scenarios.scenario import Scenario
    from shoal.pipeline.workloads.workload import WorkloadOptions
    from shoal.report.replays import Replay
    from shoal.runtime.network_file import NetworkFile

BROKERS = 15
DAYS = 7
# Two cores carry this with room to spare, brokers, clients and all.
DURATION_US = 12_000_000
SUBSCRIPTIONS = 8
# Few of the publishers have a hundred flights in these days, the length of the paper's traces.
TRACE_SESSION_LENGTH = 25

RUNS: dict[str, dict[str, Any]] = {
    "tree": {"system": "tree"},
    "GRAPE": {
        "system": "grape",
        "grape": {"priority": "load", "weight": 100, "trace_session_length": TRACE_SESSION_LENGTH},
    },
}


def live_scenario(name: str, workload: Path, seed: int, topology: dict[str, Any]) -> Scenario:
    """One of the two: the same brokers, links, clients and events under another system."""
    from shoal.experiments.scenarios.scenario import parse_scenario

    common = {
        "name": name,
        "seed": seed,
        "workload": {"path": str(workload)},
        "topology": topology,
    }
    return parse_scenario(common | RUNS[name])


def prepare_live(
    steps: CommandSteps,
    spark: SparkSession,
    publications: Path,
    out: Path,
    options: WorkloadOptions,
) -> None:
    """Derive the live brokers' workload into `out`, with Spark's expected deliveries."""
    from shoal.pipeline.truth import write_truth
    from shoal.pipeline.workloads.workload import write_workload

    with steps.step("the first days, for live brokers") as step:
        made = write_workload(spark, publications, out / "workload", options, overwrite=True)
        truth = write_truth(spark, out / "workload", out / "truth", overwrite=True)
        step.result = (
            f"{made.events:,} events of {made.publishers} publishers, "
            f"{made.subscriptions:,} subscriptions, {truth.expected:,} deliveries expected"
        )


def replay_live(
    steps: CommandSteps, out: Path, seed: int, topology: dict[str, Any]
) -> list[Replay]:
    """Replay the workload of `prepare_live` through live brokers, a network after the other."""
    from shoal.experiments.live.comparison import compare
    from shoal.experiments.live.judge import expected_by_truth
    from shoal.experiments.live.networks import running
    from shoal.experiments.run_files import read_workload
    from shoal.runtime.serving import run_or_stop

    path = out / "workload"
    workload = read_workload(path)
    expected = expected_by_truth(out / "truth", workload.events)
    replays = []
    for name in RUNS:
        with steps.step(f"{len(workload.brokers)} live brokers: {name}", bars=["starting"]) as step:

            async def replay(name: str = name, step: CommandStep = step) -> Replay:
                scenario = live_scenario(name, path, seed, topology)
                async with running(scenario, workload, out / name) as network:
                    return await compare(
                        workload,
                        network,
                        expected,
                        "Spark",
                        name=name,
                        progress=lambda what, share: step.show_share(0, share, what),
                    )

            found = run_or_stop(replay)
            (out / f"{name}.json").write_bytes(msgspec.json.encode(found))
            replays.append(found)
            step.result = f"{found.delivered:,} delivered"
    return replays


def show_live(out: Path, seed: int, topology: dict[str, Any]) -> None:
    """Replay the same days again and again through live brokers, with a console, until Ctrl-C."""
    from shoal.console.serving import default_address, running_console
    from shoal.experiments.live.judge import LiveJudge
    from shoal.experiments.live.networks import running
    from shoal.experiments.live.replay import Players
    from shoal.experiments.run_files import read_workload
    from shoal.runtime.operations.caller import ANYBODY
    from shoal.runtime.serving import run_until_signal

    path = out / "workload"
    workload = read_workload(path)
    scenario = live_scenario("GRAPE", path, seed, topology)

    async def play(network: NetworkFile) -> None:
        while True:
            players = Players(workload, network, LiveJudge(set()))
            async with players.publishers(), players.subscribers():
                await players.play(lambda share: None)

    async def run(stop: asyncio.Event) -> None:
        async with (
            running(scenario, workload, out / "console") as network,
            running_console(network, ANYBODY, default_address(), allows_orders=True) as url,
        ):
            print(f"the network, live: {url}\nCtrl-C stops it", flush=True)
            playing = asyncio.ensure_future(play(network))
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    run_until_signal(run)
