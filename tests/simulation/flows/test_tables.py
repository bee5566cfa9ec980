"""Outcomes of a broker in a world with flows, beside those of any other broker."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.language import parse
from shoal.matching import Outcomes
from shoal.simulation.flows.flows import Flows
from shoal.simulation.flows.matches import Matches
from shoal.simulation.flows.tables import FlowOutcomes


class Row:
    """A local subscriber's row."""

    last_hop = None

    def __init__(self, id: str) -> None:
        self.id = id


def names(rows: list[Row]) -> list[str]:
    return [row.id for row in rows]


@pytest.mark.parametrize("others", [3, 40])
def test_rows_for_other_publishers_may_change_the_order(others: int) -> None:
    """Of many attributes thresholds are searched by name, of few as they were added."""
    attributes = {f"c{number}": 2 for number in range(others)}
    publications: list[tuple[str, dict[str, Any]]] = [
        ("P", {"kind": "k", "b": 2, "a": 2}),
        ("Q", {"kind": "k", **attributes}),
    ]
    texts = {name: f"kind = 'k' AND {name} > 1" for name in ("b", "a", *attributes)}
    filters = {name: parse(text) for name, text in texts.items()}
    matches = Matches.of(publications, filters)
    assert matches is not None
    keys = [(publisher, 0) for publisher, _ in publications]
    flows = Flows(["B"], 0, 1, matches, keys, dict.fromkeys(filters, 0))
    tested, twin = FlowOutcomes(names, len, flows, 0), Outcomes(names)
    for name, filter in filters.items():
        row = Row(name)
        tested.add(row, filter)
        twin.add(row, filter)
        for each in matches.publications:
            assert tested.of(each) == twin.of(each)
