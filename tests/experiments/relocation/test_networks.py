"""Networks of growing size: their proportions, no moves, and complete deliveries."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from shoal.experiments.relocation import networks
from shoal.experiments.relocation.grid import SCALES
from shoal.experiments.relocation.networks import (
    NetworkRun,
    NetworkSummary,
    choosing_us,
    network_runs,
    publishers_of,
    wanted_shares,
)


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NetworkSummary]:
    folder = tmp_path_factory.mktemp("networks")
    scale = msgspec.structs.replace(SCALES["small"], network_sizes=(3,))
    found: dict[str, NetworkSummary] = {}
    for run in network_runs(scale, folder, seed=1):
        run()
        assert run.is_done
        assert run.summary is not None
        found[run.system] = run.summary
    return found


def test_everything_arrives_under_every_system(summaries: dict[str, NetworkSummary]) -> None:
    assert list(summaries) == ["tree", "grape", "pop"]
    for summary in summaries.values():
        assert (summary.publishers, summary.subscribers) == (30, 300)
        assert summary.publications == 30 * networks.PUBLICATIONS_EACH
        assert summary.deliveries == summary.expected > 0


def test_only_tracing_costs_messages_and_memory(summaries: dict[str, NetworkSummary]) -> None:
    assert summaries["tree"].control_per_publication == 0
    assert summaries["tree"].memory_bytes is None
    for system in ("grape", "pop"):
        assert summaries[system].control_per_publication > 0
        assert (summaries[system].memory_bytes or 0) > 0
        assert summaries[system].selections > 0
    # A session asks once per hundred publications; POP answers each that it traces.
    assert summaries["grape"].control_per_publication < summaries["pop"].control_per_publication


def test_no_publisher_moves(summaries: dict[str, NetworkSummary]) -> None:
    assert all(summary.migrations == 0 for summary in summaries.values())


def test_networks_have_the_papers_proportions() -> None:
    assert wanted_shares() == [100, 50, 50, *[10] * 7]
    assert [publishers_of(brokers) for brokers in (15, 255, 1_023)] == [150, 2_550, 10_000]


def test_a_choice_is_timed() -> None:
    assert choosing_us(7, seed=1) > 0


def test_the_paper_scale_reaches_the_largest_network(tmp_path: Path) -> None:
    made = network_runs(SCALES["paper"], tmp_path, seed=1)
    assert {run.brokers for run in made} == {15, 63, 255, 1_023}
    assert len({run.key for run in made}) == len({run.file for run in made}) == len(made)
    largest: NetworkRun = max(made, key=lambda run: run.cost)
    assert largest.name.startswith("networks/1023/")


@pytest.mark.parametrize(("brokers", "together", "wait_s"), [(1_023, 1, 0.2), (63, 2, 30.0)])
def test_two_large_networks_are_not_simulated_together(
    brokers: int, together: int, wait_s: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They would take all memory of a machine."""
    running, most = [], []
    both = threading.Barrier(2)

    def simulate(run: networks.NetworkRun) -> None:
        running.append(run)
        with suppress(threading.BrokenBarrierError):
            both.wait(wait_s)
        most.append(len(running))
        running.remove(run)

    monkeypatch.setattr(networks, "simulate_network", simulate)
    monkeypatch.setattr(networks.tempfile, "gettempdir", lambda: str(tmp_path))
    given = [
        networks.NetworkRun(system=system, brokers=brokers, seed=1, key="", file="")
        for system in ("tree", "grape")
    ]
    threads = [threading.Thread(target=run.measure) for run in given]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert max(most) == together
