"""Numbering: each publisher's order across diverted paths, restored at the entry of a cluster.

A publication may take another path to a cluster than the one before, and overtake it. All such
paths lie in the publisher's region, so they end at one broker: the cluster's broker there, its
*sequencer*. While a publisher's publications to a cluster are diverted they are *numbered* for it,
and the sequencer releases them by their numbers (`lines.py`). Publications wait only there, and no
longer than earlier ones are in transit; behind the sequencer links keep order.

The host announces the begin and end of numbering over its own link to the sequencer, which is the
only path of unnumbered publications, so that these are before or behind the numbered ones.

| at the host, to a cluster | action |
| --- | --- |
| a publication, its shortest path is free | takes that path, unnumbered |
| it is to be carried by another | numbering begins; it is numbered |
| numbered, the shortest path has long been free | numbering ends; it takes that path |
| numbered, the cluster has another entry | the new sequencer learns that it lacks the numbers |
| earlier numbered ones are back, and sent there | the sequencer learns that (`clearing.py`) |
| its sequencer is back | the same, before anything is sent to it again |
| a numbered one is returned, same sequencer | it keeps its number, ended or not |
| its sequencer is lost, or was soon after the end | numbering continues, with new numbers |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.messages import NumbersBegin, NumbersEnd, NumbersOpen
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.ways.outputs import OutputLoads

# A publisher, and a cluster.
Stream = tuple[ClientId, int]


class _Numbers:
    """`began` is the number at its host of the publication that got the `first` one.

    `oldest` is the first number, maybe of an earlier numbering, that the sequencer has known since.
    """

    __slots__ = ("began", "first", "is_promised", "next", "oldest", "sequencer", "since_us")

    def __init__(self, sequencer: BrokerId, began: int, now_us: int) -> None:
        self.sequencer: BrokerId | None = sequencer
        self.began = began
        self.first = self.next = self.oldest = self.since_us = now_us
        # Whether the sequencer, which lacks the numbers, waits for NumbersOpen.
        self.is_promised = False


class Numbering:
    """The numbering of one host's publishers, by cluster.

    Numbers begin with the time, in µs, so that those of an earlier numbering are lower.
    """

    def __init__(self, outputs: OutputLoads, parameters: OctopiaParameters) -> None:
        self._outputs = outputs
        self._parameters = parameters
        self._numbers: dict[Stream, _Numbers] = {}
        self._clusters: dict[ClientId, dict[int, None]] = {}
        # Numberings that have ended `since_us`, in this order: their publications may be returned.
        self._ended: OrderedDict[Stream, _Numbers] = OrderedDict()
        # Streams with sequencers that lack the numbers.
        self._late: set[Stream] = set()
        # Those of them whose sequencers have learnt that since all were last looked at.
        self._new: set[Stream] = set()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def is_late(self) -> bool:
        """Whether any sequencer lacks the numbers."""
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

        `entries` and `copies` are as in `ways.copies`; `shifts` are existing numbers. Returns, by
        cluster, the offset to the number that a publication has at its host.
        """
        carried = 0
        for bits in copies.values():
            carried |= bits
        if not carried and not self._numbers:
            return shifts
        _, client, first = publications[0].message_id
        found = dict(shifts)
        for cluster, sequencer in entries.items():
            stream, is_carried = (client, cluster), carried >> cluster & 1
            numbers = self._numbers.get(stream)
            if numbers is None:
                if not is_carried or cluster in shifts:
                    continue
                numbers = self._begin_numbering(stream, sequencer, first, now_us)
                out.append(Send(sequencer, NumbersBegin(client, numbers.next)))
            elif numbers.sequencer != sequencer:
                self._move_to(sequencer, stream, numbers, now_us, out)
            elif not is_carried and cluster not in shifts and self._may_end(numbers, now_us):
                out.append(Send(sequencer, NumbersEnd(client, numbers.next)))
                self._end_numbering(stream, now_us)
                continue
            if cluster in shifts:
                continue
            if first < numbers.began:
                # It precedes the numbers, and was returned by a lost sequencer.
                found[cluster] = numbers.first - numbers.began
            else:
                found[cluster] = numbers.next - first
                numbers.next += len(publications)
        return found

    def met(self, sequencer: BrokerId, cluster: int, now_us: int, out: list[Effect]) -> None:
        """A cluster's sequencer is linked: unsettled publications of its earlier incarnation come
        first.

        Some of them have numbers, some were sent before numbers began, or after they ended.
        """
        for stream, numbers in self._numbers.items():
            if stream[1] == cluster and numbers.sequencer is None:
                self._move_to(sequencer, stream, numbers, now_us, out)

    def _move_to(
        self, sequencer: BrokerId, stream: Stream, numbers: _Numbers, now_us: int, out: list[Effect]
    ) -> None:
        """Inform the new sequencer that it lacks the numbers."""
        self._late.add(stream)
        self._new.add(stream)
        numbers.is_promised = False
        numbers.sequencer, numbers.oldest = sequencer, numbers.first
        numbers.since_us = now_us + self._parameters.doubt_us
        out.append(Send(sequencer, NumbersBegin(stream[0], None)))

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
        """Inform sequencers that nothing earlier comes any more, or that this will follow.

        Requires that no publication of a publisher to the cluster `waits` here. `is_changed`: one
        of these answers may have changed since the last call; otherwise only new streams are looked
        at.
        """
        streams, self._new = sorted(self._late if is_changed else self._new), set()
        for stream in streams:
            numbers, (client, cluster) = self._numbers[stream], stream
            if numbers.sequencer is None:
                continue
            if is_cleared(cluster):
                if not waits(client, cluster):
                    self._is_in_time(stream)
                    numbers.since_us = now_us
                    out.append(Send(numbers.sequencer, NumbersOpen(client, numbers.next)))
            elif will_be_cleared(cluster):
                if not numbers.is_promised:
                    numbers.is_promised = True
                    numbers.since_us = now_us + self._parameters.order_us
                    out.append(Send(numbers.sequencer, NumbersOpen(client, None)))
            elif numbers.is_promised:
                self._move_to(numbers.sequencer, stream, numbers, now_us, out)

    def _begin_numbering(
        self, stream: Stream, sequencer: BrokerId, first: int, now_us: int
    ) -> _Numbers:
        numbers = self._put(stream, _Numbers(sequencer, first, now_us))
        before = self._ended.pop(stream, None)
        if before is not None and before.sequencer == sequencer:
            numbers.oldest = before.oldest
        return numbers

    def _put(self, stream: Stream, numbers: _Numbers) -> _Numbers:
        client, cluster = stream
        self._numbers[stream] = numbers
        self._clusters.setdefault(client, {})[cluster] = None
        return numbers

    def _take_numbers(self, stream: Stream) -> _Numbers:
        client, cluster = stream
        self._is_in_time(stream)
        clusters = self._clusters[client]
        del clusters[cluster]
        if not clusters:
            del self._clusters[client]
        return self._numbers.pop(stream)

    def _is_in_time(self, stream: Stream) -> None:
        """Its sequencer has the numbers."""
        self._late.discard(stream)
        self._new.discard(stream)

    def _end_numbering(self, stream: Stream, now_us: int) -> None:
        """Keep an ended numbering while sequencers wait for its publications."""
        numbers = self._ended[stream] = self._take_numbers(stream)
        numbers.since_us = now_us
        while now_us - next(iter(self._ended.values())).since_us > self._parameters.order_us:
            self._ended.popitem(last=False)

    def _may_end(self, numbers: _Numbers, now_us: int) -> bool:
        assert numbers.sequencer is not None
        return_us = self._parameters.return_us
        is_free = self._outputs.is_free(numbers.sequencer, return_us, now_us)
        return is_free and now_us - numbers.since_us >= return_us

    def end(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        """A publisher leaves."""
        for cluster in [*self._clusters.get(client, ())]:
            stream = client, cluster
            numbers = self._numbers[stream]
            if numbers.sequencer is not None:
                out.append(Send(numbers.sequencer, NumbersEnd(client, numbers.next)))
                self._end_numbering(stream, now_us)
            else:
                self._take_numbers(stream)

    def known(
        self,
        client: ClientId,
        number: int,
        shifts: Mapping[int, int],
        sequencers: Mapping[int, BrokerId],
    ) -> dict[int, int]:
        """Of a returned publication, the shifts of clusters whose sequencers know its number."""
        return {
            cluster: shift
            for cluster, shift in shifts.items()
            if self._is_known((client, cluster), number + shift, sequencers.get(cluster))
        }

    def _is_known(self, stream: Stream, number: int, sequencer: BrokerId | None) -> bool:
        """Whether a number is known to a cluster's sequencer; None: there is none now."""
        numbers = self._numbers.get(stream)
        if numbers is not None and number >= numbers.first:
            return True
        numbers = numbers or self._ended.get(stream)
        if (
            numbers is None
            or numbers.sequencer is None
            or sequencer not in (None, numbers.sequencer)
        ):
            return False
        return number >= numbers.oldest

    def sequencer_of(self, stream: Stream) -> BrokerId | None:
        """The sequencer that knows the numbers, also those of an ended numbering."""
        numbers = self._numbers.get(stream) or self._ended.get(stream)
        return None if numbers is None else numbers.sequencer

    def is_doubtful(self, cluster: int, now_us: int) -> bool:
        """Whether publications to an earlier sequencer of a cluster may still be returned."""
        return any(
            of == cluster and now_us < numbers.since_us
            for (_, of), numbers in self._numbers.items()
        )

    def forget(self, sequencer: BrokerId, now_us: int) -> None:
        """A sequencer is lost, or has restarted.

        Publications that it has not released are returned, here and to carriers. Even if their
        numbering has ended, they must not overtake each other at the next sequencer, so numbering
        continues.
        """
        for stream in [each for each, ended in self._ended.items() if ended.sequencer == sequencer]:
            numbers = self._ended.pop(stream)
            if now_us - numbers.since_us <= self._parameters.order_us:
                self._put(stream, numbers)
        for numbers in self._numbers.values():
            if numbers.sequencer == sequencer:
                numbers.sequencer = None


def shifts_of(bits: int, shifts: Mapping[int, int]) -> Mapping[int, int]:
    """The shifts that are for these clusters."""
    return {each: shift for each, shift in shifts.items() if bits >> each & 1}
