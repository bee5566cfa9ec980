"""The brokers' answers about a trace session, and the tree that they form.

Source: Cheung and Jacobsen, publisher relocation, section 4.1 (the payload).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shoal.model import BrokerId


class BrokerTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's answer about a trace session: the seven payload fields of 4.1.

    Bit d of `bits` means that publication M+d was delivered to a local subscriber; `deliveries`
    counts local deliveries, several per publication if several subscribers match. A message for
    `neighbour` waits `input_queue_us + matching_us + output_queue_us[neighbour]`, the last
    including transmission and the link; one for a local subscriber ends with `client_output_us`.

    Two more are ours (`capacity.py`): the part of its time for which the broker is busy, publishers
    on their way to it included, and its work for a publication; 0 if it has measured neither.
    """

    broker: BrokerId
    neighbours: tuple[BrokerId, ...]
    bits: int
    deliveries: int
    input_queue_us: int
    matching_us: int
    output_queue_us: tuple[tuple[BrokerId, int], ...]
    client_output_us: int
    busy_percent: int = 0
    served_us: int = 0

    def __post_init__(self) -> None:
        figures = (self.bits, self.deliveries, self.input_queue_us, self.matching_us)
        ours = (self.busy_percent, self.served_us)
        outputs = [output_us for _, output_us in self.output_queue_us]
        if min(*figures, *ours, self.client_output_us, *outputs) < 0:
            raise ValueError(f"the trace of {self.broker!r} has a negative figure")


class TraceTree:
    """The traces as a tree rooted at `root`, numbered breadth first, so parents before children.

    `parent` holds numbers (-1 for the root), `numbers` is in the same order as `traces`.
    ValueError when a broker answered twice, the root did not answer, two brokers disagree about
    their link, or the answers do not form one tree.
    """

    def __init__(self, traces: Sequence[BrokerTrace], root: BrokerId) -> None:
        known = {trace.broker: trace for trace in traces}
        if len(known) != len(traces):
            raise ValueError("a broker answered twice in one trace session")
        if root not in known:
            raise ValueError(f"the current broker {root!r} is not among the traces")
        self.root = root
        self.traces = [known[root]]
        self.numbers = {root: 0}
        self.parent = [-1]
        self.depth = [0]
        self._walk(known)
        if len(self.traces) != len(traces):
            lost = next(broker for broker in known if broker not in self.numbers)
            raise ValueError(f"the traces are not connected: no path from {root!r} to {lost!r}")
        self.deliveries = sum(trace.deliveries for trace in traces)

    def _walk(self, known: Mapping[BrokerId, BrokerTrace]) -> None:
        traces, numbers, parent, depth = self.traces, self.numbers, self.parent, self.depth
        for number, trace in enumerate(traces):  # grows while it is read
            upstream = traces[parent[number]].broker if number else None
            upstream_known = number == 0
            below = depth[number] + 1
            for neighbour in trace.neighbours:
                if neighbour == upstream:
                    upstream_known = True
                elif neighbour in numbers:
                    raise ValueError(
                        f"the traces are not a tree: {trace.broker!r} and {neighbour!r} "
                        "are joined in two ways"
                    )
                elif neighbour in known:
                    numbers[neighbour] = len(traces)
                    traces.append(known[neighbour])
                    parent.append(number)
                    depth.append(below)
            if not upstream_known:
                raise ValueError(
                    f"{upstream!r} has the neighbour {trace.broker!r}, which does not know it"
                )

    def nearest(self, brokers: Sequence[BrokerId]) -> BrokerId:
        """Fewest hops from the root (the root itself has none), then the smaller identifier."""
        return min(brokers, key=lambda broker: (self.depth[self.numbers[broker]], broker))

    def path_to(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        path, number = [], self.numbers[broker]
        while number >= 0:
            path.append(self.traces[number].broker)
            number = self.parent[number]
        return tuple(reversed(path))

    def link_delays(self) -> tuple[list[int], list[int]]:
        """For each broker: delay from its parent's input queue to its own, and the other way.

        ValueError when a broker gives no output delay to a neighbour that answered, too.
        """
        parent, numbers = self.parent, self.numbers
        down_us, up_us = [-1] * len(parent), [-1] * len(parent)
        for number, trace in enumerate(self.traces):
            inside_us = trace.input_queue_us + trace.matching_us
            for neighbour, output_us in trace.output_queue_us:
                other = numbers.get(neighbour)
                if other is None:
                    continue
                if parent[number] == other:
                    up_us[number] = inside_us + output_us
                elif parent[other] == number:
                    down_us[other] = inside_us + output_us
        for number in range(1, len(parent)):
            if down_us[number] < 0 or up_us[number] < 0:
                upper, lower = self.traces[parent[number]].broker, self.traces[number].broker
                raise ValueError(f"no output delay both ways between {upper!r} and {lower!r}")
        return down_us, up_us
