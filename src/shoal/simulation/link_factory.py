"""Makes the overlay links of a simulated network, with their faults and bandwidths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from shoal.model import BrokerId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.faults import FaultyLink, LinkFaults
from shoal.simulation.limited_link import Bandwidths, LimitedLink
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import ServiceCosts
from shoal.simulation.sizes import MessageSizes


class LinkFactory:
    """Makes one direction of a link at each call.

    latency_us   from one broker to another
    costs        a broker's
    faults       of every link; those in `own_faults` in their place
    seed         faults are drawn from it
    """

    def __init__(
        self,
        queue: EventQueue,
        brokers: Mapping[BrokerId, BrokerNode],
        latency_us: Callable[[BrokerId, BrokerId], int],
        costs: Callable[[BrokerId], ServiceCosts],
        *,
        faults: LinkFaults | None,
        own_faults: Mapping[frozenset[BrokerId], LinkFaults] | None,
        bandwidths: Bandwidths | None,
        sizes: MessageSizes | None,
        seed: int,
    ) -> None:
        self._queue = queue
        self._brokers = brokers
        self._latency_us = latency_us
        self._costs = costs
        self._faults = faults or LinkFaults()
        self._own_faults = own_faults or {}
        self._bandwidths = bandwidths or Bandwidths()
        self._sizes = sizes
        self._seed = seed
        if self._bandwidths and sizes is None:
            raise ValueError("bandwidths: a link with a bandwidth needs the sizes of messages")

    @property
    def is_lossy(self) -> bool:
        """Whether a link loses or delays messages at random: brokers need reliable links."""
        return any((self._faults, *self._own_faults.values()))

    def make(self, source: BrokerId, target: BrokerId) -> SimulatedLink:
        latency_us = self._latency_us(source, target)
        node, transmission_us = self._brokers[target], self._costs(source).transmission_us
        faults = self._own_faults.get(frozenset((source, target)), self._faults)
        random = Random(f"{self._seed}/{source}/{target}")
        rate = self._bandwidths.between(source, target)
        if rate and self._sizes is not None:
            limits = latency_us, transmission_us, rate, self._sizes
            return LimitedLink(self._queue, node.receive, *limits, faults, random)
        way = self._queue, node.receive, node.receive_one, latency_us, transmission_us
        return FaultyLink(*way, faults, random) if faults else SimulatedLink(*way)
