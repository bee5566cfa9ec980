"""The metrics of a bridge, for Prometheus.

>>> tally = BridgeTally()
>>> tally.flows["out"].carried += 1
>>> [family.name for family in BridgeMetrics("plant", tally).collect()][:2]
['shoal_bridge', 'shoal_bridge_up']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shoal.client.client import Client

DIRECTIONS = "in", "out"
ENDS = "here", "there"


class Flow:
    """The counts of one direction, since the bridge was started.

    carried    messages that the target has
    left       messages that were not carried, by reason
    under_way  messages sent, and not acknowledged yet
    """

    def __init__(self) -> None:
        self.carried = self.under_way = 0
        self.left: Counter[str] = Counter()


class BridgeTally:
    """The counts of both directions; `clients` are the bridge's present ones."""

    def __init__(self) -> None:
        self.flows = {direction: Flow() for direction in DIRECTIONS}
        self.clients: dict[str, Client] = {}
        self._former: Counter[str] = Counter()

    def begin(self, here: Client, there: Client) -> None:
        """Begin with new clients."""
        for end, client in self.clients.items():
            self._former[end] += client.connections
        for flow in self.flows.values():
            flow.under_way = 0
        self.clients = dict(zip(ENDS, (here, there), strict=True))

    def connections(self, end: str) -> int:
        """The number of connections to an end."""
        client = self.clients.get(end)
        return self._former[end] + (0 if client is None else client.connections)

    def is_up(self, end: str) -> bool:
        client = self.clients.get(end)
        return client is not None and client.is_connected


class BridgeMetrics(Collector):
    """The metrics of the bridge `name`, collected on demand."""

    def __init__(self, name: str, tally: BridgeTally) -> None:
        self._name, self._tally = name, tally

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "shoal_bridge", "The name of the bridge.", value={"name": self._name}
        )
        up = GaugeMetricFamily("shoal_bridge_up", "1 while this end is connected.", labels=["end"])
        connected = CounterMetricFamily(
            "shoal_bridge_connections", "Connections to this end.", labels=["end"]
        )
        for end in ENDS:
            up.add_metric([end], float(self._tally.is_up(end)))
            connected.add_metric([end], self._tally.connections(end))
        carried = CounterMetricFamily(
            "shoal_bridge_carried", "Messages that the other end has.", labels=["direction"]
        )
        left = CounterMetricFamily(
            "shoal_bridge_dropped",
            "Messages that were not carried, by reason.",
            labels=["direction", "reason"],
        )
        waiting = GaugeMetricFamily(
            "shoal_bridge_waiting",
            "Messages that the other end has not acknowledged.",
            labels=["direction"],
        )
        for direction, flow in self._tally.flows.items():
            carried.add_metric([direction], flow.carried)
            waiting.add_metric([direction], flow.under_way)
            for reason, count in _by_kind(flow.left.copy()).items():
                left.add_metric([direction, reason], count)
        yield from (up, connected, carried, left, waiting)


def _by_kind(left: Counter[str]) -> Counter[str]:
    """The counts without the broker's text after a reason code, which may be anything."""
    found: Counter[str] = Counter()
    for reason, count in left.items():
        found[": ".join(reason.split(": ")[:2])] += count
    return found


def bridge_registry(name: str, tally: BridgeTally) -> CollectorRegistry:
    """The registry for Prometheus."""
    registry = CollectorRegistry()
    registry.register(BridgeMetrics(name, tally))
    return registry
