"""Which way a publisher's publications go to each cluster, so that none overtakes another.

A way is kept for a publisher and a cluster: the neighbour that its publications to that cluster are
sent to, which is the cluster's entry or who carries its bit.  It changes when it is congested, or
when it is a detour and the shortest has long been free; and only when what went before has arrived.
So a *probe* is sent behind that, along every way that it may have taken, and `ProbePassed` comes
back when it has been everywhere.  Meanwhile what the publisher sends to that cluster is kept.

The wait costs little: what is kept would have waited in the same queues, behind the same messages.
Where a link breaks, what was in it comes back and goes another way, and the probe behind it.

| input | does |
| --- | --- |
| a publication, its way as it should be | goes |
| its way is congested, or free again | a probe goes along it; kept |
| its way is being probed | kept |
| the probe has passed | the way changes; what was kept goes |
| a neighbour is lost | ways over it are forgotten, probes that were there follow what came back |
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

    __slots__ = ("answers_to", "awaited", "lost", "part_of", "publisher", "streams")

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
        # To whom it went that is lost, and as before with what; it follows what came back.
        self.lost: dict[BrokerId, tuple[int, bool]] = {}
        # The round that goes on when this one, which followed for it, has passed.
        self.part_of: _Round | None = None

    @property
    def has_passed(self) -> bool:
        return not (self.awaited or self.lost)


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
        return round.has_passed and self._end(name, round, out)

    def begun_anew(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A neighbour knows nothing of earlier; what is unsettled there is sent again first."""
        for name, round in list(self._rounds.items()):
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                self._send(name, round, [neighbour], out)

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A neighbour is gone: what was there comes back here, and a probe for others behind it."""
        self._ways = {stream: way for stream, way in self._ways.items() if way != neighbour}
        for name, round in list(self._rounds.items()):
            for stream, way in round.streams.items():
                if way == neighbour:
                    round.streams[stream] = None
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                sent = round.awaited.pop(neighbour)
                if round.answers_to is not None or round.part_of is not None:
                    round.lost[neighbour] = sent
                elif round.has_passed:
                    self._end(name, round, out)

    @property
    def followers(self) -> list[tuple[ProbeName, ClientId, Mapping[BrokerId, tuple[int, bool]]]]:
        """Others' probes that follow what came back from lost neighbours: whose, and what of it."""
        rounds = self._rounds.items()
        return [(name, round.publisher, round.lost) for name, round in rounds if round.lost]

    def follow(
        self, name: ProbeName, along: Mapping[BrokerId, tuple[int, bool]], out: list[Effect]
    ) -> bool:
        """A probe follows along these, by a name of its own; whether ways have changed here."""
        round = self._rounds[name]
        round.lost = {}
        if along:
            self._number += 1
            own = (self._broker, self._number)
            part = self._rounds[own] = _Round(round.publisher, along, None)
            part.part_of = round
            round.awaited[_name_of(own)] = (0, False)
            self._send(own, part, along, out)
        return round.has_passed and self._end(name, round, out)

    def _end(self, name: ProbeName, round: _Round, out: list[Effect]) -> bool:
        self._rounds.pop(name, None)
        if round.part_of is not None:
            whole = round.part_of
            whole.awaited.pop(_name_of(name), None)
            names = [each for each, known in self._rounds.items() if known is whole]
            return any(whole.has_passed and self._end(each, whole, out) for each in names)
        if round.answers_to is not None:
            out.append(Send(round.answers_to, ProbePassed(*name)))
        for stream, way in round.streams.items():
            del self._probed[stream]
            self._ways.pop(stream, None)
            if way is not None:
                self._ways[stream] = way
        return bool(round.streams)


def _name_of(probe: ProbeName) -> BrokerId:
    """What a part of a round is awaited as: no broker is called so."""
    return f"{probe[0]}/{probe[1]}"


def carried(clusters: Iterable[int], copies: Mapping[BrokerId, int]) -> dict[int, BrokerId | None]:
    """Who carries each cluster's bit in a decision; None: it is entered."""
    found: dict[int, BrokerId | None] = dict.fromkeys(clusters)
    for neighbour, bits in copies.items():
        found |= dict.fromkeys(clusters_of(bits), neighbour)
    return found
