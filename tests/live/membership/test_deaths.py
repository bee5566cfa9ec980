"""Brokers that die for good: an operator declares them dead, and they may return."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.live.membership.days import BOUND_S, Day, day, systems
from tests.runtime.forked import order


def shoal(today: Day, *words: str) -> str:
    """The output of a `shoal` command about the network; AssertionError if it fails."""
    command = order(today.network.folder, words[0], str(today.network.path), *words[1:])
    said, wrong = command.communicate(2 * BOUND_S)
    assert command.returncode == 0, said + wrong
    return said


@pytest.mark.parametrize("system", systems("grape", "dynatops"))
def test_the_network_continues_without_a_dead_broker_in_its_middle(
    tmp_path: Path, system: str
) -> None:
    with day(tmp_path, system, 4, publishers=("B1", "B4")) as today:
        today.publish_on()
        today.network.kill("B2")
        assert shoal(today, "forget", "B2") == "B2 is forgotten; B1 has its place\n"
        today.are_linked()
        today.all_receive_from_all()
        today.publish_on()
        today.network.start("B2")
        today.are_linked()
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("tree"))
def test_a_neighbour_that_was_down_learns_of_a_declared_death(tmp_path: Path, system: str) -> None:
    """Its only link is to the dead broker, so no neighbour can inform it."""
    with day(tmp_path, system, 4, publishers=("B3", "B4")) as today:
        today.publish_on()
        today.network.kill("B1", "B2")
        shoal(today, "forget", "B2")
        today.network.start("B1", awaits=False)
        today.are_linked()
        today.all_receive_from_all()
        today.publish_on()


@pytest.mark.parametrize("system", systems("tree"))
def test_a_broker_leaves_though_a_neighbour_is_dead(tmp_path: Path, system: str) -> None:
    with day(tmp_path, system, 4, publishers=("B1", "B4")) as today:
        today.publish_on()
        today.network.kill("B3")
        assert "B2 has left" in shoal(today, "leave", "B2", "--without", "B3")
        today.network.running.pop("B2").wait(BOUND_S)
        today.are_linked()
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("self_organising"))
def test_a_broker_returns_whose_only_neighbour_has_left_without_it(
    tmp_path: Path, system: str
) -> None:
    with day(tmp_path, system, 4, publishers=("B3", "B4")) as today:
        today.publish_on()
        today.network.kill("B1")
        assert "B2 has left" in shoal(today, "leave", "B2", "--without", "B1")
        today.network.running.pop("B2").wait(BOUND_S)
        today.network.start("B1", awaits=False)
        today.are_linked()
        today.all_receive_from_all()


def test_a_broker_is_forgotten_whose_restored_folder_says_that_it_has_left(tmp_path: Path) -> None:
    """It answers at its admin port only, and its neighbour waits for it."""
    with day(tmp_path, "tree", 3, publishers=("B1",)) as today:
        network, folder = today.network, tmp_path / "data" / "B3"
        assert "B3 has left" in shoal(today, "leave", "B3")
        network.running.pop("B3").wait(BOUND_S)
        copytree(folder, tmp_path / "copy")
        network.rejoin("B3", "B2")
        network.start("B3")
        today.are_linked()
        network.kill("B3")
        rmtree(folder)
        copytree(tmp_path / "copy", folder)
        network._joined.pop("B3")
        network.start("B3", awaits=False)
        assert shoal(today, "forget", "B3") == "B3 is forgotten; B2 has its place\n"
        today.wait("B2 is ready", lambda: network.is_ready("B2"))
        today.publish_on()


def test_forgetting_a_running_broker_is_refused(tmp_path: Path) -> None:
    with day(tmp_path, "tree") as today, pytest.raises(AssertionError, match="have it leave"):
        shoal(today, "forget", "B2")
