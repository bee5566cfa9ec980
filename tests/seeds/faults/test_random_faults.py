"""Random networks with breaking links, crashing brokers and leaving publishers.

`shoal.simulation.judging.outages` defines the losses that are excused. Nothing raises, nothing
arrives twice, unwanted or out of order, every publisher arrives and publishes everything, and after
all faults every table of the tree is right. A few seeds here, 300 by `make soak`; SHOAL_SEEDS="7"
or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.clients.publisher import Publisher
from shoal.clients.records import ReturnRecord
from shoal.overlays.publisher_relocation.migration import Migrations
from tests.examples import at_length, one_in
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.random_faults import FaultyNetwork, moves_without_faults

QUICK = range(2)
SOAK = range(300)
MOVING = ["grape", "pop"]

LOSSY = pytest.mark.parametrize("lossy", [False, True], ids=["wires", "bad links"])


def _at_any_time(seeds: Iterable[int], system: str, lossy: bool) -> None:
    for seed in chosen(seeds):
        network = FaultyNetwork(seed, system=system, lossy=lossy)
        network.break_anything(6)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


def _while_moving(seeds: Iterable[int], system: str, lossy: bool, each: int) -> tuple[int, int]:
    """The numbers of required deliveries, and of publishers that moved back."""
    required = returned = 0
    for seed in chosen(seeds):
        moves = moves_without_faults(seed, system=system, lossy=lossy)
        network = FaultyNetwork(seed, system=system, lossy=lossy)
        network.break_moves(moves, each)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        required += network.verdict.required
        records = network.world.trace.records
        returned += sum(isinstance(row, ReturnRecord) for row in records)
    return required, returned


@pytest.mark.parametrize(
    ("system", "lossy"),
    one_in(2, [(system, lossy) for lossy in (False, True) for system in (*MOVING, "tree")]),
)
def test_faults_at_any_time_lose_only_what_they_excuse(system: str, lossy: bool) -> None:
    _at_any_time(QUICK, system, lossy)


@pytest.mark.parametrize(
    ("system", "lossy", "seed"),
    one_in(3, [("grape", False, 3), ("grape", True, 0), ("pop", False, 3), ("pop", True, 3)]),
)
def test_faults_during_moves_lose_only_what_they_excuse(
    system: str, lossy: bool, seed: int
) -> None:
    """In each of these some publishers move back."""
    required, returned = _while_moving((seed,), system, lossy, each=3)
    assert CHOSEN or (required > 0 and returned > 0)


def _with_patient_neighbours(seeds: Iterable[int], system: str) -> None:
    """Crashed brokers return to neighbours that kept their rows."""
    for seed in chosen(seeds):
        network = FaultyNetwork(seed, system=system, patient=True)
        if system == "tree" or seed % 2:
            network.break_anything(6)
        else:
            network.break_moves(moves_without_faults(seed, system=system), 3)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


@pytest.mark.parametrize("system", ["grape", *at_length(["tree", "pop"])])
def test_faults_with_patient_neighbours_lose_only_what_they_excuse(system: str) -> None:
    _with_patient_neighbours(QUICK, system)


@pytest.mark.soak
@pytest.mark.parametrize("system", ["tree", *MOVING])
def test_many_faults_with_patient_neighbours(system: str) -> None:
    _with_patient_neighbours(SOAK, system)


@pytest.mark.soak
@LOSSY
@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("system", MOVING)
def test_faults_in_the_middle_of_many_moves(system: str, each: int, lossy: bool) -> None:
    required, returned = _while_moving(SOAK, system, lossy, each)
    assert CHOSEN or (required > 10_000 and returned > 50)


@pytest.mark.soak
@LOSSY
@pytest.mark.parametrize("system", ["tree", *MOVING])
def test_many_faults_at_any_time(system: str, lossy: bool) -> None:
    _at_any_time(SOAK, system, lossy)


# --- mutants that the judges must find ----------------------------------------------------------


def withdraw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the broker at a break keeps no rows for a publisher that may move back."""
    link = Migrations.link

    def mutant(self, *arguments):  # type: ignore[no-untyped-def]
        for row in self._tree.tables.advertisements.values():
            row.turned_us = None
        link(self, *arguments)

    monkeypatch.setattr(Migrations, "link", mutant)


def wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the publisher never moves back."""
    monkeypatch.setattr(Publisher, "_turn_round", lambda self, now_us: [])


def count_no_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the first announcement counts, without counters of moves."""
    request = Publisher._try

    def mutant(self, path, now_us):  # type: ignore[no-untyped-def]
        self._moves = 0
        return request(self, path, now_us)

    monkeypatch.setattr(Publisher, "_try", mutant)


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [(withdraw_at_once, 60), *at_length([(wait_for_ever, 57), (count_no_moves, 53)])],
)
def test_the_judges_notice_each_mutant(mutate, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    moves = moves_without_faults(seed, system="grape")
    mutate(monkeypatch)
    network = FaultyNetwork(seed, system="grape")
    network.break_moves(moves, 2)
    assert network.run()
