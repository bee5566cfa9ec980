"""Handovers of a BlueDove segment in every order of messages, with one link that breaks."""

from __future__ import annotations

import pytest

from shoal.overlays.bluedove.serving.handover import Handover
from tests.exploration.clusters import DISPATCHER, HEIR, LEAVING_BROKER, Handovers
from tests.exploration.network import Ends

LINKS: list[Ends] = [(HEIR, LEAVING_BROKER), (DISPATCHER, HEIR), (DISPATCHER, LEAVING_BROKER)]
# Places in M2's segment, which is handed over, and in M1's.
ABOVE, BELOW = 80, 20


def explored(cluster: Handovers) -> str:
    """The summary of the search; AssertionError with the shortest path to a fault."""
    found = cluster.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    return f"{found.states} states, {found.steps} steps, {found.ends} ends"


def test_a_handover_loses_nothing_in_any_order() -> None:
    print(explored(Handovers((ABOVE, BELOW), subscribes=False)))


def test_a_handover_loses_nothing_when_its_link_breaks() -> None:
    print(explored(Handovers((ABOVE,), (HEIR, LEAVING_BROKER), subscribes=False)))


def test_the_judges_notice_a_publication_that_is_not_forwarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Handover, "pass_on", lambda *arguments: None)
    problems = Handovers((ABOVE,)).explore().problems
    assert problems[-1] == "late misses 0"


@pytest.mark.soak
@pytest.mark.parametrize("publications", [(ABOVE,), (ABOVE, BELOW)])
def test_a_handover_and_a_subscription(publications: tuple[int, ...]) -> None:
    print(explored(Handovers(publications)))


@pytest.mark.soak
@pytest.mark.parametrize("fault", LINKS)
def test_a_handover_a_subscription_and_a_fault(fault: Ends) -> None:
    print(explored(Handovers((ABOVE,), fault)))


@pytest.mark.soak
@pytest.mark.parametrize("fault", LINKS)
def test_a_handover_two_publications_and_a_fault(fault: Ends) -> None:
    print(explored(Handovers((ABOVE, BELOW), fault, subscribes=False)))
