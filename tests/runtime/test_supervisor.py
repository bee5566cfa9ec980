"""Spares of `shoal up`: whose orders count, and a spare that dies while it is ended."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from shoal.broker.effects import StartBroker
from shoal.overlays.bluedove.system import Cluster
from shoal.runtime.network_file import NetworkFile, dump_network
from shoal.runtime.network_sections import ScalingSection
from shoal.runtime.process_commands import ProcessCommands
from shoal.runtime.supervisor import SpareOrders, Supervisor, local_network
from tests.runtime.live import on_asyncio


@on_asyncio
async def test_orders_of_the_next_dispatcher_count_though_it_has_started_earlier() -> None:
    section = ScalingSection(by_supervisor=True)
    first, second = (ProcessCommands(section, lambda _: None, at_us) for at_us in (1_000, 10))
    orders = SpareOrders()
    first.follow(StartBroker("M2"))
    assert [row["broker"] for row in orders.fresh("D1", first.status)] == ["M2"]
    assert orders.fresh("D1", first.status) == []
    second.follow(StartBroker("M2"))
    assert [row["broker"] for row in orders.fresh("D2", second.status)] == ["M2"]
    assert orders.fresh("D2", second.status) == []
    again = ProcessCommands(section, lambda _: None, 2_000)  # the first has been started again
    again.follow(StartBroker("M2"))
    assert len(orders.fresh("D1", again.status)) == 1
    for each in (first, second, again):
        await each.stop()


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    layout = Cluster(dispatchers=1, matchers=1, spares=1).layout()
    network: NetworkFile = local_network("bluedove", layout, port=0)
    path = tmp_path / "network.toml"
    path.write_text(dump_network(network), encoding="utf-8")
    return Supervisor(network, path)


async def start_and_kill(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spare has died, and its restart is to come in a moment."""
    monkeypatch.setattr("shoal.runtime.supervisor.RESTART_PAUSE_S", 0.2)
    await supervisor.follow("M2", starts=True)
    process = supervisor.processes["M2"]
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await asyncio.sleep(0.05)


@on_asyncio
async def test_a_spare_that_dies_and_is_ended_is_not_started_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_and_kill(supervisor, monkeypatch)
    await supervisor.follow("M2", starts=False)
    await asyncio.sleep(0.4)
    restarted = supervisor.restarts
    await supervisor.follow("M2", starts=True)
    is_started = supervisor.processes["M2"].returncode is None
    await supervisor.stop()
    assert (restarted, is_started) == (0, True)


@on_asyncio
async def test_a_spare_that_dies_and_is_to_start_has_one_process(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_and_kill(supervisor, monkeypatch)
    await supervisor.follow("M2", starts=True)
    await asyncio.sleep(0.05)
    earlier = supervisor.processes["M2"]
    await asyncio.sleep(0.4)
    later = supervisor.processes["M2"]
    running = {each for each in (earlier, later) if each.returncode is None}
    await supervisor.stop()
    for each in running:
        if each.returncode is None:
            each.send_signal(signal.SIGKILL)
    assert running == {later}
