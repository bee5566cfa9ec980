"""An exchange of two links without losing, doubling or reordering anything: the quiet ring.

A new link closes a cycle, and another link of it goes.  Only the brokers of the cycle turn tables,
when nothing is under way between them.  The *first* broker and the *last* are the new link's ends.
The last begins; the first decides, as it is the last to agree.

    last -> first   Halt      each takes in only what comes over the cycle, and says it on
    first -> last   Halted    behind all that goes up; beyond the link that goes each agrees
    last -> first   Drained   behind all that goes down; on this side each agrees
    first -> all    Verdict   both ways, up to the link that goes: each turns its tables, goes on

`Halted` and `Drained` bring what a broker's tables must know to turn (`tree/turning.py`), from the
link that goes on.  A broker that has agreed can still be turned either way.  With one message for
each link of the path by which the exchange was decided on, that is five for each.

**Why nothing is lost, doubled or reordered.**  What was taken in before is handled by the old
tables, and no `Drained` overtakes it; what is held back is handled by the new ones, behind the
`Verdict` on every link.  The link that goes is empty then.  Held back means not handled, so who
sent it still has it, and all the brokers beside the cycle see is that this takes a moment.

**When something fails.**  Who has not agreed gives up by itself, and tells all; who has must
be told (`broken_cycle.py`).  What is done when, `steps.py` has as a table.
"""

from __future__ import annotations

import msgspec

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.quiet_ring.ring import Ring
from shoal.overlays.self_organising.quiet_ring.ring_messages import (
    Doubt,
    Drained,
    Forgotten,
    Halt,
    Halted,
    Verdict,
)
from shoal.overlays.self_organising.quiet_ring.states import Event, State
from shoal.overlays.self_organising.quiet_ring.steps import Steps

OVERTAKEN = "its links have changed since"


class QuietRing(Steps):
    """One broker's part in exchanges, one at a time."""

    @property
    def is_quiet(self) -> bool:
        """Whether the broker must change nothing by itself now."""
        return self.state in (State.QUIET, State.AGREED)

    @property
    def busy(self) -> str:
        """Why it can take part in no exchange now."""
        return "" if self._ring is None else f"{self._broker} exchanges links already"

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether the link to this broker is the new one of an exchange that is going on here."""
        ring = self._ring
        return ring is not None and ring.opens_link and neighbour == ring.opposite

    # --- what comes ---------------------------------------------------------------------------

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """The exchange is decided on; this broker is the last, and nothing is in the way."""
        self._key = (self._broker, max(now_us, self._key[1] + 1))
        self._step(Event.TOLD, None, Ring(self._broker, exchange), now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> bool:
        """A message of the cycle; whether it was one.  ProtocolError when it makes no sense."""
        match message:
            case Halt(key, exchange):
                self._halt(neighbour, message, Ring(self._broker, exchange), now_us, out)
            case Halted(key, _) | Drained(key, _):
                if key != self._key or not self.is_quiet:
                    self.verdicts.tell(neighbour, key, out)  # it was given up here, or is forgotten
                    return True
                ring = self._checked(neighbour)
                if neighbour != (ring.down if type(message) is Halted else ring.up):
                    raise ProtocolError(f"{neighbour} is on the other side of {self._broker}")
                agrees = ring.is_beyond == (type(message) is Halted)
                event = Event.AGREE if agrees else Event.PASS
                self._step(event, neighbour, message, now_us, out)
            case Verdict():
                self.judge(neighbour, message, now_us, out)
            case Doubt(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(Event.DOUBT, neighbour, message, now_us, out)
                else:
                    self.verdicts.answer(neighbour, key, out)
            case Forgotten(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(Event.FORGOTTEN, neighbour, message, now_us, out)
            case _:
                return False
        return True

    def judge(self, neighbour: BrokerId, verdict: Verdict, now_us: int, out: list[Effect]) -> None:
        """Somebody knows what became of an exchange."""
        if verdict.key == self._key and self._ring is not None:
            self._checked(neighbour)
            event = Event.DONE if verdict.is_done else Event.KEPT
            self._step(event, neighbour, verdict, now_us, out)
            return
        ring, known = Ring(self._broker, verdict.exchange), self.verdicts.known.get(verdict.key)
        if verdict.is_void:
            self._undo(neighbour, ring, verdict, now_us, out)
        elif verdict.is_done and known is not None and known.is_void:
            self.verdicts.say([neighbour], known, out)
        elif self.verdicts.are_revised_by(verdict):
            # Else its part is done here, and its links may have changed since: another broker that
            # had to decide says a later time.
            is_crossed = self.verdicts.have_taken_a_link_since(verdict)
            if is_crossed or self._late.is_overtaken(ring, verdict, was_kept=known is not None):
                void = msgspec.structs.replace(
                    verdict, is_done=False, at_us=verdict.at_us + 1, reason=OVERTAKEN, is_void=True
                )
                self._undo(None, ring, void, now_us, out)
                return
            # Others of the cycle may have started anew, too, and must hear it before any tables.
            self.verdicts.remember(verdict)
            listeners = [each for each in ring.neighbours if each != neighbour]
            self.verdicts.say(listeners, verdict, out)
            self._late.revised(ring, verdict, now_us, out)

    def _undo(
        self,
        neighbour: BrokerId | None,
        ring: Ring,
        void: Verdict,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """An exchange is void, as this neighbour says, or as is found here."""
        known = self.verdicts.known.get(void.key)
        if known is not None and known.is_void:
            return
        self.verdicts.remember(void)
        self.verdicts.say([each for each in ring.neighbours if each != neighbour], void, out)
        done = known if known is not None and known.is_done else None
        self._late.undone(ring, done, void, now_us, out)

    def opened(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A link is up; whether it is the new one of an exchange that is going on here."""
        if not self.opens(neighbour):
            return False
        self._step(Event.OPENED, neighbour, None, now_us, out)
        return True

    def is_renewed(self, neighbour: BrokerId) -> bool:
        """Whether the link has come up anew while an exchange goes on over it here."""
        return self._ring is not None and neighbour in self._ring.renewed

    def has_lost(self, neighbour: BrokerId) -> bool:
        """Whether the link is gone while an exchange goes on over it here."""
        return self._ring is not None and neighbour in self._breaks.gone

    def broken(
        self, neighbour: BrokerId, now_us: int, out: list[Effect], *, is_back: bool = False
    ) -> None:
        """A link is gone; or it is back, with nothing in it."""
        ring = self._ring
        if ring is not None and neighbour in ring.neighbours:
            self._breaks.gone.add(neighbour)
            ring.renewed.discard(neighbour)
            self._breaks.ignorant.discard(neighbour)
            if is_back:
                ring.renewed.add(neighbour)
            self._step(Event.BROKEN, neighbour, None, now_us, out)

    def ended(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link has ended on purpose: the one that goes does so when the exchange is done."""
        ring = self._ring
        is_last_word = self.state is State.AGREED and ring is not None and ring.ends_link
        if ring is not None and is_last_word and neighbour == ring.before:
            self._breaks.has_ended = True
            if self._breaks.askers or self._breaks.gone:
                self._say_verdict(True, now_us, out)
        else:
            self.broken(neighbour, now_us, out)

    def gives_up_new_link(self, now_us: int, out: list[Effect]) -> bool:
        """The other end of the new link says that it is one of the tree's; whether that is so.

        It is unless this broker has agreed: then it waits to be told what became of the exchange.
        """
        ring = self._ring
        if ring is None or self.state is State.AGREED:
            return False
        ring.is_old_link = True
        self._refuse(f"{self._broker} - {ring.opposite} is a link already", now_us, out)
        return True

    def late(self, now_us: int, out: list[Effect]) -> None:
        """`TIMER` has fired."""
        self._step(Event.LATE, None, None, now_us, out)

    def _halt(
        self, neighbour: BrokerId, halt: Halt, ring: Ring, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour != ring.up:
            raise ProtocolError(f"{neighbour} is not above {self._broker} on the cycle")
        if halt.key in self.verdicts.known:
            self.verdicts.tell(neighbour, halt.key, out)
        elif reason := self.busy or self._host.obstacle(ring):
            verdict = Verdict(
                halt.key, halt.exchange, is_done=False, at_us=0, latest_us=0, reason=reason
            )
            self.verdicts.remember(verdict)
            out.append(Send(neighbour, verdict))
        else:
            self._key = halt.key
            self._step(Event.HALT, neighbour, ring, now_us, out)
