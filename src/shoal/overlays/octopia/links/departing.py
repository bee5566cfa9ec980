"""How a broker goes from its cluster's tree: one of its neighbours there takes its place.

It begins when nobody enters the cluster by it any more, and the registrar lets it.  One neighbour,
the *centre*, will lead to the others: the one that the leaver links up to or, of the tree's top,
the first of those below it.  For everybody else ways stay as they are.

| who | hears | does |
| --- | --- | --- |
| who goes | it may go, and nobody depends on it | Freeze, to its neighbours in the tree |
| a neighbour | Freeze | the centre opens the links that are missing |
| | those links are ready | sends the leaver nothing more, keeps what would go there; Frozen |
| who goes | all are frozen, nothing is kept here | Turn: all that came is on its way before this |
| | turns | answers no host that would enter the cluster by it |
| a neighbour | Turn | Turned, to the centre |
| the centre | Turn, and all have turned | leads to the others; Go to them; Parted |
| a neighbour | Go | links up to the centre; Parted |
| who goes | all have parted, nothing is kept here | ends its links |
| | its neighbours change meanwhile, or one has forgotten | begins anew |
| | it is to stay, before it turns | Thaw, to those that it asked to freeze |
| a neighbour | Thaw | sends the leaver what it has kept, and all that follows |

So what went over the leaver has arrived everywhere before anything goes past it, and who misses a
word because a link fails is repaired as if the leaver had died (`attachments.py`).  What comes back
as its links end is handed over to one that stays (`order/handing_over.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from shoal.broker.effects import Effect, EndLink, Left, OpenLink, Send
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.octopia.known.exchange import Exchange
from shoal.overlays.octopia.messages import Freeze, Frozen, Go, Parted, Thaw, Turn, Turned


class House(Protocol):
    """What a broker knows and does for those that go, itself included."""

    exchange: Exchange

    @property
    def linked(self) -> Collection[BrokerId]: ...

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        """Those it leads to in its cluster, the one that will be the centre first."""

    @property
    def is_relinking(self) -> bool:
        """Whether it is about to link up to another broker, or what came of that waits here."""

    @property
    def is_needed(self) -> bool:
        """Whether somebody enters its cluster here, has subscriptions here, or anything waits."""

    @property
    def has_waiting(self) -> bool:
        """Whether any publication waits here, for a way or for its turn, or may be coming back."""

    def can_reach(self, broker: BrokerId) -> bool:
        """Whether publications may be sent to a neighbour."""

    def freeze(self, leaver: BrokerId, out: list[Effect]) -> None:
        """Send nothing more to a broker that goes; keep what would go there."""

    def thaw(self, leaver: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Send to a broker that stays, what was kept first."""

    def turn(
        self,
        leaver: BrokerId,
        centre: BrokerId,
        others: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The centre leads to the others now, in the place of a broker that goes."""

    def say_left(self, now_us: int, out: list[Effect]) -> None:
        """Tell everybody that this broker has left."""


class _Part:
    """What a neighbour does for one that goes."""

    def __init__(self, freeze: Freeze) -> None:
        self.round = freeze.round
        self.centre = freeze.centre
        self.others = freeze.others
        self.is_frozen = self.has_turned = False
        self.turned: set[BrokerId] = set()


class Departing:
    """One broker's going, and its part when neighbours go."""

    def __init__(self, broker: BrokerId, house: House) -> None:
        self._broker = broker
        self._house = house
        self.may_go = False
        self.is_ending = False
        self._round = 0
        self._neighbours: list[BrokerId] = []
        self._is_turning = False
        self._awaited: set[BrokerId] | None = None
        self._parts: dict[BrokerId, _Part] = {}
        # By who has gone, in which round, so that who asks again is answered.
        self._done: dict[BrokerId, int] = {}

    # --- who goes -----------------------------------------------------------------------------

    def look(self, now_us: int, out: list[Effect]) -> None:
        """After any change: go on, here and for others."""
        for leaver in list(self._parts):
            self._try_to_freeze(leaver, out)
        if not self.may_go:
            return
        house = self._house
        if self._is_turning:
            self._miss([each for each in self._neighbours if each not in house.linked], out)
        if self.is_ending:
            if not house.linked:
                out.append(Left())
        elif self._is_turning:
            self._try_to_end(now_us, out)
        elif self._awaited is None or self._neighbours != house.tree_neighbours:
            if not house.is_needed:
                self._begin(now_us, out)
        elif not self._awaited and not house.is_needed:
            self._turn()
            self._awaited = set(self._neighbours)
            out += [Send(each, Turn(self._broker, self._round)) for each in self._neighbours]
            self._try_to_end(now_us, out)

    def stay(self, out: list[Effect]) -> None:
        """Take the leave back.  ProtocolError when the neighbours take this broker's place."""
        if self._is_turning or self.is_ending:
            raise ProtocolError("its neighbours take its place")
        if self._awaited is not None:
            asked = [each for each in self._neighbours if each in self._house.linked]
            out += [Send(each, Thaw(self._broker, self._round)) for each in asked]
        self.may_go, self._awaited = False, None

    def _turn(self) -> None:
        """Others will do without this one: no way leads from here into the cluster then."""
        self._is_turning = True
        self._house.exchange.is_entered = False

    def _miss(self, lost: Collection[BrokerId], out: list[Effect]) -> None:
        """These are lost as all turn: the others wait for what they were to say."""
        assert self._awaited is not None
        if not self._awaited.isdisjoint(lost):
            self._awaited -= set(lost)
            if self._awaited:
                self._is_turning, self._awaited = False, None
                self._house.exchange.is_entered = True
                self._house.exchange.say(out)

    def _begin(self, now_us: int, out: list[Effect]) -> None:
        self._round = max(self._round + 1, now_us)
        self._neighbours = self._house.tree_neighbours
        self._awaited = set(self._neighbours)
        if self._neighbours:
            centre, *others = self._neighbours
            freeze = Freeze(self._broker, self._round, centre, tuple(others))
            out += [Send(each, freeze) for each in self._neighbours]
        else:
            self._turn()
            self._try_to_end(now_us, out)

    def _try_to_end(self, now_us: int, out: list[Effect]) -> None:
        if self._awaited or self.is_ending or self._house.has_waiting:
            return
        self.is_ending = True
        self._house.say_left(now_us, out)
        linked = sorted(self._house.linked)
        out += [EndLink(each) for each in linked] or [Left()]

    # --- messages -----------------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case Freeze(leaver) if leaver == neighbour:
                self._freeze(message, out)
            case Thaw(leaver, round) if leaver == neighbour:
                part = self._parts.get(leaver)
                if part is not None and part.round == round:
                    del self._parts[leaver]
                    self._house.thaw(leaver, now_us, out)
            case Frozen(leaver, round) | Parted(leaver, round) if leaver == self._broker:
                is_turning = isinstance(message, Parted)
                if round == self._round and self._awaited and is_turning == self._is_turning:
                    self._awaited.discard(neighbour)
                    self.look(now_us, out)
            case Turn(leaver, round):
                part = self._parts.get(leaver)
                if leaver == neighbour and part is not None and part.round == round:
                    part.has_turned = True
                    self._say_turned(leaver, part, now_us, out)
            case Turned(leaver, round):
                if self._done.get(leaver) == round:
                    out.append(Send(neighbour, Go(leaver, round)))
                    return
                part = self._parts.get(leaver)
                if part is not None and part.round == round:
                    part.turned.add(neighbour)
                    self._try_to_go(leaver, part, now_us, out)
            case Go(leaver, round):
                part = self._parts.get(leaver)
                if part is not None and part.round == round and part.centre == neighbour:
                    self._go(leaver, part, now_us, out)

    def linked(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link came up anew: what was said over it may be lost."""
        if self.is_ending:
            out.append(EndLink(neighbour))
        elif self._awaited is not None and neighbour in self._neighbours:
            if self._is_turning:
                self._miss({neighbour}, out)
            else:
                self._awaited = None
        for leaver, part in list(self._parts.items()):
            if neighbour == leaver:
                del self._parts[leaver]
            elif neighbour == part.centre and part.has_turned:
                self._say_turned(leaver, part, now_us, out)

    def unlinked(self, neighbour: BrokerId) -> None:
        self._parts.pop(neighbour, None)

    # --- its neighbours -----------------------------------------------------------------------

    def _freeze(self, message: Freeze, out: list[Effect]) -> None:
        self._parts[message.leaver] = part = _Part(message)
        if part.centre == self._broker:
            missing = [each for each in part.others if each not in self._house.linked]
            out += [OpenLink(each, is_lasting=True) for each in missing]
        self._try_to_freeze(message.leaver, out)

    def _try_to_freeze(self, leaver: BrokerId, out: list[Effect]) -> None:
        part = self._parts[leaver]
        ends = part.others if part.centre == self._broker else [part.centre]
        if part.is_frozen or self._house.is_relinking:
            return
        if all(map(self._house.can_reach, ends)):
            part.is_frozen = True
            self._house.freeze(leaver, out)
            out.append(Send(leaver, Frozen(leaver, part.round)))

    def _say_turned(self, leaver: BrokerId, part: _Part, now_us: int, out: list[Effect]) -> None:
        if part.centre == self._broker:
            self._try_to_go(leaver, part, now_us, out)
        elif part.centre in self._house.linked:
            out.append(Send(part.centre, Turned(leaver, part.round)))

    def _try_to_go(self, leaver: BrokerId, part: _Part, now_us: int, out: list[Effect]) -> None:
        if part.has_turned and part.turned.issuperset(part.others):
            self._go(leaver, part, now_us, out)
            there = [each for each in part.others if each in self._house.linked]
            out += [Send(each, Go(leaver, part.round)) for each in there]

    def _go(self, leaver: BrokerId, part: _Part, now_us: int, out: list[Effect]) -> None:
        del self._parts[leaver]
        self._done[leaver] = part.round
        self._house.turn(leaver, part.centre, part.others, now_us, out)
        if leaver in self._house.linked:
            out.append(Send(leaver, Parted(leaver, part.round)))
