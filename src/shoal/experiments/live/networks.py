"""A scenario as a live network on this machine: the same brokers, links, system and parameters.

The scenario describes the world around the brokers (latencies, service times, faults); a live
network has that of its machine instead.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.run_files import WorkloadFiles, read_workload
from shoal.experiments.scenarios.scenario import Scenario
from shoal.runtime.network_file import NetworkFile, dump_network, load_network
from shoal.runtime.network_sections import TraceSection
from shoal.runtime.supervisor import (
    START_TIMEOUT_S,
    StartError,
    Supervisor,
    local_brokers,
)

# A trace that is read while the network runs must not lag far behind it, nor lose its beginning.
TRACE = TraceSection(folder="trace", seconds=1, keep=100_000)
# Another process may take a port between the check that it is free and the broker's bind.
ATTEMPTS = 3


def scenario_network(
    scenario: Scenario,
    workload: WorkloadFiles | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    websockets: bool = False,
) -> NetworkFile:
    """The network; ValueError names the unusable part of the scenario.

    MQTT listens at `port` and those after it, with 0 at any that are free.
    """
    if workload is None:
        workload = read_workload(Path(scenario.workload.path))
    names = [row.broker for row in workload.brokers]
    network = local_brokers(
        names,
        scenario_links(scenario, workload),
        scenario.system,
        scenario.parameters,
        host=host,
        port=port,
        websockets=websockets,
    )
    places = {
        row.broker: (row.latitude, row.longitude)
        for row in workload.brokers
        if row.latitude is not None and row.longitude is not None
    }
    brokers = tuple(
        msgspec.structs.replace(each, place=places.get(each.name, msgspec.UNSET))
        for each in network.brokers
    )
    return msgspec.structs.replace(network, brokers=brokers, seed=scenario.seed, trace=TRACE)


@asynccontextmanager
async def running(
    scenario: Scenario, workload: WorkloadFiles, folder: Path
) -> AsyncIterator[NetworkFile]:
    """The network of a scenario, a process per broker, ready; stopped at the end in any case.

    Its file, logs and trace are in the folder, which is emptied before. StartError gives the reason
    of a failed start, or that a broker died meanwhile.
    """
    supervisor, network = await _start(scenario, workload, folder)
    try:
        yield network
        if supervisor.restarts:
            raise StartError(f"a broker died and was started again; see the logs in {folder}")
    finally:
        await supervisor.stop()


async def _start(
    scenario: Scenario, workload: WorkloadFiles, folder: Path
) -> tuple[Supervisor, NetworkFile]:
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path = folder / "network.toml"
        path.write_text(dump_network(scenario_network(scenario, workload)), encoding="utf-8")
        network = load_network(path)
        supervisor = Supervisor(network, path)
        try:
            await supervisor.start()
        except BaseException as error:
            await supervisor.stop()
            if isinstance(error, TimeoutError):
                raise StartError(
                    f"the brokers were not ready within {START_TIMEOUT_S:.0f} s; see the logs in "
                    f"{folder}"
                ) from None
            if not isinstance(error, StartError) or attempt == ATTEMPTS:
                raise
        else:
            return supervisor, network
    raise AssertionError("the last attempt raises")
