"""Each publisher's order, kept where its publications enter a cluster.

A publication may go to a cluster another way than the one before, and overtake it.  All ways of
this kind lie in the publisher's region, so they end at one broker: the cluster's broker there, its
*gate*.  While a publisher's publications to a cluster are diverted they are *numbered* for it, and
the gate lets them in by their numbers (`lines.py`).  Nobody waits but there, and for no longer than
what went before is on its way; from the gate on links keep order.

The host says when numbering begins and ends over its own link to the gate, so that what is not
numbered, which goes over that link alone, is before or behind it.

| at the host, to a cluster | does |
| --- | --- |
| a publication, its shortest way is free | goes that way, without a number |
| it is to be carried by another | numbering begins; it goes, numbered |
| numbered, the shortest way has long been free | numbering ends; it goes that way |
| numbered, the cluster is entered elsewhere now | the new gate is told that it cannot know more |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.messages import NumbersBegin, NumbersEnd
from shoal.overlays.octopia.outputs import Outputs
from shoal.overlays.octopia.parameters import Parameters

# A publisher, and a cluster.
Stream = tuple[ClientId, int]


class _Numbers:
    """`began` is the number at its host of the publication that got the `first` one."""

    __slots__ = ("began", "first", "gate", "next", "since_us")

    def __init__(self, gate: BrokerId, began: int, now_us: int) -> None:
        self.gate: BrokerId | None = gate
        self.began = began
        self.first = self.next = self.since_us = now_us


class Numbering:
    """What one host's publishers send to each cluster, as far as it is numbered.

    Numbers begin with the time, in µs, so that those of an earlier numbering are lower.
    """

    def __init__(self, outputs: Outputs, parameters: Parameters) -> None:
        self._outputs = outputs
        self._parameters = parameters
        self._numbers: dict[Stream, _Numbers] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(
        self,
        publications: Sequence[RoutedPublication],
        entries: Mapping[int, BrokerId],
        copies: Mapping[BrokerId, int],
        shifts: Mapping[int, int],
        now_us: int,
        out: list[Effect],
    ) -> Mapping[int, int]:
        """Number a publisher's run for clusters to which it is diverted, or was not long ago.

        `entries` and `copies` are as in `ways.copies`; `shifts` what is numbered already.  By
        cluster, what is added to the number that a publication has at its host.
        """
        carried = 0
        for bits in copies.values():
            carried |= bits
        if not carried and not self._numbers:
            return shifts
        _, client, first = publications[0].message_id
        found = dict(shifts)
        for cluster, gate in entries.items():
            stream, is_carried = (client, cluster), carried >> cluster & 1
            numbers = self._numbers.get(stream)
            if numbers is None:
                if not is_carried:
                    continue
                numbers = self._numbers[stream] = _Numbers(gate, first, now_us)
                out.append(Send(gate, NumbersBegin(client, numbers.next)))
            elif numbers.gate != gate:
                numbers.gate, numbers.since_us = gate, now_us + self._parameters.doubt_us
                out.append(Send(gate, NumbersBegin(client, None)))
            elif not is_carried and cluster not in shifts and self._may_end(numbers, now_us):
                out.append(Send(gate, NumbersEnd(client, numbers.next)))
                del self._numbers[stream]
                continue
            if first < numbers.began:
                # It went before numbers began, and came back from a gate that is lost.
                found[cluster] = numbers.first - numbers.began
            elif cluster not in shifts:
                found[cluster] = numbers.next - first
                numbers.next += len(publications)
        return found

    def _may_end(self, numbers: _Numbers, now_us: int) -> bool:
        assert numbers.gate is not None
        return_us = self._parameters.return_us
        is_free = self._outputs.is_free(numbers.gate, return_us, now_us)
        return is_free and now_us - numbers.since_us >= return_us

    def end(self, client: ClientId, out: list[Effect]) -> None:
        """A publisher leaves."""
        for stream in [each for each in self._numbers if each[0] == client]:
            numbers = self._numbers.pop(stream)
            if numbers.gate is not None:
                out.append(Send(numbers.gate, NumbersEnd(client, numbers.next)))

    def is_of_now(self, stream: Stream, number: int) -> bool:
        """Whether a number was given since this numbering began."""
        numbers = self._numbers.get(stream)
        return numbers is not None and number >= numbers.first

    def forget(self, gate: BrokerId) -> None:
        """A gate is lost, or knows nothing any more."""
        for numbers in self._numbers.values():
            if numbers.gate == gate:
                numbers.gate = None
