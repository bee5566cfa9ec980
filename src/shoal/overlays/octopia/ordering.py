"""Which way a publisher's publications go to each cluster, so that none overtakes another.

A way is kept for a publisher and a cluster: the neighbour that its publications to that cluster are
sent to, which is the cluster's entry or who carries its bit.  It changes when it is congested, or
when it is a detour and the shortest has long been free; and only when what went before has arrived.
So a *probe* is sent behind that, along every way that it may have taken, and `ProbePassed` comes
back when it has been everywhere.  Meanwhile what the publisher sends to that cluster is kept.

The wait costs little: what is kept would have waited in the same queues, behind the same messages.
A link that breaks settles it: what was in it comes back before anything new is sent.

| input | does |
| --- | --- |
| a publication, its way as it should be | goes |
| its way is congested, or free again | a probe goes along it; kept |
| its way is being probed | kept |
| the probe has passed | the way changes; what was kept goes |
| a neighbour is lost | ways over it are forgotten, its part of a probe has passed |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.messages import Probe, ProbePassed
from shoal.overlays.octopia.ways import clusters_of

# (whose probe, its number)
ProbeName = tuple[BrokerId, int]
Stream = tuple[ClientId, int]


class _Round:
    """A probe that went on from here: to whom, and who is told when it has passed there."""

    __slots__ = ("answers_to", "awaited", "publisher", "streams")

    def __init__(
        self,
        publisher: ClientId,
        along: Mapping[BrokerId, tuple[int, bool]],
        answers_to: BrokerId | None,
    ) -> None:
        self.publisher = publisher
        self.awaited = dict(along)
        self.answers_to = answers_to
        self.streams: dict[Stream, BrokerId | None] = {}


class Ordering:
    """The ways at one broker, `MAX` publishers' detours at most are remembered."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._number = 0
        # Only detours: without a way a stream goes by the cluster's entry.
        self._ways: dict[Stream, BrokerId] = {}
        self._probed: dict[Stream, ProbeName] = {}
        self._rounds: dict[ProbeName, _Round] = {}

    @property
    def detours(self) -> int:
        """How many publishers' ways are not the shortest."""
        return len(self._ways)

    def is_probed(self, client: ClientId, cluster: int) -> bool:
        """Whether nothing may be sent this way now."""
        return (client, cluster) in self._probed

    def way(self, client: ClientId, cluster: int) -> BrokerId | None:
        """Who carries the cluster's bit for this publisher; None: its entry is used."""
        return self._ways.get((client, cluster))

    def forget(self, client: ClientId, cluster: int) -> None:
        """The cluster's entry is used from now on."""
        self._ways.pop((client, cluster), None)

    def change(
        self,
        client: ClientId,
        ways: Mapping[int, BrokerId | None],
        along: Mapping[BrokerId, tuple[int, bool]],
        out: list[Effect],
    ) -> None:
        """Let these be a publisher's ways once a probe has passed `along` those it has.

        Along each neighbour with the bits that it carries, and whether its own cluster is meant.
        """
        self._number += 1
        name = (self._broker, self._number)
        round = _Round(client, along, None)
        for cluster, way in ways.items():
            round.streams[client, cluster] = way
            self._probed[client, cluster] = name
        self._rounds[name] = round
        self._send(name, round, along, out)

    def sweep(self, neighbour: BrokerId, out: list[Effect]) -> ProbeName:
        """Find out when all publications have arrived that were sent into a neighbour's cluster."""
        self._number += 1
        name = (self._broker, self._number)
        along = {neighbour: (0, True)}
        self._rounds[name] = round = _Round("", along, None)
        self._send(name, round, along, out)
        return name

    def is_under_way(self, name: ProbeName) -> bool:
        """Whether a probe has not passed yet."""
        return name in self._rounds

    def detours_over(self, neighbour: BrokerId) -> list[Stream]:
        """The publishers, and to which clusters, whose ways begin at a neighbour, or will."""
        found = [stream for stream, way in self._ways.items() if way == neighbour]
        coming = [stream for each in self._rounds.values() for stream in each.streams.items()]
        return found + [stream for stream, way in coming if way == neighbour]

    def pass_on(
        self,
        probe: Probe,
        neighbour: BrokerId,
        along: Mapping[BrokerId, tuple[int, bool]],
        out: list[Effect],
    ) -> None:
        """A neighbour's probe goes on along these, or has passed if there are none."""
        name = (probe.broker, probe.number)
        if not along or name in self._rounds:
            out.append(Send(neighbour, ProbePassed(*name)))
            return
        round = self._rounds[name] = _Round(probe.publisher, along, neighbour)
        self._send(name, round, along, out)

    def _send(
        self,
        name: ProbeName,
        round: _Round,
        along: Iterable[BrokerId],
        out: list[Effect],
    ) -> None:
        for neighbour in along:
            owed, spreads = round.awaited[neighbour]
            out.append(Send(neighbour, Probe(*name, round.publisher, owed, spreads)))

    def passed(self, neighbour: BrokerId, message: ProbePassed, out: list[Effect]) -> bool:
        """A probe has passed at a neighbour; whether ways have changed here."""
        name = (message.broker, message.number)
        round = self._rounds.get(name)
        if round is None:
            return False
        round.awaited.pop(neighbour, None)
        return not round.awaited and self._end(name, round, out)

    def begun_anew(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A neighbour knows nothing of earlier; what is unsettled there is sent again first."""
        for name, round in list(self._rounds.items()):
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                self._send(name, round, [neighbour], out)

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> bool:
        """A neighbour is gone; whether ways have changed here."""
        self._ways = {stream: way for stream, way in self._ways.items() if way != neighbour}
        has_changed = False
        for name, round in list(self._rounds.items()):
            for stream, way in round.streams.items():
                if way == neighbour:
                    round.streams[stream] = None
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                del round.awaited[neighbour]
                has_changed |= not round.awaited and self._end(name, round, out)
        return has_changed

    def _end(self, name: ProbeName, round: _Round, out: list[Effect]) -> bool:
        del self._rounds[name]
        if round.answers_to is not None:
            out.append(Send(round.answers_to, ProbePassed(*name)))
        for stream, way in round.streams.items():
            del self._probed[stream]
            self._ways.pop(stream, None)
            if way is not None:
                self._ways[stream] = way
        return bool(round.streams)


def carried(clusters: Iterable[int], copies: Mapping[BrokerId, int]) -> dict[int, BrokerId | None]:
    """Who carries each cluster's bit in a decision; None: it is entered."""
    found: dict[int, BrokerId | None] = dict.fromkeys(clusters)
    for neighbour, bits in copies.items():
        found |= dict.fromkeys(clusters_of(bits), neighbour)
    return found
