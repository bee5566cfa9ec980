"""One workload on one network twice: as the simulator predicts it, and as live brokers do it.

Both have the same brokers, links, system and parameters, publishers, subscriptions and events at
the same times. The prediction knows nothing of the machine but that its brokers are near each other
and fast; `measured` has the counters of brokers and clients.

The result is a `Replay`, which the report declares and reads.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.client import ClientError
from shoal.experiments.live.brokers import Counts, LiveBrokers, UnrestError
from shoal.experiments.live.judge import Key, LiveJudge
from shoal.experiments.live.replay import (
    ANONYMOUS,
    Players,
    Progress,
    ReplayCredentials,
    StalledError,
)
from shoal.experiments.live.trace import controls, mean_hops
from shoal.experiments.run_files import BrokerRow, WorkloadFiles
from shoal.experiments.runs.runner import run_workload
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.model import BrokerId, ClientId
from shoal.overlays.registry import SYSTEMS
from shoal.report.replays import Replay, ReplayFigures, ReplayPlace
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import ANYBODY, Caller

# About the latency of loopback and this software; the comparison hardly depends on it.
_UNDERLAY = {"kind": "constant", "latency_us": 200, "local_latency_us": 100}
_SERVICE = {
    "processing_us": 100,
    "matching_us": 50,
    "matching_per_subscription_ns": 0,
    "transmission_us": 20,
    "client_transmission_us": 10,
}
# Additional time beyond a trace's lag: writing a file takes time on a busy machine.
_TRACE_PATIENCE_S = 20.0
_POLL_S = 0.5
# The reason why a cancelled replay is not whole.
STOPPED = "it was stopped"


async def compare(
    workload: WorkloadFiles,
    network: NetworkFile,
    expected: set[Key],
    judge_name: str,
    *,
    name: str,
    credentials: ReplayCredentials = ANONYMOUS,
    caller: Caller = ANYBODY,
    progress: Progress = lambda what, share: None,
    is_partial: bool = False,
) -> Replay:
    """Replay a workload through a running network, and predict its result.

    Predicted and measured are figures only where publications follow a tree.

    ReplayError, UnrestError and ClientError have the reason of a replay that could not begin; the
    reason of an early end is in the result, which judges the publications that brokers had
    acknowledged until then. That may be that it was cancelled, if it `is_partial` then.
    """
    brokers = LiveBrokers(network, caller)
    await brokers.answer()
    is_quiet = SYSTEMS[network.system].is_quiet
    prediction = None
    if is_quiet:
        progress("simulating", 0.0)
        prediction = await asyncio.to_thread(predict, workload, network)
    judge = LiveJudge(expected)
    players = Players(workload, network, judge, credentials)
    after: Counts | None = None
    async with players.publishers(progress):
        await brokers.at_rest()
        async with players.subscribers(progress):
            before, from_us = await brokers.at_rest(), _now_us()
            try:
                await players.play(lambda share: progress("replaying", share))
                await players.all_arrived(brokers.at_rest)
                after, to_us = await brokers.at_rest(), _now_us()
            except (ClientError, StalledError, UnrestError) as error:
                await players.end(str(error))
            except asyncio.CancelledError:
                if not is_partial:
                    raise
                await players.end(STOPPED)
            unfinished = tuple(players.unfinished)
    traced = _TracedRun(None, None)
    if after and is_quiet and network.trace.folder:
        progress("reading the trace", 1.0)
        traced = await _read_trace(workload, network, players, judge, (from_us, to_us))
    measured = _figures(players, before, after, traced) if after and is_quiet else None
    if unfinished:
        prediction = None
    return Replay(
        name=name,
        system=network.system,
        judge=judge_name,
        brokers=len(network.brokers),
        publishers=len(players.published),
        subscriptions=len(workload.subscriptions),
        publications=len(workload.events),
        redirections=players.redirections,
        **judge.verdict._asdict(),
        predicted=None if prediction is None else prediction.figures,
        measured=measured,
        controls=traced.controls,
        places=() if after is None else _places(workload, prediction, players.prefix, after),
        unfinished=unfinished,
    )


# --- predicted --------------------------------------------------------------------------------


class Prediction(NamedTuple):
    """Results of a simulation, and the publishers' places at its end (of those that moved)."""

    figures: ReplayFigures
    places: Mapping[ClientId, BrokerId]


def predict(workload: WorkloadFiles, network: NetworkFile) -> Prediction:
    """Simulate a workload on the brokers, links and system of a live network.

    Brokers that the workload does not know are there, too.
    """
    known = {row.broker for row in workload.brokers}
    others = [BrokerRow(broker=each.name) for each in network.brokers if each.name not in known]
    parameters = network.system_parameters
    data = {
        "name": network.name,
        "seed": network.seed,
        "system": network.system,
        "workload": {"path": network.name},
        "underlay": _UNDERLAY,
        "service": _SERVICE,
    }
    if parameters is not None:
        data[network.system] = msgspec.to_builtins(parameters)
    scenario = parse_scenario(data)
    result = run_workload(
        scenario,
        workload._replace(brokers=[*workload.brokers, *others]),
        list(network.links),
    )
    load, deliveries = result.tables["load"], result.tables["deliveries"]
    migrations = result.tables["migrations"]
    return Prediction(
        ReplayFigures(
            messages=sum(load["messages_in"]) - sum(load["control_in"]),
            seconds=workload.events.last_replay_us / 1e6,
            hops_mean=statistics.fmean(deliveries["hops"]) if deliveries["hops"] else None,
            moves=len(migrations["publisher"]),
        ),
        dict(zip(migrations["publisher"], migrations["target"], strict=True)),
    )


# --- measured ---------------------------------------------------------------------------------


class _TracedRun(NamedTuple):
    """Results from the brokers' trace only; None if it lacks them."""

    hops_mean: float | None
    controls: int | None


async def _read_trace(
    workload: WorkloadFiles,
    network: NetworkFile,
    players: Players,
    judge: LiveJudge,
    times_us: tuple[int, int],
) -> _TracedRun:
    """Return the trace's results, once it is written; a trace elsewhere gives none."""
    folder = Path(network.trace.folder)
    homes = {row.subscription: row.broker for row in workload.subscriptions}
    deliveries = list(judge.counts)

    def read() -> float | None:
        return mean_hops(folder, players.prefix, players.published, deliveries, homes)

    # Other brokers write their rows in that time.
    await asyncio.sleep(network.trace.seconds)
    deadline_s = time.monotonic() + _TRACE_PATIENCE_S
    while (hops := await asyncio.to_thread(read)) is None:
        if not folder.is_dir() or not deliveries or time.monotonic() > deadline_s:
            return _TracedRun(None, None)
        await asyncio.sleep(_POLL_S)
    count = await asyncio.to_thread(controls, folder, network.links, *times_us)
    return _TracedRun(hops, count)


def _figures(players: Players, before: Counts, after: Counts, traced: _TracedRun) -> ReplayFigures:
    return ReplayFigures(
        messages=after.publications - before.publications - (traced.controls or 0),
        seconds=players.seconds,
        hops_mean=traced.hops_mean,
        moves=after.moves - before.moves,
        delay_p50_us=players.median_delay_us,
    )


def _places(
    workload: WorkloadFiles, prediction: Prediction | None, prefix: str, after: Counts
) -> tuple[ReplayPlace, ...]:
    """Of every publisher, where publishers are anywhere."""
    if prediction is None:
        return ()
    homes = {row.publisher: row.broker for row in workload.publishers}
    return tuple(
        ReplayPlace(
            publisher=name,
            first=home,
            predicted=prediction.places.get(name, home),
            measured=after.places.get(prefix + name),
        )
        for name, home in homes.items()
    )


def _now_us() -> int:
    return time.time_ns() // 1_000
