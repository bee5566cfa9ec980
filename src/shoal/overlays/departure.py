"""How a broker leaves an overlay with cycles: its neighbours meet first, then its links end.

For systems that send everything new to all neighbours, and drop what comes twice.  One neighbour,
the *centre*, is linked to the others, by links that last.  What comes over a new link might be
faster than what is still under way over the old ones, so it is held back until these have ended:
a publisher's publications keep their order.  A system in which ways lead over who leaves says when
none does any more (`is_free`): links end then, and nothing is held back.

| who | hears | does |
| --- | --- | --- |
| who leaves, or is to stay | leave, or other neighbours come or go meanwhile | asks all to meet |
| | all have met | ends its links |
| | its links have ended | has left |
| | stay | takes the leave back, when all that were asked have met: Dismiss |
| a neighbour | Meet | the centre opens the links that are missing; Met, when they are up |
| | a link that was missing is up | holds back what comes over it |
| | the link to who leaves is gone, or Dismiss | goes on |
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from shoal.broker.effects import (
    Effect,
    EndLink,
    Hold,
    Left,
    LinkState,
    OpenLink,
    Release,
    Send,
)
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId


class DepartureMessage(Message, frozen=True):
    """`round` counts how often the leaver has asked."""

    round: int


class Meet(DepartureMessage, frozen=True):
    """From who leaves: be linked to the centre, which is linked to the others."""

    centre: BrokerId
    others: tuple[BrokerId, ...]


class Met(DepartureMessage, frozen=True):
    """To who leaves: these links are up, and all that was said before them is behind this."""


class Dismiss(DepartureMessage, frozen=True):
    """From who stays: nothing that was said to it is still under way, so go on."""


MESSAGES: Vocabulary = (Meet, Met, Dismiss)


class _Meeting:
    """What a neighbour does for one that leaves."""

    def __init__(self, round: int, missing: set[BrokerId]) -> None:
        self.round = round
        self.missing = missing
        self.new: set[BrokerId] = set()
        self.is_said = False


class Departure:
    """One broker's leaving, and its part when neighbours leave; `linked` are its neighbours now.

    `is_free` is asked once all have met, and says what must be said for it; see `look`.
    """

    def __init__(
        self,
        broker: BrokerId,
        linked: Collection[BrokerId],
        is_free: Callable[[list[Effect]], bool] | None = None,
    ) -> None:
        self._broker = broker
        self._linked = linked
        self._is_free = is_free
        self._is_leaving = self._is_ending = self._is_staying = False
        self._round = 0
        self._awaited: set[BrokerId] = set()
        self._meetings: dict[BrokerId, _Meeting] = {}

    def leave(self, out: list[Effect]) -> None:
        """`Left` says when it has."""
        if not self._is_leaving:
            self._is_leaving, self._is_staying = True, False
            self._ask(out)

    def stay(self, out: list[Effect]) -> None:
        """Take the leave back.  ProtocolError when the links end already."""
        if self._is_ending:
            raise ProtocolError("its links end: its neighbours do without it")
        if self._is_leaving:
            self._is_leaving, self._is_staying = False, True
            self._try_to_stay(out)

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that would be the centre."""
        return min(self._linked, default=None)

    def receive(self, neighbour: BrokerId, message: DepartureMessage, out: list[Effect]) -> None:
        if isinstance(message, Meet):
            self._meet(neighbour, message, out)
        elif isinstance(message, Dismiss):
            if self._meetings.pop(neighbour, None) is not None:
                self._hold(out)
        elif message.round == self._round and neighbour in self._awaited:
            self._awaited.discard(neighbour)
            self._go_on(out)

    def link(self, neighbour: BrokerId, state: LinkState, out: list[Effect]) -> None:
        """A link has changed, and `linked` with it."""
        if self._meetings.pop(neighbour, None) is not None:
            self._hold(out)
        for leaver, meeting in list(self._meetings.items()):
            if state is LinkState.UP and neighbour in meeting.missing:
                meeting.missing.discard(neighbour)
                meeting.new.add(neighbour)
                self._hold(out)
            self._try_to_say(leaver, meeting, out)
        if self._is_ending and state is not LinkState.UP:
            self._try_to_end(out)
        elif self._is_leaving or self._is_staying:
            self._ask(out)

    def look(self, out: list[Effect]) -> None:
        """Who leaves may be free now."""
        if self._is_leaving and not self._is_ending:
            self._try_to_end(out)

    # --- who leaves ---------------------------------------------------------------------------

    def _ask(self, out: list[Effect]) -> None:
        self._is_ending = False
        self._round += 1
        centre, *others = sorted(self._linked) or [""]
        self._awaited = set(self._linked) if others else set()
        meet = Meet(self._round, centre, tuple(others))
        out.extend(Send(each, meet) for each in sorted(self._awaited))
        self._go_on(out)

    def _go_on(self, out: list[Effect]) -> None:
        """Neighbours have met."""
        if self._is_staying:
            self._try_to_stay(out)
        else:
            self._try_to_end(out)

    def _try_to_end(self, out: list[Effect]) -> None:
        if self._awaited:
            return
        if not self._linked:
            out.append(Left())
        elif not self._is_ending and (self._is_free is None or self._is_free(out)):
            self._is_ending = True
            out.extend(EndLink(each) for each in sorted(self._linked))

    def _try_to_stay(self, out: list[Effect]) -> None:
        """A neighbour that goes on takes what came over a new link: nothing before it may come."""
        if not self._awaited:
            self._is_staying = False
            out.extend(Send(each, Dismiss(self._round)) for each in sorted(self._linked))

    # --- its neighbours -----------------------------------------------------------------------

    def _meet(self, leaver: BrokerId, message: Meet, out: list[Effect]) -> None:
        is_centre = message.centre == self._broker
        wanted = set(message.others) if is_centre else {message.centre}
        missing = {each for each in wanted if each not in self._linked}
        before = self._meetings.get(leaver)
        self._meetings[leaver] = meeting = _Meeting(message.round, missing)
        if before is not None:
            meeting.new |= before.new & set(self._linked)
        if is_centre:
            out.extend(OpenLink(each, is_lasting=True) for each in sorted(missing))
        self._try_to_say(leaver, meeting, out)

    def _try_to_say(self, leaver: BrokerId, meeting: _Meeting, out: list[Effect]) -> None:
        if not meeting.missing and not meeting.is_said:
            meeting.is_said = True
            out.append(Send(leaver, Met(meeting.round)))

    def _hold(self, out: list[Effect]) -> None:
        """Hold back what comes over links that are newer than those that shall end."""
        if self._is_free is not None:
            return
        new = {each for meeting in self._meetings.values() for each in meeting.new}
        others = tuple(sorted(each for each in self._linked if each not in new))
        out.append(Hold(others) if new else Release())
