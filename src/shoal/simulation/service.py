"""Costs of work in a simulated broker, and the counters that measure it.

A broker takes its messages one after the other: each waits in the input queue, is processed and
matched, and its copies leave through one output queue per neighbour and one for the local
clients.  Costs are constants in microseconds, so that a run is deterministic.
"""

from __future__ import annotations

from operator import sub

import msgspec

from shoal.broker.effects import MatchingWork, MeasuredDelays
from shoal.broker.messages import Message
from shoal.model import BrokerId
from shoal.overlays.trace_rows import ControlRow, LoadRow
from shoal.simulation.sizes import content_of

# Costs that a faster broker divides.
_TIMES = (
    "processing_us",
    "matching_us",
    "matching_per_subscription_ns",
    "transmission_us",
    "client_transmission_us",
)


class ServiceCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Costs in a broker.

    processing_us                  per message that comes in
    matching_us                    per publication that comes in
    matching_per_subscription_ns   more per publication, for each subscription in the table
    transmission_us                per publication or control message to a neighbour
    client_transmission_us         per delivery to a local client
    shared_outputs                 a broker sends to one neighbour at a time, in turns; without,
                                   to all at once
    publication_bytes              control messages between brokers cost by their size: one of so
                                   many bytes as much as a publication, in processing and in
                                   transmission; 0: each as much as a publication
    """

    processing_us: int = 0
    matching_us: int = 0
    matching_per_subscription_ns: int = 0
    transmission_us: int = 0
    client_transmission_us: int = 0
    shared_outputs: bool = False
    publication_bytes: int = 0

    def at_speed(self, speed: float) -> ServiceCosts:
        """The costs of a broker that is so many times as fast, rounded.

        >>> ServiceCosts(processing_us=500, publication_bytes=200).at_speed(4)
        ServiceCosts(processing_us=125, matching_us=0, matching_per_subscription_ns=0, \
transmission_us=0, client_transmission_us=0, shared_outputs=False, publication_bytes=200)
        """
        costs = {name: round(getattr(self, name) / speed) for name in _TIMES}
        return ServiceCosts(
            **costs,
            shared_outputs=self.shared_outputs,
            publication_bytes=self.publication_bytes,
        )

    def work_us(self, work: MatchingWork) -> int:
        """Return how long a core takes to match: a search of the subscriptions one after the
        other.
        """
        search_us = work.searched * self.matching_per_subscription_ns // 1_000
        return work.publications * self.matching_us + search_us


class Meter:
    """Counts one broker's work; computes its utilisation by windows of `window_us`.

    ones_in           batches of one publication that came in from neighbours
    carriers_in       other messages with publications that came in
    carried_in        publications in these
    control_in        other messages that came in
    searched_us       time of searches for publications
    sized_in_us       what control messages took longer to serve than `processing_us` each, by their
                      size; negative if they are smaller than publications
    sized_out_us      the same for their transmission
    worked_us         time of other work
    publications_out  publications for neighbours
    control_out       other messages for neighbours
    unsent            of both, those for which there was no link
    delivered         publications for local clients
    notified          other messages for local clients

    All count from the start: counting a message costs less than its effects.
    """

    __slots__ = (
        "_before",
        "_broker",
        "_costs",
        "_kinds",
        "_window_us",
        "carried_in",
        "carriers_in",
        "control_in",
        "control_out",
        "control_rows",
        "delivered",
        "notified",
        "ones_in",
        "publications_out",
        "rows",
        "searched_us",
        "sized_in_us",
        "sized_out_us",
        "unsent",
        "window_end_us",
        "worked_us",
    )

    def __init__(self, broker: BrokerId, costs: ServiceCosts, window_us: int) -> None:
        self._broker = broker
        self._costs = costs
        self._window_us = window_us
        self.window_end_us = window_us
        self.rows: list[LoadRow] = []
        self.control_rows: list[ControlRow] = []
        # By type, in this window: control messages for neighbours, their bytes and publications.
        self._kinds: dict[str, list[int]] = {}
        self.ones_in = self.carriers_in = self.carried_in = self.control_in = 0
        self.searched_us = self.worked_us = 0
        self.sized_in_us = self.sized_out_us = 0
        self.publications_out = self.control_out = self.unsent = 0
        self.delivered = self.notified = 0
        self._before = self._sums()

    @property
    def served(self) -> tuple[int, int]:
        """Messages with publications that came in, and how long they took to serve (µs)."""
        costs = self._costs
        carriers = self.ones_in + self.carriers_in
        matching_us = (self.ones_in + self.carried_in) * costs.matching_us
        return carriers, carriers * costs.processing_us + matching_us + self.searched_us

    @property
    def busy_us(self) -> tuple[int, int]:
        """Time of work on input, and of transmission to clients (µs).

        Other work is not among it: it is done beside the input, on cores of its own.
        """
        _, carriers_us = self.served
        input_us = carriers_us + self._control_us
        return input_us, self.delivered * self._costs.client_transmission_us

    @property
    def _control_us(self) -> int:
        return self.control_in * self._costs.processing_us + self.sized_in_us

    def _sums(self) -> tuple[int, ...]:
        """The figures of a row, from the start."""
        costs = self._costs
        for_neighbours = self.publications_out + self.control_out
        input_us, clients_us = self.busy_us
        sent_us = (for_neighbours - self.unsent) * costs.transmission_us + self.sized_out_us
        return (
            self.ones_in + self.carried_in + self.control_in,
            for_neighbours + self.delivered + self.notified,
            self.control_in,
            self.control_out + self.notified,
            input_us + self.worked_us,
            sent_us + clients_us,
            self._control_us,
            self.delivered,
        )

    def count_control(self, message: Message, size: int) -> None:
        """Count a control message for a neighbour; its frame has so many bytes."""
        self.control_out += 1
        message = content_of(message)
        counts = self._kinds.setdefault(type(message).__name__, [0, 0, 0])
        counts[0] += 1
        counts[1] += size
        if message.copied:
            counts[2] += len(getattr(message, message.copied))

    def roll(self, now_us: int) -> None:
        """Close the window when `now_us` is past it; windows without work have no row."""
        if now_us < self.window_end_us:
            return
        sums, before = self._sums(), self._before
        if sums[:2] != before[:2]:
            start_us = self.window_end_us - self._window_us
            self.rows.append(LoadRow(self._broker, start_us, *map(sub, sums, before)))
            self._before = sums
            self.control_rows += [
                ControlRow(self._broker, start_us, kind, *counts)
                for kind, counts in self._kinds.items()
            ]
            self._kinds.clear()
        self.window_end_us = (now_us // self._window_us + 1) * self._window_us


class ServiceMonitor:
    """A broker's delays since its last report (relocation paper, 4.1: the monitor)."""

    __slots__ = ("_before", "_meter", "client_output_us", "input_queue_us")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._before = (*meter.served, meter.delivered, *meter.busy_us)
        self.input_queue_us = self.client_output_us = 0

    def report(self, output_us: dict[BrokerId, int], passed_us: int = 0) -> MeasuredDelays:
        """The averages since the last report, with the outputs' as the links measured them.

        With the time since then also how busy it was: with its input or its clients' output, of
        which it does more.
        """
        meter = self._meter
        sums = (*meter.served, meter.delivered, *meter.busy_us)
        handled, handled_us, delivered, input_us, clients_us = map(sub, sums, self._before)
        busy_us = max(input_us, clients_us)
        report = MeasuredDelays(
            input_queue_us=self.input_queue_us // handled if handled else None,
            matching_us=handled_us // handled if handled else None,
            output_us=output_us,
            client_output_us=self.client_output_us // delivered if delivered else None,
            busy=min(1.0, busy_us / passed_us) if passed_us else None,
            served_us=handled_us // handled if handled else None,
        )
        self._before = sums
        self.input_queue_us = self.client_output_us = 0
        return report
