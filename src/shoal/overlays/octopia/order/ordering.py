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
| what was numbered before is back, and sent there | the gate is told that (`clearing.py`) |
| its gate is back from the dead | so is that one, before anything is sent to it once more |
| a numbered one comes back, its gate is the same | it keeps its number, ended or not |
| its gate is lost, or was not long after the end | numbering goes on; it gets a number of now |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.messages import NumbersBegin, NumbersEnd, NumbersOpen
from shoal.overlays.octopia.parameters import Parameters
from shoal.overlays.octopia.ways.outputs import Outputs

# A publisher, and a cluster.
Stream = tuple[ClientId, int]


class _Numbers:
    """`began` is the number at its host of the publication that got the `first` one.

    `oldest` is the first number, maybe of an earlier numbering, that the gate has known since.
    """

    __slots__ = ("began", "first", "gate", "is_promised", "next", "oldest", "since_us")

    def __init__(self, gate: BrokerId, began: int, now_us: int) -> None:
        self.gate: BrokerId | None = gate
        self.began = began
        self.first = self.next = self.oldest = self.since_us = now_us
        # Whether the gate, which cannot know more, waits for being told that all has come.
        self.is_promised = False


class Numbering:
    """What one host's publishers send to each cluster, as far as it is numbered.

    Numbers begin with the time, in µs, so that those of an earlier numbering are lower.
    """

    def __init__(self, outputs: Outputs, parameters: Parameters) -> None:
        self._outputs = outputs
        self._parameters = parameters
        self._numbers: dict[Stream, _Numbers] = {}
        self._clusters: dict[ClientId, dict[int, None]] = {}
        # Those that have ended `since_us`, in this order: what they numbered may come back.
        self._ended: OrderedDict[Stream, _Numbers] = OrderedDict()
        # Of which their gates cannot know what may come.
        self._late: set[Stream] = set()
        # Of these, those whose gates have been told so since all were looked at.
        self._new: set[Stream] = set()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def is_late(self) -> bool:
        """Whether any gate cannot know what may come."""
        return bool(self._late)

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
                if not is_carried or cluster in shifts:
                    continue
                numbers = self._begin(stream, gate, first, now_us)
                out.append(Send(gate, NumbersBegin(client, numbers.next)))
            elif numbers.gate != gate:
                self._go_on_at(gate, stream, numbers, now_us, out)
            elif not is_carried and cluster not in shifts and self._may_end(numbers, now_us):
                out.append(Send(gate, NumbersEnd(client, numbers.next)))
                self._end(stream, now_us)
                continue
            if cluster in shifts:
                continue
            if first < numbers.began:
                # It went before numbers began, and came back from a gate that is lost.
                found[cluster] = numbers.first - numbers.began
            else:
                found[cluster] = numbers.next - first
                numbers.next += len(publications)
        return found

    def met(self, gate: BrokerId, cluster: int, now_us: int, out: list[Effect]) -> None:
        """A cluster's gate is linked: what its earlier life had not settled comes there first.

        Of that some has numbers, some was sent before they began, or behind their end.
        """
        for stream, numbers in self._numbers.items():
            if stream[1] == cluster and numbers.gate is None:
                self._go_on_at(gate, stream, numbers, now_us, out)

    def _go_on_at(
        self, gate: BrokerId, stream: Stream, numbers: _Numbers, now_us: int, out: list[Effect]
    ) -> None:
        """Tell who is the gate now that it cannot know more."""
        self._late.add(stream)
        self._new.add(stream)
        numbers.is_promised = False
        numbers.gate, numbers.oldest = gate, numbers.first
        numbers.since_us = now_us + self._parameters.doubt_us
        out.append(Send(gate, NumbersBegin(stream[0], None)))

    def open(
        self,
        is_cleared: Callable[[int], bool],
        will_be_cleared: Callable[[int], bool],
        waits: Callable[[ClientId, int], bool],
        now_us: int,
        out: list[Effect],
        *,
        is_changed: bool,
    ) -> None:
        """Tell gates that nothing of before comes any more, or that they will be told.

        Nothing of a publisher that is to be sent to a cluster yet `waits` here then.  Whether any
        of these answers `is_changed` since this was asked last: else only who is new is looked at.
        """
        streams, self._new = sorted(self._late if is_changed else self._new), set()
        for stream in streams:
            numbers, (client, cluster) = self._numbers[stream], stream
            if numbers.gate is None:
                continue
            if is_cleared(cluster):
                if not waits(client, cluster):
                    self._is_in_time(stream)
                    numbers.since_us = now_us
                    out.append(Send(numbers.gate, NumbersOpen(client, numbers.next)))
            elif will_be_cleared(cluster):
                if not numbers.is_promised:
                    numbers.is_promised = True
                    numbers.since_us = now_us + self._parameters.order_us
                    out.append(Send(numbers.gate, NumbersOpen(client, None)))
            elif numbers.is_promised:
                self._go_on_at(numbers.gate, stream, numbers, now_us, out)

    def _begin(self, stream: Stream, gate: BrokerId, first: int, now_us: int) -> _Numbers:
        numbers = self._put(stream, _Numbers(gate, first, now_us))
        before = self._ended.pop(stream, None)
        if before is not None and before.gate == gate:
            numbers.oldest = before.oldest
        return numbers

    def _put(self, stream: Stream, numbers: _Numbers) -> _Numbers:
        client, cluster = stream
        self._numbers[stream] = numbers
        self._clusters.setdefault(client, {})[cluster] = None
        return numbers

    def _take(self, stream: Stream) -> _Numbers:
        client, cluster = stream
        self._is_in_time(stream)
        clusters = self._clusters[client]
        del clusters[cluster]
        if not clusters:
            del self._clusters[client]
        return self._numbers.pop(stream)

    def _is_in_time(self, stream: Stream) -> None:
        """Its gate need not know more."""
        self._late.discard(stream)
        self._new.discard(stream)

    def _end(self, stream: Stream, now_us: int) -> None:
        """Remember a numbering, as long as gates wait for what it numbered."""
        numbers = self._ended[stream] = self._take(stream)
        numbers.since_us = now_us
        while now_us - next(iter(self._ended.values())).since_us > self._parameters.order_us:
            self._ended.popitem(last=False)

    def _may_end(self, numbers: _Numbers, now_us: int) -> bool:
        assert numbers.gate is not None
        return_us = self._parameters.return_us
        is_free = self._outputs.is_free(numbers.gate, return_us, now_us)
        return is_free and now_us - numbers.since_us >= return_us

    def end(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        """A publisher leaves."""
        for cluster in [*self._clusters.get(client, ())]:
            stream = client, cluster
            numbers = self._numbers[stream]
            if numbers.gate is not None:
                out.append(Send(numbers.gate, NumbersEnd(client, numbers.next)))
                self._end(stream, now_us)
            else:
                self._take(stream)

    def known(
        self,
        client: ClientId,
        number: int,
        shifts: Mapping[int, int],
        gates: Mapping[int, BrokerId],
    ) -> dict[int, int]:
        """Of what came back, the shifts of clusters whose gates know what it was numbered then."""
        return {
            cluster: shift
            for cluster, shift in shifts.items()
            if self._is_known((client, cluster), number + shift, gates.get(cluster))
        }

    def _is_known(self, stream: Stream, number: int, gate: BrokerId | None) -> bool:
        """Whether a number means anything to a cluster's gate; None: nobody is that now."""
        numbers = self._numbers.get(stream)
        if numbers is not None and number >= numbers.first:
            return True
        numbers = numbers or self._ended.get(stream)
        if numbers is None or numbers.gate is None or gate not in (None, numbers.gate):
            return False
        return number >= numbers.oldest

    def gate_of(self, stream: Stream) -> BrokerId | None:
        """To which gate numbers mean something, also those of a numbering that has ended."""
        numbers = self._numbers.get(stream) or self._ended.get(stream)
        return None if numbers is None else numbers.gate

    def is_doubtful(self, cluster: int, now_us: int) -> bool:
        """Whether what went to an earlier gate of a cluster may still be coming back."""
        return any(
            of == cluster and now_us < numbers.since_us
            for (_, of), numbers in self._numbers.items()
        )

    def forget(self, gate: BrokerId, now_us: int) -> None:
        """A gate is lost, or knows nothing any more.

        What it has not let in comes back, here and to those who carried: also if its numbering has
        ended, this must not overtake each other at the next gate, so that numbering goes on.
        """
        for stream in [each for each, ended in self._ended.items() if ended.gate == gate]:
            numbers = self._ended.pop(stream)
            if now_us - numbers.since_us <= self._parameters.order_us:
                self._put(stream, numbers)
        for numbers in self._numbers.values():
            if numbers.gate == gate:
                numbers.gate = None


def shifts_of(bits: int, shifts: Mapping[int, int]) -> Mapping[int, int]:
    """Of what is numbered, what is for these clusters."""
    return {each: shift for each, shift in shifts.items() if bits >> each & 1}
