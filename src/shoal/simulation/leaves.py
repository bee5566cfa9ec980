"""Leaves of brokers: their clients go elsewhere, and the brokers are asked until they have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shoal.broker.effects import Leave, Stay
from shoal.model import BrokerId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.nodes import DETECTION_US, BrokerNode
from shoal.simulation.refuge import Refuge
from shoal.simulation.trace import Trace


class Leaves:
    """Requests of an operator to brokers that leave, or that stay after all."""

    def __init__(
        self,
        queue: EventQueue,
        brokers: Mapping[BrokerId, BrokerNode],
        neighbours: Callable[[BrokerId], tuple[BrokerId, ...]],
        refuge: Refuge,
        trace: Trace,
    ) -> None:
        self._queue = queue
        self._brokers = brokers
        self._neighbours = neighbours
        self._refuge = refuge
        self._trace = trace
        self._staying: set[BrokerId] = set()

    def begin(self, now_us: int, broker: BrokerId) -> None:
        """Ask a broker to leave, now and until it has left or stays."""
        self._staying.discard(broker)
        self._ask(now_us, broker)

    def _ask(self, now_us: int, broker: BrokerId) -> None:
        node = self._brokers.get(broker)
        if node is not None and broker not in self._staying:
            self._refuge.empty(now_us, broker)
            if all(each in node.links for each in self._neighbours(broker)):
                node.bring(now_us, Leave())
            self._queue.push(now_us + DETECTION_US, self._ask, broker)

    def cancel(self, now_us: int, broker: BrokerId) -> None:
        """Ask a broker to stay; a refusal is in the trace."""
        node = self._brokers.get(broker)
        if node is not None:
            before = len(self._trace.refused)
            node.bring(now_us, Stay())
            if len(self._trace.refused) == before:
                self._staying.add(broker)
                self._refuge.end(broker)
