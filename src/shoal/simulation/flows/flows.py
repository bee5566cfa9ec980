"""The publications under way in a world with flows, and the arrays that the loop works on.

`Flows` is the loop's memory; brokers, links and routing tables read and write their parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.tree.forwarding import Note
from shoal.overlays.tree.routes import Route
from shoal.simulation.flows import places
from shoal.simulation.flows.loop import (
    GIVEN_BACK,
    HANDLED,
    HOPS_BITS,
    LIMIT,
    NEVER_US,
    NO_NOTES,
    NOTED,
    ROW_BITS,
    SPACE,
    TABLE,
    advance,
)
from shoal.simulation.flows.matches import Matches

# The loop has a route's neighbours as bits of a number.
MOST_NEIGHBOURS = 62
# New events, and notes, until the loop or the tracers take them.
_PENDING, _NOTES = 1_024, 65_536
_COLUMNS = 3


class GivenBack(NamedTuple):
    """An event for a machine: a publication by itself comes to a broker."""

    at_us: int
    link: int
    batch: PublicationBatch


class Flows:
    """The memory of one world's loop.

    matches      of all publications that come
    keys         publisher and sequence of each publication, by its number
    latency_us   of each subscription: from its broker to its client

    ValueError for more neighbours, brokers or publications than the loop has bits for.
    """

    def __init__(
        self,
        brokers: Sequence[BrokerId],
        links: int,
        most_neighbours: int,
        matches: Matches,
        keys: Sequence[tuple[ClientId, int]],
        latency_us: Mapping[SubscriptionId, int],
    ) -> None:
        count, groups = len(brokers), len(matches.groups)
        if most_neighbours > MOST_NEIGHBOURS:
            raise ValueError(f"a broker has {most_neighbours} neighbours, over {MOST_NEIGHBOURS}")
        if count > 1 << HOPS_BITS or len(keys) > 1 << ROW_BITS:
            raise ValueError(f"{count} brokers or {len(keys)} publications are too many")
        width = matches.member.shape[1]
        self.matches = matches
        self.brokers = {name: number for number, name in enumerate(brokers)}
        self.rows = {key: number for number, key in enumerate(keys)}
        self.numbers = {id(each): number for number, each in enumerate(matches.publications)}
        self.subscriptions = {name: number for number, name in enumerate(matches.subscriptions)}
        # Of each subscription its group, and its number there.
        self.places = {
            name: (group, number)
            for group, names in enumerate(matches.groups)
            for number, name in enumerate(names)
        }
        self.group_of = matches.group.tolist()
        self.routed: list[RoutedPublication | None] = [None] * len(keys)
        self.counts = np.full(count * groups, places.STALE, np.int64)
        self.order = np.zeros((count * groups, width), np.int64)
        self.hop_of = np.zeros((count * groups, width), np.int64)
        self.next_us = NEVER_US
        self._names = tuple(brokers)
        self._neighbours: list[list[BrokerId]] = [[] for _ in brokers]
        self._targets: list[BrokerId] = []
        self._sources: list[BrokerId] = []
        self._loop = np.zeros(places.LOOP_FIGURES, np.int64)
        self._figures = _figures_of(self._loop)
        self._heap = np.zeros((4 * _PENDING, _COLUMNS), np.int64)
        self._pending = np.zeros((_PENDING, _COLUMNS), np.int64)
        self._pending_figures = _figures_of(self._pending.reshape(-1))
        self._brokers = np.zeros((count, places.BROKER_FIGURES), np.int64)
        self._links = np.zeros((links, places.LINK_FIGURES), np.int64)
        self.broker_figures = _figures_of(self._brokers.reshape(-1))
        self.link_figures = _figures_of(self._links.reshape(-1))
        self._marked = np.zeros(len(keys), np.uint8)
        self._marks = _figures_of(self._marked)
        self._slots = np.zeros((count, most_neighbours), np.int64)
        self._subscription_of = np.zeros((groups, width), np.int64)
        for group, names in enumerate(matches.groups):
            for number, name in enumerate(names):
                self._subscription_of[group, number] = self.subscriptions[name]
        self._latency_us = np.array([latency_us[name] for name in matches.subscriptions], np.int64)
        self._more_deliveries = 4 * (_PENDING + width)
        self._deliveries = np.zeros((matches.total + self._more_deliveries, 4), np.int64)
        self._delivered = _figures_of(self._deliveries.reshape(-1))
        self._notes = np.zeros((_NOTES, 5), np.int64)
        self._note_of: list[Note | None] = [None] * count
        self._note_routes: dict[tuple[int, int, int], Route] = {}
        # Reads a broker's rows for a publisher's publications.
        self.read_table: list[Callable[[int], None] | None] = [None] * count

    # --- the network ----------------------------------------------------------------------------

    def add_link(self, source: BrokerId, target: BrokerId, latency_us: int, sending_us: int) -> int:
        """Add a direction of a link; returns its number."""
        number = len(self._targets)
        self._sources.append(source)
        self._targets.append(target)
        slot = self.slot(self.brokers[source], target)
        self._slots[self.brokers[source], slot] = number
        figures = self._links[number]
        figures[places.TARGET] = self.brokers[target]
        figures[places.SOURCE_SLOT] = self.slot(self.brokers[target], source)
        figures[places.LATENCY_US] = latency_us
        figures[places.TRANSMISSION_US] = sending_us
        return number

    def slot(self, broker: int, neighbour: BrokerId) -> int:
        """The number of a broker's neighbour."""
        names = self._neighbours[broker]
        if neighbour not in names:
            names.append(neighbour)
        return names.index(neighbour)

    def ends(self, link: int) -> tuple[BrokerId, BrokerId]:
        """The source and the target of a direction of a link."""
        return self._sources[link], self._targets[link]

    def trace_by(self, notes: Mapping[BrokerId, Note | None], *, is_late: bool) -> None:
        """Brokers note traced publications; `is_late` if they only note them."""
        for name, note in notes.items():
            self._note_of[self.brokers[name]] = note
        traces = NOTED if is_late else HANDLED
        is_traced = any(note is not None for note in notes.values())
        self._figures[places.NOTING] = traces if is_traced else NO_NOTES

    # --- events ---------------------------------------------------------------------------------

    def row_of(self, routed: RoutedPublication) -> int | None:
        """The number of a publication, which goes its way with this header; None if it goes with
        another one.
        """
        row = self.rows.get(routed.publication.key)
        if row is None:
            return None
        known = self.routed[row]
        if known is not routed:
            if known is not None:
                return None
            self.routed[row] = routed
            self._marks[row] = routed.mark is not None
        return row

    def push(self, at_us: int, made: int, link: int, row: int, hops: int) -> None:
        """Add an event: the publication arrives over the link."""
        number = self._figures[places.PENDING]
        if number == _PENDING:
            self._take_pending(made)
            number = 0
        base = _COLUMNS * number
        new = self._pending_figures
        new[base], new[base + 1] = at_us, made
        new[base + 2] = (link << (HOPS_BITS + ROW_BITS)) | (row << HOPS_BITS) | hops
        self._figures[places.PENDING] = number + 1
        if at_us < self.next_us:
            self.next_us = at_us

    def _take_pending(self, made: int) -> None:
        """Bring new events into the heap."""
        self.advance(-1, 0, made)

    def advance(self, limit_us: int, limit_made: int, made: int) -> tuple[int, GivenBack | None]:
        """Handle events before a limit, or until one is for a machine; the newest event's number,
        and that event.
        """
        figures = self._figures
        if figures[places.HEAP_SIZE] > len(self._heap) // 2:
            self._make_space()
        figures[places.LIMIT_US], figures[places.LIMIT_MADE] = limit_us, limit_made
        figures[places.MADE] = made
        while True:
            outcome = advance(
                self._loop,
                self._heap,
                self._pending,
                self._brokers,
                self._links,
                self.counts,
                self.order,
                self.hop_of,
                self.matches.member,
                self.matches.group,
                self._marked,
                self._slots,
                self._subscription_of,
                self._latency_us,
                self._deliveries,
                self._notes,
            )
            if outcome == TABLE:
                broker, group = divmod(figures[places.EVENT_TABLE], len(self.matches.groups))
                read = self.read_table[broker]
                assert read is not None
                read(group)
            elif outcome == SPACE:
                self._make_space()
            else:
                break
        self.next_us = figures[places.NEXT_US]
        given_back = self._given_back() if outcome == GIVEN_BACK else None
        assert given_back is not None or outcome == LIMIT
        return figures[places.MADE], given_back

    def _given_back(self) -> GivenBack:
        figures = self._figures
        routed = self.routed[figures[places.EVENT_ROW]]
        assert routed is not None
        batch = PublicationBatch((routed,), figures[places.EVENT_HOPS])
        return GivenBack(figures[places.EVENT_US], figures[places.EVENT_LINK], batch)

    def _make_space(self) -> None:
        self.make_notes()
        if self._figures[places.HEAP_SIZE] > len(self._heap) // 2:
            self._heap = np.concatenate([self._heap, np.zeros_like(self._heap)])
        if self._figures[places.DELIVERIES] > len(self._deliveries) // 2:
            more = np.zeros((self._more_deliveries, 4), np.int64)
            self._deliveries = np.concatenate([self._deliveries, more])
            self._delivered = _figures_of(self._deliveries.reshape(-1))

    @property
    def now_us(self) -> int:
        """The time of the last event that the loop has handled."""
        return self._figures[places.NOW_US]

    @property
    def under_way(self) -> int:
        """Publications that have not come to the next broker."""
        return self._figures[places.HEAP_SIZE] + self._figures[places.PENDING]

    def in_transit(self) -> list[tuple[int, PublicationBatch]]:
        """Of these the direction of the link, and the batch."""
        figures = self._figures
        events = [
            *self._heap[: figures[places.HEAP_SIZE], 2].tolist(),
            *self._pending[: figures[places.PENDING], 2].tolist(),
        ]
        found = []
        for what in events:
            routed = self.routed[what >> HOPS_BITS & (1 << ROW_BITS) - 1]
            assert routed is not None
            batch = PublicationBatch((routed,), what & (1 << HOPS_BITS) - 1)
            found.append((what >> HOPS_BITS + ROW_BITS, batch))
        return found

    # --- results of brokers -----------------------------------------------------------------------

    def make_notes(self) -> None:
        """Let tracers note the publications that the loop has taken through their brokers."""
        count = self._figures[places.NOTES]
        if not count:
            return
        self._figures[places.NOTES] = 0
        routes = self._note_routes
        for broker, row, source, seen, here in self._notes[:count].tolist():
            route = routes.get((broker, seen, here))
            if route is None:
                names = self._neighbours[broker]
                neighbours = tuple(name for number, name in enumerate(names) if seen >> number & 1)
                # A tracer that only notes publications counts clients, and reads no names.
                route = Route(neighbours, (("", ()),) * here)
                routes[broker, seen, here] = route
            note, routed = self._note_of[broker], self.routed[row]
            assert note is not None
            assert routed is not None
            note(routed, route, self._neighbours[broker][source], 0, [])

    def deliver(self, row: int, subscription: int, delivered_us: int, hops: int) -> None:
        """Add a delivery that a machine has made."""
        count = self._figures[places.DELIVERIES]
        if count == len(self._deliveries):
            self._make_space()
        base = 4 * count
        new = self._delivered
        new[base], new[base + 1] = row, subscription
        new[base + 2], new[base + 3] = delivered_us, hops
        self._figures[places.DELIVERIES] = count + 1

    @property
    def deliveries(self) -> npt.NDArray[np.int64]:
        """(deliveries, 4): publication, subscription, time in µs, hops; in the order in which
        brokers made them.
        """
        count: Any = self._figures[places.DELIVERIES]
        return self._deliveries[:count]


def _figures_of(array: npt.NDArray[Any]) -> memoryview:
    """The same integers, which are read and written one by one faster than by NumPy."""
    buffer: Any = array
    return memoryview(buffer)
