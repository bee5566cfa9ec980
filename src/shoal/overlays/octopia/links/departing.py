"""Leave of a broker from its cluster's tree: one of its neighbours takes its place.

It begins when no host enters the cluster by the leaving broker any more, and the registrar permits
it. One neighbour, the *successor*, will lead to the others: the leaving
broker's parent or, for the tree's top, the first of its children. All other paths stay as they are.

| broker | event | action |
| --- | --- | --- |
| leaving broker | it may leave, and no broker depends on it | Freeze, to its tree neighbours |
| neighbour | Freeze | the successor opens the missing links |
| | those links are ready | keeps everything for the leaving broker; Frozen |
| leaving broker | all are frozen, nothing is kept here | Turn: behind all earlier publications |
| | turns | answers no host that would enter the cluster by it |
| neighbour | Turn | Turned, to the successor |
| successor | Turn, and all have turned | leads to the others; Go to them; Parted |
| neighbour | Go | links up to the successor; Parted |
| leaving broker | all have parted, nothing is kept here | ends its links |
| | its neighbours change, or one has restarted | begins a new round |
| | it is to stay, before it turns | Thaw, to the neighbours that it has frozen |
| neighbour | Thaw | sends the leaving broker the kept publications, and resumes |

So publications over the leaving broker have arrived everywhere before any goes past it. A broker
that misses a message because a link fails is repaired as if the leaving broker had died
(`attachments.py`). Publications returned as its links end are handed over to a staying broker
(`order/handing_over.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from shoal.broker.effects import Effect, EndLink, Left, OpenLink, Send
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.octopia.known.exchange import KnownExchange
from shoal.overlays.octopia.messages import Freeze, Frozen, Go, Parted, Thaw, Turned, TurnTables


class DepartureHost(Protocol):
    """Operations of a broker for leaving brokers, itself included."""

    exchange: KnownExchange

    @property
    def linked(self) -> Collection[BrokerId]: ...

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        """Its tree neighbours in its cluster, the future successor first."""

    @property
    def is_relinking(self) -> bool:
        """Whether it is about to change its parent, or holds input because of that."""

    @property
    def need(self) -> str:
        """The reason why it is needed: a host enters its cluster here, a client has subscriptions
        here, or publications wait; empty if it is not.
        """

    @property
    def has_waiting(self) -> bool:
        """Whether a publication waits here, for a path or in its sequence, or may be returned."""

    def can_reach(self, broker: BrokerId) -> bool:
        """Whether publications may be sent to a neighbour."""

    def freeze(self, leaving_broker: BrokerId, out: list[Effect]) -> None:
        """Send nothing more to a leaving broker; keep publications for it."""

    def thaw(self, leaving_broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Resume sending to a broker that stays, the kept publications first."""

    def turn(
        self,
        leaving_broker: BrokerId,
        successor: BrokerId,
        others: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The successor leads to the others from now on, in the place of the leaving broker."""

    def announce_left(self, now_us: int, out: list[Effect]) -> None:
        """Announce that this broker has left."""


class _DeparturePart:
    """A neighbour's part in one leave."""

    def __init__(self, freeze: Freeze) -> None:
        self.round = freeze.round
        self.successor = freeze.successor
        self.others = freeze.others
        self.is_frozen = self.has_turned = False
        self.turned: set[BrokerId] = set()


class Departing:
    """One broker's going, and its part when neighbours go."""

    def __init__(self, broker: BrokerId, host: DepartureHost) -> None:
        self._broker = broker
        self._host = host
        self.may_go = False
        self.is_ending = False
        self._round = 0
        self._neighbours: list[BrokerId] = []
        self._is_turning = False
        self._awaited: set[BrokerId] | None = None
        self._parts: dict[BrokerId, _DeparturePart] = {}
        # By broker that has left: the round, for answers to repeated requests.
        self._done: dict[BrokerId, int] = {}

    @property
    def problem(self) -> str:
        """The reason why this broker's leave waits, if it waits."""
        if self.is_ending:
            return f"its links to {', '.join(sorted(self._host.linked))} have yet to end"
        if not self._awaited:
            return self._host.need
        names = ", ".join(sorted(self._awaited))
        return f"{names} has yet to " + ("take its place" if self._is_turning else "open links")

    # --- the leaving broker -------------------------------------------------------------------

    def look(self, now_us: int, out: list[Effect]) -> None:
        """After any change: continue own and others' leaves."""
        for leaving_broker in list(self._parts):
            self._try_to_freeze(leaving_broker, out)
        if not self.may_go:
            return
        host = self._host
        if self._is_turning:
            self._miss([each for each in self._neighbours if each not in host.linked], out)
        if self.is_ending:
            if not host.linked:
                out.append(Left())
        elif self._is_turning:
            self._try_to_end(now_us, out)
        elif self._awaited is None or self._neighbours != host.tree_neighbours:
            if not host.need:
                self._begin(now_us, out)
        elif not self._awaited and not host.need:
            self._turn()
            self._awaited = set(self._neighbours)
            out += [Send(each, TurnTables(self._broker, self._round)) for each in self._neighbours]
            self._try_to_end(now_us, out)

    def stay(self, out: list[Effect]) -> None:
        """Cancel the leave.  ProtocolError once the neighbours take this broker's place."""
        if self._is_turning or self.is_ending:
            raise ProtocolError("its neighbours take its place")
        if self._awaited is not None:
            asked = [each for each in self._neighbours if each in self._host.linked]
            out += [Send(each, Thaw(self._broker, self._round)) for each in asked]
        self.may_go, self._awaited = False, None

    def _turn(self) -> None:
        """Others will do without this one: no path leads from here into the cluster then."""
        self._is_turning = True
        self._host.exchange.is_entered = False

    def _miss(self, lost: Collection[BrokerId], out: list[Effect]) -> None:
        """These are lost after the turn: the others wait for their messages."""
        assert self._awaited is not None
        if not self._awaited.isdisjoint(lost):
            self._awaited -= set(lost)
            if self._awaited:
                self._is_turning, self._awaited = False, None
                self._host.exchange.is_entered = True
                self._host.exchange.send_markers(out)

    def _begin(self, now_us: int, out: list[Effect]) -> None:
        self._round = max(self._round + 1, now_us)
        self._neighbours = self._host.tree_neighbours
        self._awaited = set(self._neighbours)
        if self._neighbours:
            successor, *others = self._neighbours
            freeze = Freeze(self._broker, self._round, successor, tuple(others))
            out += [Send(each, freeze) for each in self._neighbours]
        else:
            self._turn()
            self._try_to_end(now_us, out)

    def _try_to_end(self, now_us: int, out: list[Effect]) -> None:
        if self._awaited or self.is_ending or self._host.has_waiting:
            return
        self._host.announce_left(now_us, out)
        self.end_links(out)

    def end_links(self, out: list[Effect]) -> None:
        """This broker has left: end its links, which then ends its leave."""
        self.may_go = self.is_ending = True
        linked = sorted(self._host.linked)
        out += [EndLink(each) for each in linked] or [Left()]

    # --- messages -----------------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case Freeze(leaving_broker) if leaving_broker == neighbour:
                self._freeze(message, out)
            case Thaw(leaving_broker, round) if leaving_broker == neighbour:
                part = self._parts.get(leaving_broker)
                if part is not None and part.round == round:
                    del self._parts[leaving_broker]
                    self._host.thaw(leaving_broker, now_us, out)
            case Frozen(leaving_broker, round) | Parted(leaving_broker, round) if (
                leaving_broker == self._broker
            ):
                is_turning = isinstance(message, Parted)
                if round == self._round and self._awaited and is_turning == self._is_turning:
                    self._awaited.discard(neighbour)
                    self.look(now_us, out)
            case TurnTables(leaving_broker, round):
                part = self._parts.get(leaving_broker)
                if leaving_broker == neighbour and part is not None and part.round == round:
                    part.has_turned = True
                    self._send_turned(leaving_broker, part, now_us, out)
            case Turned(leaving_broker, round):
                if self._done.get(leaving_broker) == round:
                    out.append(Send(neighbour, Go(leaving_broker, round)))
                    return
                part = self._parts.get(leaving_broker)
                if part is not None and part.round == round:
                    part.turned.add(neighbour)
                    self._try_to_go(leaving_broker, part, now_us, out)
            case Go(leaving_broker, round):
                part = self._parts.get(leaving_broker)
                if part is not None and part.round == round and part.successor == neighbour:
                    self._go(leaving_broker, part, now_us, out)

    def linked(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link came up anew: messages over it may be lost."""
        if self.is_ending:
            out.append(EndLink(neighbour))
        elif self._awaited is not None and neighbour in self._neighbours:
            if self._is_turning:
                self._miss({neighbour}, out)
            else:
                self._awaited = None
        for leaving_broker, part in list(self._parts.items()):
            if neighbour == leaving_broker:
                del self._parts[leaving_broker]
            elif neighbour == part.successor and part.has_turned:
                self._send_turned(leaving_broker, part, now_us, out)

    def unlinked(self, neighbour: BrokerId) -> None:
        self._parts.pop(neighbour, None)

    # --- its neighbours -----------------------------------------------------------------------

    def _freeze(self, message: Freeze, out: list[Effect]) -> None:
        self._parts[message.leaving_broker] = part = _DeparturePart(message)
        if part.successor == self._broker:
            missing = [each for each in part.others if each not in self._host.linked]
            out += [OpenLink(each, is_lasting=True) for each in missing]
        self._try_to_freeze(message.leaving_broker, out)

    def _try_to_freeze(self, leaving_broker: BrokerId, out: list[Effect]) -> None:
        part = self._parts[leaving_broker]
        ends = part.others if part.successor == self._broker else [part.successor]
        if part.is_frozen or self._host.is_relinking:
            return
        if all(map(self._host.can_reach, ends)):
            part.is_frozen = True
            self._host.freeze(leaving_broker, out)
            out.append(Send(leaving_broker, Frozen(leaving_broker, part.round)))

    def _send_turned(
        self, leaving_broker: BrokerId, part: _DeparturePart, now_us: int, out: list[Effect]
    ) -> None:
        if part.successor == self._broker:
            self._try_to_go(leaving_broker, part, now_us, out)
        elif part.successor in self._host.linked:
            out.append(Send(part.successor, Turned(leaving_broker, part.round)))

    def _try_to_go(
        self, leaving_broker: BrokerId, part: _DeparturePart, now_us: int, out: list[Effect]
    ) -> None:
        if part.has_turned and part.turned.issuperset(part.others):
            self._go(leaving_broker, part, now_us, out)
            there = [each for each in part.others if each in self._host.linked]
            out += [Send(each, Go(leaving_broker, part.round)) for each in there]

    def _go(
        self, leaving_broker: BrokerId, part: _DeparturePart, now_us: int, out: list[Effect]
    ) -> None:
        del self._parts[leaving_broker]
        self._done[leaving_broker] = part.round
        self._host.turn(leaving_broker, part.successor, part.others, now_us, out)
        if leaving_broker in self._host.linked:
            out.append(Send(leaving_broker, Parted(leaving_broker, part.round)))
