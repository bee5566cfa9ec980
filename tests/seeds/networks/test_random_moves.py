"""Clients moved between brokers: nothing lost, doubled, invented or out of order.

A few seeds here, 300 by `make soak`; SHOAL_SEEDS="7" or "0-99" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from shoal.clients.subscriber import Subscriber
from shoal.overlays.dynatops.parameters import PlacementParameters
from shoal.overlays.dynatops.records import PlacementRecord
from shoal.overlays.publisher_relocation.grape.parameters import Moves
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks import random_network
from tests.seeds.networks.random_moves import RandomCrowd, RandomMoves
from tests.systems import drawn

# Seven brokers, and fourteen that cover.
QUICK = (2, 3)
SOAK = range(300)
SYSTEMS = pytest.mark.parametrize("system", ["tree", "grape", "bluedove", "octopia", "tid"])


def _run(
    seeds: Iterable[int],
    system: str,
    *,
    kills: int = 0,
    lossy: bool = False,
    moves: Moves | None = None,
    anywhere: bool = False,
) -> None:
    required = moved = 0
    for seed in chosen(seeds):
        network = RandomMoves(
            seed, system=system, kills=kills, lossy=lossy, moves=moves, anywhere=anywhere
        )
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        required += network.required
        moved += len(network.moved)
    assert CHOSEN or (required > 0 and moved > 0)


@SYSTEMS
def test_moved_clients_lose_nothing(system: str) -> None:
    _run(QUICK, system)


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": 4, "update_us": 2_000_000, "load_weight": 0.5},
        *at_length([{"placement": PlacementParameters.HASH}]),
    ],
)
def test_placed_users_lose_nothing_while_clients_move(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of a ring move users to similar ones, or to their names' hashes, and swap places
    themselves.
    """

    def placing(*given: Any) -> Any:
        return msgspec.structs.replace(drawn(*given), **options)

    monkeypatch.setattr(random_network, "drawn", placing)
    placed = 0
    for seed in (0, 2, 6):
        network = RandomMoves(seed, system="dynatops")
        assert network.run() == []
        placed += sum(isinstance(row, PlacementRecord) for row in network.world.trace.records)
    assert placed > 5


@pytest.mark.parametrize("system", ["tree", "grape"])
def test_moved_clients_lose_only_what_kills_excuse(system: str) -> None:
    _run(QUICK, system, kills=4)


@pytest.mark.parametrize("system", ["octopia", *at_length(["bluedove", "tid"])])
def test_moved_clients_without_a_tree_lose_only_what_kills_excuse(system: str) -> None:
    """A broker that restarts unnoticed has lost its messages (BlueDove)."""
    _run(QUICK, system, kills=4, anywhere=True)


def test_deliveries_before_a_kill_are_not_repeated() -> None:
    """Unassured publications arrive at most once, also in the broker's next incarnation.

    188: it returns to the view in which it was killed; 198: retransmissions are made in a later
    view than its return.
    """
    _run((188, 198), "dynatops", kills=4)


def test_moved_clients_over_lossy_links_lose_nothing() -> None:
    _run(QUICK, "tree", lossy=True)


@pytest.mark.parametrize("moves", [Moves.BOTH, *at_length([Moves.SUBSCRIBERS])])
def test_moved_clients_with_relocating_subscribers_lose_nothing(moves: Moves) -> None:
    _run(QUICK, "grape", moves=moves)


def test_moved_clients_with_relocation_of_all_lose_only_what_kills_excuse() -> None:
    _run(QUICK, "grape", moves=Moves.BOTH, kills=4)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [0, 4])
def test_many_clients_move_where_all_relocate(kills: int) -> None:
    _run(SOAK, "grape", moves=Moves.BOTH, kills=kills)


@pytest.mark.soak
def test_many_clients_move_where_subscribers_relocate() -> None:
    _run(range(30), "grape", moves=Moves.SUBSCRIBERS)


@pytest.mark.soak
def test_many_clients_move_over_links_that_lose_and_reorder() -> None:
    _run(range(30), "tree", lossy=True)


@pytest.mark.soak
@SYSTEMS
def test_many_clients_move(system: str) -> None:
    _run(SOAK, system)


@pytest.mark.soak
@pytest.mark.parametrize("system", ["tree", "grape", "dynatops"])
def test_many_clients_move_while_brokers_are_killed(system: str) -> None:
    _run(SOAK, system, kills=4)


@pytest.mark.soak
@pytest.mark.parametrize("system", ["bluedove", "octopia", "tid"])
def test_many_clients_move_where_any_broker_that_is_killed_may_matter(system: str) -> None:
    _run(SOAK, system, kills=4, anywhere=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("system", ["tree", "grape", "bluedove", "octopia", "tid", "dynatops"])
def test_thousands_of_clients_move_while_brokers_are_killed(system: str, seed: int) -> None:
    anywhere = system in ("bluedove", "octopia", "tid")
    network = RandomCrowd(seed, system=system, kills=4, anywhere=anywhere, interval_us=8_000_000)
    assert network.run() == []
    assert len(network.moved) > 500
    assert network.required > 10_000


# --- mutants that the judges must find ----------------------------------------------------------


def break_before_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the client accepts the new broker's publications at once."""
    move = Subscriber.move

    def mutant(self, broker, now_us):  # type: ignore[no-untyped-def]
        effects = move(self, broker, now_us)
        for place in self._places.values():
            if place.target is not None:
                effects += self._arrive(place, now_us)
        return effects

    monkeypatch.setattr(Subscriber, "move", mutant)


def forget_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the client accepts every publication that the new broker has for it."""
    arrive = Subscriber._arrive

    def mutant(self, place, now_us):  # type: ignore[no-untyped-def]
        place.had.clear()
        return arrive(self, place, now_us)

    monkeypatch.setattr(Subscriber, "_arrive", mutant)


@pytest.mark.parametrize("mutate", [break_before_make, forget_what_it_had])
def test_the_judges_notice_each_mutant(mutate, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert any(RandomMoves(seed, system="tree").run() for seed in (4, 3, 2))
