"""When a broker with these links takes new clients."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.runtime.readiness import down_links, has_needed_links


def link(neighbour: str, state: str, connections: int = 1, problem: str = "") -> dict[str, Any]:
    return {
        "neighbour": neighbour,
        "state": state,
        "connections": connections,
        "problem": problem,
    }


UP, LOST, NEVER = link("B2", "up"), link("B3", "away"), link("B4", "idle", 0)


@pytest.mark.parametrize(
    ("links", "while_starting", "later"),
    [
        ([], True, True),  # a broker alone
        ([UP], True, True),
        ([UP, LOST], True, True),
        ([UP, NEVER], False, True),
        ([LOST], False, False),
        ([LOST, NEVER], False, False),
    ],
)
def test_a_ready_broker_has_a_link(
    links: list[dict[str, Any]], *, while_starting: bool, later: bool
) -> None:
    assert has_needed_links(links, is_starting=True) is while_starting
    assert has_needed_links(links, is_starting=False) is later


def test_links_that_are_down_have_their_reasons() -> None:
    refused = link("B5", "idle", 0, "Connection refused")
    assert down_links([UP, LOST, refused]) == ["link to B3", "link to B5 (Connection refused)"]
