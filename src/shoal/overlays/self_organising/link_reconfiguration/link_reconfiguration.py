"""Exchange of two links without loss, duplicates or reordering: inputs of one broker.

A new link closes a cycle, and another link of the cycle is removed. Only the brokers of the cycle
turn tables, when nothing is in transit between them. The *first* broker and the *last* are the new
link's ends. The last begins; the first decides, as it is the last to agree.

    last -> first   Halt      each accepts only input over the cycle, and forwards it
    first -> last   Halted    behind all messages up; beyond the removed link each agrees
    last -> first   Drained   behind all messages down; on this side each agrees
    first -> all    Decision  both ways, up to the removed link: each turns its tables, resumes

`Halted` and `Drained` carry the facts for a table's turn (`tree/turning.py`), from the removed link
on. A broker that has agreed can still commit or abort. With one message for each link of the path
by which the exchange was decided on, that is five for each.

**Why nothing is lost, duplicated or reordered.** Input accepted before is handled by the old
tables, and no `Drained` overtakes it; held input is handled by the new ones, behind the
`ExchangeDecision` on every link. The removed link is empty then. Held input is not handled, so its
sender still tracks it, and brokers outside the cycle see only a delay.

**Failures.** A broker that has not agreed aborts by itself, and informs all; a broker that has
agreed needs the decision (`broken_cycle.py`). `steps.py` has the state machine.
"""

from __future__ import annotations

import msgspec

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Doubt,
    Drained,
    ExchangeDecision,
    ExchangeForgotten,
    Halt,
    Halted,
)
from shoal.overlays.self_organising.link_reconfiguration.states import (
    ReconfigurationEvent,
    ReconfigurationState,
)
from shoal.overlays.self_organising.link_reconfiguration.steps import ReconfigurationSteps

OVERTAKEN = "its links have changed since"


class LinkReconfiguration(ReconfigurationSteps):
    """One broker's part in exchanges, one at a time."""

    @property
    def is_quiesced(self) -> bool:
        """Whether the broker is quiesced, and must change nothing by itself."""
        return self.state in (ReconfigurationState.QUIESCED, ReconfigurationState.AGREED)

    @property
    def busy(self) -> str:
        """Why it can take part in no exchange now."""
        return "" if self._ring is None else f"{self._broker} exchanges links already"

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether the link to this broker is the new one of the current exchange."""
        ring = self._ring
        return ring is not None and ring.opens_link and neighbour == ring.opposite

    # --- inputs -------------------------------------------------------------------------------

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """Begin an exchange that is decided on; this broker is the last, without obstacles."""
        self._key = (self._broker, max(now_us, self._key[1] + 1))
        self._step(
            ReconfigurationEvent.BEGIN, None, ExchangeRing(self._broker, exchange), now_us, out
        )

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> bool:
        """Handle a message of the cycle; False if it is none.  ProtocolError for an invalid one."""
        match message:
            case Halt(key, exchange):
                self._halt(neighbour, message, ExchangeRing(self._broker, exchange), now_us, out)
            case Halted(key, _) | Drained(key, _):
                if key != self._key or not self.is_quiesced:
                    self.decisions.send_if_known(
                        neighbour, key, out
                    )  # it was given up here, or is forgotten
                    return True
                ring = self._checked(neighbour)
                if neighbour != (ring.down if type(message) is Halted else ring.up):
                    raise ProtocolError(f"{neighbour} is on the other side of {self._broker}")
                agrees = ring.is_beyond == (type(message) is Halted)
                event = ReconfigurationEvent.AGREE if agrees else ReconfigurationEvent.FORWARD
                self._step(event, neighbour, message, now_us, out)
            case ExchangeDecision():
                self.judge(neighbour, message, now_us, out)
            case Doubt(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(ReconfigurationEvent.DOUBT, neighbour, message, now_us, out)
                else:
                    self.decisions.answer_query(neighbour, key, out)
            case ExchangeForgotten(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(ReconfigurationEvent.FORGOTTEN, neighbour, message, now_us, out)
            case _:
                return False
        return True

    def judge(
        self, neighbour: BrokerId, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a neighbour's decision on an exchange, current or past."""
        if decision.key == self._key and self._ring is not None:
            self._checked(neighbour)
            event = ReconfigurationEvent.DONE if decision.is_done else ReconfigurationEvent.KEPT
            self._step(event, neighbour, decision, now_us, out)
            return
        ring, known = (
            ExchangeRing(self._broker, decision.exchange),
            self.decisions.known.get(decision.key),
        )
        if decision.is_void:
            self._undo(neighbour, ring, decision, now_us, out)
        elif decision.is_done and known is not None and known.is_void:
            self.decisions.send([neighbour], known, out)
        elif self.decisions.are_revised_by(decision):
            # Otherwise its part is done here, and its links may have changed since: another broker
            # that had to decide sends a later time.
            is_crossed = self.decisions.have_taken_a_link_since(decision)
            if is_crossed or self._late.is_overtaken(ring, decision, was_kept=known is not None):
                void = msgspec.structs.replace(
                    decision,
                    is_done=False,
                    at_us=decision.at_us + 1,
                    reason=OVERTAKEN,
                    is_void=True,
                )
                self._undo(None, ring, void, now_us, out)
                return
            # Other brokers of the cycle may have restarted, too, and need it before any tables.
            self.decisions.remember(decision)
            listeners = [each for each in ring.neighbours if each != neighbour]
            self.decisions.send(listeners, decision, out)
            self._late.revised(ring, decision, now_us, out)

    def _undo(
        self,
        neighbour: BrokerId | None,
        ring: ExchangeRing,
        void: ExchangeDecision,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """An exchange is void, by this neighbour's decision, or by this broker's."""
        known = self.decisions.known.get(void.key)
        if known is not None and known.is_void:
            return
        self.decisions.remember(void)
        self.decisions.send([each for each in ring.neighbours if each != neighbour], void, out)
        done = known if known is not None and known.is_done else None
        self._late.undone(ring, done, void, now_us, out)

    def opened(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A link is up; returns whether it is the new one of the current exchange."""
        if not self.opens(neighbour):
            return False
        self._step(ReconfigurationEvent.OPENED, neighbour, None, now_us, out)
        return True

    def is_renewed(self, neighbour: BrokerId) -> bool:
        """Whether the link has come up anew during the current exchange."""
        return self._ring is not None and neighbour in self._ring.renewed

    def has_lost(self, neighbour: BrokerId) -> bool:
        """Whether the link was lost during the current exchange."""
        return self._ring is not None and neighbour in self._breaks.gone

    def broken(
        self, neighbour: BrokerId, now_us: int, out: list[Effect], *, is_back: bool = False
    ) -> None:
        """A link is lost; or it is up again, and empty."""
        ring = self._ring
        if ring is not None and neighbour in ring.neighbours:
            self._breaks.gone.add(neighbour)
            ring.renewed.discard(neighbour)
            self._breaks.ignorant.discard(neighbour)
            if is_back:
                ring.renewed.add(neighbour)
            self._step(ReconfigurationEvent.BROKEN, neighbour, None, now_us, out)

    def ended(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link has ended on purpose: the one to remove does so when the exchange is done."""
        ring = self._ring
        is_last_word = (
            self.state is ReconfigurationState.AGREED and ring is not None and ring.ends_link
        )
        if ring is not None and is_last_word and neighbour == ring.before:
            self._breaks.has_ended = True
            if self._breaks.askers or self._breaks.gone:
                self._announce_decision(True, now_us, out)
        else:
            self.broken(neighbour, now_us, out)

    def abort_for_known_link(self, now_us: int, out: list[Effect]) -> bool:
        """The other end has the new link as one of the tree's.

        Returns whether this end accepts that.

        It does unless it has agreed: then it waits for the decision.
        """
        ring = self._ring
        if ring is None or self.state is ReconfigurationState.AGREED:
            return False
        ring.is_old_link = True
        self._abort_exchange(f"{self._broker} - {ring.opposite} is a link already", now_us, out)
        return True

    def late(self, now_us: int, out: list[Effect]) -> None:
        """`TIMER` has fired."""
        self._step(ReconfigurationEvent.LATE, None, None, now_us, out)

    def _halt(
        self, neighbour: BrokerId, halt: Halt, ring: ExchangeRing, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour != ring.up:
            raise ProtocolError(f"{neighbour} is not above {self._broker} on the cycle")
        if halt.key in self.decisions.known:
            self.decisions.send_if_known(neighbour, halt.key, out)
        elif reason := self.busy or self._host.obstacle(ring):
            decision = ExchangeDecision(
                halt.key, halt.exchange, is_done=False, at_us=0, latest_us=0, reason=reason
            )
            self.decisions.remember(decision)
            out.append(Send(neighbour, decision))
        else:
            self._key = halt.key
            self._step(ReconfigurationEvent.HALT, neighbour, ring, now_us, out)
