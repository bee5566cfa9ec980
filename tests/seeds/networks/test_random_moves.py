"""Clients that are sent from broker to broker: nothing lost, doubled, made up or out of order.

A few seeds here, 300 by `make soak`; SHOAL_SEEDS="7" or "0-99" replays chosen ones.
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
def test_clients_move(system: str) -> None:
    _run(QUICK, system)


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": 4, "update_us": 2_000_000, "load_weight": 0.5},
        {"placement": PlacementParameters.HASH},
    ],
    ids=["similarity", "hash"],
)
def test_users_are_placed_while_clients_move(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of a ring send users to where others want the same, or their names' hashes are, and
    change places themselves.
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
def test_clients_move_while_brokers_are_killed(system: str) -> None:
    _run(QUICK, system, kills=4)


@pytest.mark.parametrize("system", ["bluedove", "octopia", "tid"])
def test_clients_move_where_any_broker_that_is_killed_may_matter(system: str) -> None:
    """A broker that is back before anybody missed it had lost what it was sent (BlueDove)."""
    _run(QUICK, system, kills=4, anywhere=True)


def test_nobody_gets_twice_what_a_broker_delivered_before_it_was_killed() -> None:
    """What nobody waits for comes at most once, also in the broker's next life.

    188: it is back in the view that it was killed in; 198: what is sent again is so in a view
    after the one in which it came back.
    """
    _run((188, 198), "dynatops", kills=4)


def test_clients_move_over_links_that_lose_and_reorder() -> None:
    _run(QUICK, "tree", lossy=True)


@pytest.mark.parametrize("moves", [Moves.SUBSCRIBERS, Moves.BOTH])
def test_clients_move_where_subscribers_relocate(moves: Moves) -> None:
    _run(QUICK, "grape", moves=moves)


def test_clients_move_where_all_relocate_and_brokers_are_killed() -> None:
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


# --- the judges bite --------------------------------------------------------------------------


def break_before_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: it takes from the new broker at once."""
    move = Subscriber.move

    def mutant(self, broker, now_us):  # type: ignore[no-untyped-def]
        effects = move(self, broker, now_us)
        for place in self._places.values():
            if place.target is not None:
                effects += self._arrive(place, now_us)
        return effects

    monkeypatch.setattr(Subscriber, "move", mutant)


def forget_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: it takes all that the new broker had for it."""
    arrive = Subscriber._arrive

    def mutant(self, place, now_us):  # type: ignore[no-untyped-def]
        place.had.clear()
        return arrive(self, place, now_us)

    monkeypatch.setattr(Subscriber, "_arrive", mutant)


@pytest.mark.parametrize("mutate", [break_before_make, forget_what_it_had])
def test_the_judges_notice(mutate, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert any(RandomMoves(seed, system="tree").run() for seed in (4, 3, 2))
