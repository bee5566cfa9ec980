"""A broker of three leaves: every order of messages, and one link that breaks at any moment."""

from __future__ import annotations

import pytest

from shoal.overlays.tree.contraction import Contraction
from tests.examples import at_length
from tests.exploration.leaves import Leaves
from tests.exploration.network import Ends

LINKS: list[Ends] = [("A", "B"), ("B", "C"), ("A", "C")]


def explored(network: Leaves) -> str:
    """What was found, in words; an AssertionError with the shortest way to what goes wrong."""
    found = network.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    return f"{found.states} states, {found.steps} steps, {found.ends} ends"


def test_a_leave_whatever_arrives_first() -> None:
    print(explored(Leaves(2)))


@pytest.mark.parametrize("publishing", ["A", *at_length(["C"])])
@pytest.mark.parametrize("fault", LINKS)
def test_a_leave_whose_link_breaks(fault: Ends, publishing: str) -> None:
    print(explored(Leaves(0, fault, publishing=publishing)))


def test_the_judges_notice_who_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contraction, "follow", lambda *arguments: None)
    assert Leaves(1).explore().problems


@pytest.mark.soak
@pytest.mark.parametrize("publishing", ["A", "C"])
@pytest.mark.parametrize("publications", [1, 2])
@pytest.mark.parametrize("fault", LINKS)
def test_a_leave_with_publications_and_a_fault(
    fault: Ends, publications: int, publishing: str
) -> None:
    print(explored(Leaves(publications, fault, publishing=publishing)))
