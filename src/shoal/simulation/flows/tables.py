"""Routing outcomes of one broker in a world with flows.

They are those of `Outcomes`; the publications of a workload are not searched for again, as their
matches are known (`Matches`), and the loop reads the rows of a table from here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from shoal.matching import Outcomes
from shoal.model import Attributes, Filter
from shoal.simulation.flows.flows import Flows
from shoal.simulation.flows.places import BROKER_FIGURES, HERE, IS_SHUT, STALE, UNORDERED

Outcome = TypeVar("Outcome")
# Remembered outcomes of one publisher's publications.
MOST_REMEMBERED = 512


class _Rows(NamedTuple, Generic[Outcome]):
    """A table's rows for a publisher's publications, in the order of an answer.

    ranks      places in that order, by the subscription's number in its group
    outcomes   by the places of the rows that match
    """

    rows: list[Any]
    ranks: dict[int, int]
    outcomes: dict[tuple[int, ...], Outcome]


class FlowOutcomes(Outcomes[Outcome]):
    """Outcomes whose ids are rows of a tree's table of subscriptions."""

    def __init__(
        self,
        make: Callable[[list[Any]], Outcome],
        size_of: Callable[[Outcome], int],
        flows: Flows,
        broker: int,
    ) -> None:
        super().__init__(make, size_of)
        self._flows = flows
        self._broker = broker
        self._base = broker * len(flows.matches.groups)
        self._sizes = [0] * len(flows.matches.groups)
        self._read: dict[int, _Rows[Outcome]] = {}
        flows.read_table[broker] = self._read_rows

    def add(self, id: Hashable, filter: Filter) -> None:
        super().add(id, filter)
        self._change(id, 1)

    def remove(self, id: Hashable) -> None:
        super().remove(id)
        self._change(id, -1)

    def _change(self, row: Any, more: int) -> None:
        place = self._flows.places.get(row.id)
        if place is not None:
            group, _ = place
            self._sizes[group] += more
            self._flows.counts[self._base + group] = STALE
            self._read.pop(group, None)
        if not self._index.keeps_order or row.id not in self._flows.subscriptions:
            # The order of other rows may change with it, or its matches are not known.
            self._flows.broker_figures[self._broker * BROKER_FIGURES + IS_SHUT] = 1

    def of(self, attributes: Attributes) -> Outcome:
        flows = self._flows
        number = flows.numbers.get(id(attributes))
        if number is None or flows.broker_figures[self._broker * BROKER_FIGURES + IS_SHUT]:
            return super().of(attributes)
        group = flows.group_of[number]
        table = self._base + group
        if flows.counts[table] == STALE:
            self._read_rows(group)
        if flows.counts[table] == UNORDERED:
            return super().of(attributes)
        read = self._read[group]
        ranks = read.ranks
        matching = flows.matches.matching[number]
        found = tuple(sorted([ranks[each] for each in matching if each in ranks]))
        outcome = read.outcomes.get(found)
        if outcome is None:
            if len(read.outcomes) >= MOST_REMEMBERED:
                read.outcomes.clear()
            rows = read.rows
            outcome = self._make([rows[rank] for rank in found])
            read.outcomes[found] = outcome
        return outcome

    def _read_rows(self, group: int) -> None:
        """Read the rows for a publisher's publications, in the order of an answer."""
        flows = self._flows
        found = self._index.answer_order(flows.matches.samples[group])
        own = []
        for row in found or ():
            place = flows.places.get(row.id)
            if place is not None and place[0] == group:
                own.append((place[1], row))
        table = self._base + group
        if found is None or len(own) != self._sizes[group]:
            flows.counts[table] = UNORDERED
            return
        for position, (number, row) in enumerate(own):
            hop = HERE if row.last_hop is None else flows.slot(self._broker, row.last_hop)
            flows.order[table, position] = number
            flows.hop_of[table, position] = hop
        flows.counts[table] = len(own)
        self._read[group] = _Rows(
            [row for _, row in own], {number: rank for rank, (number, _) in enumerate(own)}, {}
        )
