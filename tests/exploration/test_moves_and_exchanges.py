"""A move and an exchange of links at once, in every order of messages."""

from __future__ import annotations

import pytest

from shoal.overlays.self_organising.moves.moving_publishers import MovingPublishers
from shoal.overlays.self_organising.moves.reserved_paths import ReservedPaths
from tests.examples import at_length
from tests.exploration.exchange_steps import Fault
from tests.exploration.moves_and_exchanges import MovesAndExchanges

FAR, NEAR, BACK = ("B1", "B2", "B3"), ("B1", "B2"), ("B3", "B2", "B1")
# Links of the cycle that may be removed.
REMOVE = pytest.mark.parametrize("remove", [0, 1])


def explored(network: MovesAndExchanges) -> str:
    found = network.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    return f"{found.states} states, {found.steps} steps, {found.ends} ends"


@pytest.mark.parametrize(
    ("remove", "path"), [(0, FAR), *at_length([(1, NEAR), (1, FAR), (0, NEAR)])]
)
def test_a_move_and_an_exchange_meet(remove: int, path: tuple[str, ...]) -> None:
    print(explored(MovesAndExchanges(remove, (path,), 1)))


@pytest.mark.parametrize("publications", [0, *at_length([1])])
def test_the_judges_notice_an_exchange_on_the_path_of_a_move(
    publications: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables and the losses both show it."""
    monkeypatch.setattr(ReservedPaths, "reserve", lambda self, *move: self._send_away(*move))
    monkeypatch.setattr(MovingPublishers, "is_moving", False)
    assert MovesAndExchanges(1, (FAR,), publications).explore().problems


@pytest.mark.soak
@REMOVE
@pytest.mark.parametrize("path", [FAR, NEAR])
@pytest.mark.parametrize("fault", [(), ("link", "B2", "B3"), ("late", "B2")])
def test_a_move_and_an_exchange_and_a_fault(
    remove: int, path: tuple[str, ...], fault: Fault
) -> None:
    """Losses are not judged if there is a fault."""
    print(explored(MovesAndExchanges(remove, (path,), 1, fault, timely=not fault)))


@pytest.mark.soak
@REMOVE
@pytest.mark.parametrize(("path", "broker"), [(FAR, "B2"), (NEAR, "B3")])
def test_a_move_and_an_exchange_and_a_broker_that_dies(
    remove: int, path: tuple[str, ...], broker: str
) -> None:
    """The publisher is not at that broker, before or after.

    With a publication there would be more states than are explored.
    """
    print(explored(MovesAndExchanges(remove, (path,), 0, ("broker", broker), timely=False)))
