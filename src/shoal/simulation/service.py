"""What work costs in a simulated broker, and the counters that watch it.

A broker takes its messages one after the other: each waits in the input queue, is processed and
matched, and its copies leave through one output queue per neighbour and one for the local
clients.  Costs are constants in microseconds, so that a run is deterministic.
"""

from __future__ import annotations

import msgspec

from shoal.broker.effects import Measured, Work
from shoal.model import BrokerId
from shoal.overlays.trace_rows import LoadRow


class ServiceCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Costs in a broker.

    processing_us                  per message that comes in
    matching_us                    per publication that comes in
    matching_per_subscription_ns   more per publication, for each subscription in the table
    transmission_us                per publication or control message to a neighbour
    client_transmission_us         per delivery to a local client
    shared_outputs                 a broker sends to one neighbour at a time, in turns; without,
                                   to all at once
    """

    processing_us: int = 0
    matching_us: int = 0
    matching_per_subscription_ns: int = 0
    transmission_us: int = 0
    client_transmission_us: int = 0
    shared_outputs: bool = False

    def work_us(self, work: Work) -> int:
        """How long a core takes to match: a search of the subscriptions one after the other."""
        search_us = work.searched * self.matching_per_subscription_ns // 1_000
        return work.publications * self.matching_us + search_us


class Meter:
    """Counts one broker's work per window of `window_us`."""

    __slots__ = (
        "_broker",
        "_window_us",
        "control_in",
        "control_out",
        "input_busy_us",
        "messages_in",
        "messages_out",
        "output_busy_us",
        "rows",
        "window_end_us",
    )

    def __init__(self, broker: BrokerId, window_us: int) -> None:
        self._broker = broker
        self._window_us = window_us
        self.window_end_us = window_us
        self.rows: list[LoadRow] = []
        self._reset()

    def _reset(self) -> None:
        self.messages_in = self.messages_out = 0
        self.control_in = self.control_out = 0
        self.input_busy_us = self.output_busy_us = 0

    def roll(self, now_us: int) -> None:
        """Close the window when `now_us` is past it; windows without work have no row."""
        if now_us < self.window_end_us:
            return
        if self.messages_in or self.messages_out:
            self.rows.append(
                LoadRow(
                    self._broker,
                    self.window_end_us - self._window_us,
                    self.messages_in,
                    self.messages_out,
                    self.control_in,
                    self.control_out,
                    self.input_busy_us,
                    self.output_busy_us,
                )
            )
            self._reset()
        self.window_end_us = (now_us // self._window_us + 1) * self._window_us


class Monitor:
    """Sums of a broker's delays since its last report (relocation paper, 4.1: the monitor)."""

    __slots__ = ("client_output_us", "delivered", "handled", "input_queue_us", "matching_us")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.handled = self.delivered = 0
        self.input_queue_us = self.matching_us = self.client_output_us = 0

    def report(self, output_us: dict[BrokerId, int]) -> Measured:
        """The averages since the last report, with the outputs' as the links measured them."""
        report = Measured(
            input_queue_us=self.input_queue_us // self.handled if self.handled else None,
            matching_us=self.matching_us // self.handled if self.handled else None,
            output_us=output_us,
            client_output_us=self.client_output_us // self.delivered if self.delivered else None,
        )
        self.reset()
        return report
