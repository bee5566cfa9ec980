"""A tree with changing links, at one broker: its tables, its links, and its part in exchanges.

Both ends of a link agree on whether it belongs to the tree, and remember since when. A restarted
broker has its entries on disk, and learns from its neighbours of later changes.

| input | action |
| --- | --- |
| a link of the tree comes up | greets the other end |
| the other end greets | greets, too; then tables are synchronised, or the link ends |
| an unknown link comes up | waits: an exchange's new link needs no greeting |
| it is still unknown after `GREET_US` | greets; if neither end can know of it, it joins the tree |
| a link of the tree fails or ends | the neighbour's rows are forgotten |
| it ends, and this end knows no reason | opens it again: both greet, and agree |

While tables are quiesced for an exchange (`link_reconfiguration.py`), events that would change them
are deferred (`waiting.py`), and handled before any held input.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    EndLink,
    LinkReady,
    LinkState,
    OpenLink,
    Recall,
    Release,
    Send,
    SetTimer,
    Started,
    TimerKey,
)
from shoal.broker.messages import Carrier, Message, PublicationBatch
from shoal.broker.strategy import BrokerContext, ProtocolError
from shoal.model import BrokerId
from shoal.overlays.coordination.host import CHANGES
from shoal.overlays.self_organising.exchanges import ExchangeListener, LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.link_reconfiguration import (
    LinkReconfiguration,
)
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    Greeting,
    LinkStanding,
)
from shoal.overlays.self_organising.link_reconfiguration.steps import TIMER
from shoal.overlays.self_organising.links.healing import HEAL, Healing, HealingMessage
from shoal.overlays.self_organising.links.late_decisions import LateDecisions
from shoal.overlays.self_organising.links.memory import UNHEARD, LinkMemory
from shoal.overlays.self_organising.links.obstacles import Obstacles
from shoal.overlays.self_organising.links.routing import OverlayRouting
from shoal.overlays.self_organising.links.waiting import DeferredActions
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.turning import TableTurn

# Time that a link without an entry waits for an exchange to begin.
GREET_US = 5_000_000
GREET = "greet"


class TreeOverlay:
    """The tree at one broker; `routing` routes over it: the tree itself, or a wrapper of it.

    `listener` gets the outcomes of exchanges. `may_link` permits links to brokers when a neighbour
    is lost; None: lost neighbours are not replaced.
    """

    def __init__(
        self,
        context: BrokerContext,
        listener: ExchangeListener,
        tree: TreeRouting,
        routing: OverlayRouting,
        may_link: Callable[[BrokerId], bool] | None = None,
    ) -> None:
        self.broker = context.broker
        self.tree = tree
        self.tables = tree.tables
        self._routing = routing
        tree.surround(self)
        self._listener = listener
        self.memory = LinkMemory(
            (*context.neighbours, *context.expected),
            lambda: {CHANGES: tree.changes.facts},
            is_founder=context.is_founder,
        )
        self._ring = LinkReconfiguration(
            context.broker, self, LateDecisions(self.memory, self._put_late)
        )
        self.healing = Healing(context.broker, self, may_link)
        self._up = set(context.neighbours)
        self._greeted: set[BrokerId] = set()
        # Links that this broker has ordered to end, and that have not yet.
        self._ending: set[BrokerId] = set()
        self._obstacles = Obstacles(self.broker, tree, routing, self.memory, self._up, self._ending)
        # Brokers without a link, which are waited for in place of others.
        self._missed: list[BrokerId] = []
        # Whether its last neighbour has departed: it joins again over the next link.
        self._is_alone = False
        self._waiting = DeferredActions(self._ring)

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        unknown = self.memory.start(started.facts, now_us)
        for decision in self.memory.decisions:
            self._ring.decisions.remember(decision)
        self._routing.start(started, now_us, out)
        self.memory.record(out)
        for neighbour in unknown:
            self.tree.expect(neighbour, now_us, out)
            out.append(OpenLink(neighbour, is_lasting=True))

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour's message; ProtocolError when it makes no sense from that neighbour."""
        if type(message) is Greeting:
            if self._ring.is_renewed(neighbour):
                self._waiting.defer_or_run(now_us, out, self._meet, neighbour, message)
            else:
                self._meet(neighbour, message, now_us, out)
        elif isinstance(message, HealingMessage):
            if not self.is_up(neighbour):
                raise ProtocolError(f"{self.broker} has no link to {neighbour}")
            self.healing.receive(neighbour, message, now_us, out)
        elif not self._ring.receive(neighbour, message, now_us, out):
            self._routing.receive(neighbour, message, now_us, out)
        self.memory.record(out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        """Retransmit undelivered publications over the link that replaces this one, if there is
        one.

        Receivers drop duplicates; all brokers behind a dead neighbour count as dead.
        """
        if neighbour in self.tree.propagation.turned:
            self.tree.returned(neighbour, carrier, now_us, out)
        elif isinstance(carrier, PublicationBatch) and not self.memory.standing(neighbour).is_in:
            self.tree.forwarding.forward_all(neighbour, carrier, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == TIMER:
            self._ring.late(now_us, out)
        elif key[0] == GREET:
            self._greet_stranger(key[1], out)
        elif key[0] == HEAL:
            self.healing.timer(key[1], now_us, out)
        else:
            self._waiting.defer_or_run(now_us, out, self._routing.timer, key)
        self.memory.record(out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self._link(neighbour, state, now_us, out)
        self.memory.record(out)

    def _link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        was_up = neighbour in self._up
        out.append(CancelTimer((GREET, neighbour)))  # it was for the link as it was before
        self._greeted.discard(neighbour)
        self._waiting.forget(self._meet, neighbour)
        self._ending.discard(neighbour)
        self.tree.propagation.turned.pop(neighbour, None)
        if state is not LinkState.UP:
            self._up.discard(neighbour)
        if state is LinkState.ENDED:
            self._ring.ended(neighbour, now_us, out)
        elif was_up or state is LinkState.FAILED or self._ring.has_lost(neighbour):
            self._ring.broken(neighbour, now_us, out, is_back=state is LinkState.UP)
        if state is LinkState.UP:
            self._up.add(neighbour)
            if not was_up and self._ring.opened(neighbour, now_us, out):
                return
        self._waiting.defer_or_run(now_us, out, self._change, neighbour, state)

    def departed(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour has left the network, and this end of the link did not see it end."""
        self.tree.departed(neighbour, now_us, out)
        self._waiting.defer_or_run(now_us, out, self._forget, neighbour)
        self.memory.record(out)

    def _forget(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        if self.memory.standing(neighbour).is_in and not self.is_up(neighbour):
            self.healing.found(neighbour, out)
            self.memory.forget(neighbour)
            self._is_alone = not any(self.memory.neighbours)
            self._part(neighbour, now_us, out)

    # --- exchanges ----------------------------------------------------------------------------

    @property
    def busy(self) -> str:
        """Why this broker can take part in no exchange now; empty when it can."""
        return self._ring.busy or self._obstacles.unrest

    @property
    def exchanging(self) -> str:
        """Why its links must stay as they are; empty when they need not."""
        return self._ring.busy or ("a broker is leaving" if self.tree.is_yielding else "")

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """Carry an exchange out; this broker is the cycle's last. The listener gets the outcome."""
        ring = ExchangeRing(self.broker, exchange)
        if reason := self._ring.busy or self.obstacle(ring, is_new=True):
            self._listener.refused(exchange, reason, now_us, out)
        else:
            self._ring.begin(exchange, now_us, out)
        self.memory.record(out)

    @property
    def is_moving(self) -> bool:
        """Whether links must stay as they are."""
        return bool(self._ring.busy) or self._routing.is_moving or self._obstacles.has_unmet

    # --- interface of an exchange -------------------------------------------------------------

    @property
    def contradiction(self) -> str:
        """Why its tables cannot turn after the flush; empty when they can."""
        return self._obstacles.contradiction

    def obstacle(self, ring: ExchangeRing, *, is_new: bool = False) -> str:
        """Why it cannot take part in an exchange, also one that is new; empty when it can."""
        return self._obstacles.against(ring, is_new=is_new)

    @property
    def missing(self) -> list[BrokerId]:
        """Disconnected neighbours on the tree."""
        return [each for each in self.memory.neighbours if not self.is_up(each)]

    def is_up(self, neighbour: BrokerId) -> bool:
        return neighbour in self._up

    def send_held(self, out: list[Effect]) -> None:
        """Send the publications that the tree holds for links: it is about to quiesce."""
        self.tree.send_held(out)

    def suspend_covering(self, neighbour: BrokerId) -> None:
        """Forward all subscriptions to this neighbour until the exchange is decided on."""
        self.tree.propagation.suspend_covering(neighbour)

    def latest_us(self, ring: ExchangeRing) -> int:
        """When its ends of the links that change last came or went."""
        ends = [ring.opposite] * ring.opens_link + [ring.before] * ring.ends_link
        return max(0, *(self.memory.standing(each).since_us for each in ends), 0)

    def exchanged(
        self,
        ring: ExchangeRing,
        decision: ExchangeDecision,
        turn: TableTurn,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Turn the tables, add and remove links, and resume."""
        before, behind = ring.neighbours
        self.tree.turn(turn, before, behind, out, opens=ring.opens_link, ends=ring.ends_link)
        old, new = before if ring.ends_link else None, (behind,) if ring.opens_link else ()
        out.append(Recall(before, behind, moves=ring.ends_link))
        self.memory.became(decision)
        self._routing.replaced(old, new, now_us, out)
        if ring.opens_link:
            self.memory.put(behind, LinkStanding(True, decision.at_us))
            out.append(OpenLink(behind, is_lasting=True))
            if behind not in ring.renewed:  # else it must get tables first
                out.append(LinkReady(behind))
        if ring.ends_link:
            self.memory.put(before, LinkStanding(False, decision.at_us))
            self._end(before, out)
        self._go_on(ring, now_us, out)
        self._listener.done(ring.exchange, now_us, out)

    def kept(
        self, ring: ExchangeRing, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """End the new link, and resume."""
        self.tree.keep_tables(out)
        if decision.at_us:
            self.memory.became(decision)
        if ring.opens_link:
            # A decision without a choice (at_us 0) settles nothing: an end with an entry knows
            # better.
            since_us = decision.at_us or self.memory.standing(ring.opposite).since_us
            self.memory.put(ring.opposite, LinkStanding(False, max(since_us, UNHEARD.since_us)))
        if ring.ends_link and decision.at_us:
            self.memory.put(ring.before, LinkStanding(True, decision.at_us))
            out.append(OpenLink(ring.before, is_lasting=True))
        if ring.is_last and not ring.is_old_link:
            self._end(ring.first, out)
        self._go_on(ring, now_us, out)
        self._listener.refused(ring.exchange, decision.reason, now_us, out)

    def is_neighbour(self, neighbour: BrokerId) -> bool:
        """Whether there is a link of the tree."""
        return self.tree.is_neighbour(neighbour)

    def since_us(self, neighbour: BrokerId) -> int:
        """When it was last settled whether the link belongs to the tree."""
        return max(self.memory.standing(neighbour).since_us, 0)

    def put_in(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """Both ends have agreed that this link, which is up, belongs to the tree."""
        self.memory.put(neighbour, LinkStanding(True, at_us))
        self._greeted.add(neighbour)
        out.append(OpenLink(neighbour, is_lasting=True))
        self._routing.relink(neighbour, LinkState.UP, now_us, out)

    def put_out(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """This link does not belong to the tree any more."""
        self.memory.put(neighbour, LinkStanding(False, at_us))
        self._greet(neighbour, out)
        self._part(neighbour, now_us, out)

    def _put_late(
        self, neighbour: BrokerId, standing: LinkStanding, now_us: int, out: list[Effect]
    ) -> None:
        """It turns out late whether this link belongs to the tree."""
        self._waiting.defer_or_run(now_us, out, self._put, neighbour, standing)

    def _go_on(self, ring: ExchangeRing, now_us: int, out: list[Effect]) -> None:
        self._waiting.run_all(now_us, out)
        if ring.is_held:
            out.append(Release())

    # --- links --------------------------------------------------------------------------------

    def _change(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A link that is no part of an exchange has changed."""
        standing, was_ready = self.memory.standing(neighbour), self.tree.is_ready
        is_taken = self.tree.takes_link(neighbour, state, now_us, out)
        if state is LinkState.ENDED and standing.is_in and not is_taken:
            if standing.since_us > 0:
                # One end did not know that it belongs to the tree, or this one that it does not.
                out.append(OpenLink(neighbour, is_lasting=True))
            else:
                # The other end has a decision that this broker has missed, or has forgotten.
                self.memory.unhear(neighbour)
        if not is_taken:
            self.relink(neighbour, state, now_us, out)
        if not was_ready and state is not LinkState.UP and self.memory.standing(neighbour).is_in:
            # it is opened again, or a greeting names another
            self.tree.expect(neighbour, now_us, out)

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """A link came up, failed or ended by itself."""
        standing = self.memory.standing(neighbour)
        if state is LinkState.UP:
            if not self.is_up(neighbour):
                return
            self.tree.restarted(neighbour)
            if standing.is_in or self._is_alone:
                if not standing.is_in:
                    self.expect(neighbour, now_us, out)
                self._greet(neighbour, out)
            elif not self.healing.linked(neighbour, out):
                out.append(SetTimer((GREET, neighbour), now_us + GREET_US))
            return
        if self.tree.is_neighbour(neighbour):
            self._routing.relink(neighbour, state, now_us, out)
        if state is LinkState.FAILED and standing.is_in:
            out.append(SetTimer((GREET, neighbour), now_us + GREET_US))
            self.healing.lost(neighbour, now_us, out)
        self.healing.unlinked(neighbour, out)

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """There is to be a link of the tree's to this broker."""
        self._is_alone = False
        self.memory.settle(neighbour, now_us, is_in=True)
        self.tree.expect(neighbour, now_us, out)

    def remember(self, out: list[Effect]) -> None:
        """Facts about link changes are new."""
        self.memory.record_all(out)

    def adopt(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """A change has added this link to the tree: its ends greet, and synchronise their
        tables.
        """
        self.memory.put(neighbour, LinkStanding(True, at_us))
        out.append(OpenLink(neighbour, is_lasting=True))
        self._greet(neighbour, out)

    def disown(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """A change has made this link none of the tree's."""
        self.memory.settle(neighbour, at_us, is_in=False)
        self.healing.found(neighbour, out)
        self._routing.disown(neighbour, at_us, now_us, out)

    def _greet_stranger(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link has been up for a while, and is none of the tree; or it is, and is not up."""
        is_in, is_up = self.memory.standing(neighbour).is_in, self.is_up(neighbour)
        opens = self._ring.opens(neighbour) or self.tree.opens(neighbour)
        if is_in and not is_up:
            # It may have failed while it was to end, and no broker opens it any more.
            out.append(OpenLink(neighbour, is_lasting=True))
        elif is_up and not (is_in or opens or neighbour in self._ending):
            self._greet(neighbour, out)

    def _greet(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Send the entry of a link that is up: whether it belongs to the tree."""
        if not self.is_up(neighbour):
            return
        self._greeted.add(neighbour)
        decisions = self._ring.decisions.between(self.broker, neighbour)
        out.append(Send(neighbour, Greeting(self.memory.entry(neighbour), decisions)))

    def _meet(
        self, neighbour: BrokerId, greeting: Greeting, now_us: int, out: list[Effect]
    ) -> None:
        """Handle the other end's greeting: whether the link belongs to the tree."""
        ring, other = self._ring, greeting.standing
        if not self.is_up(neighbour) or self.tree.is_cut_off(neighbour):
            return
        if ring.opens(neighbour) and not (other.is_in and ring.abort_for_known_link(now_us, out)):
            return
        if neighbour not in self._greeted:
            self._greet(neighbour, out)
        for decision in greeting.decisions:
            ring.judge(neighbour, decision, now_us, out)
        mine = self.memory.standing(neighbour)
        standing = self.memory.agree(neighbour, other)
        if standing.since_us > max(mine.since_us, other.since_us):
            self._greet(neighbour, out)
        if not standing.is_in:
            self._part_as_heard(neighbour, now_us, out)
            return
        if not mine.is_in:
            out.append(OpenLink(neighbour, is_lasting=True))
        while self._missed:
            self.tree.dismiss(self._missed.pop(0), out)
        self._routing.relink(neighbour, LinkState.UP, now_us, out)
        # any broker that it has asked is a neighbour, or released
        self.healing.found(neighbour, out)

    def _part_as_heard(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """It was settled elsewhere that the link does not belong to the tree: there are others."""
        self.healing.parted(neighbour, out)
        self._part(neighbour, now_us, out)

    def _part(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The link does not belong to the tree."""
        if self.tree.is_neighbour(neighbour) and not self.tree.parts(neighbour, now_us, out):
            self._routing.relink(neighbour, LinkState.ENDED, now_us, out)
        if self.tree.is_ready or any(self.memory.neighbours):
            self.tree.dismiss(neighbour, out)
        else:
            # Its only link was removed while it was disconnected: another will come, and is waited
            # for.
            self._missed.append(neighbour)
        self._end(neighbour, out)

    def _end(self, neighbour: BrokerId, out: list[Effect]) -> None:
        if neighbour in self._up:
            self._ending.add(neighbour)
        out.append(EndLink(neighbour))

    def _put(
        self, neighbour: BrokerId, standing: LinkStanding, now_us: int, out: list[Effect]
    ) -> None:
        """It was settled elsewhere, later than is known here, whether the link belongs to it."""
        if self.memory.standing(neighbour).since_us >= standing.since_us:
            return
        self.memory.put(neighbour, standing)
        if not standing.is_in:
            self._part_as_heard(neighbour, now_us, out)
            return
        if not self.tree.is_ready:
            self.tree.expect(neighbour, now_us, out)
        out.append(OpenLink(neighbour, is_lasting=True))
        if neighbour not in self._greeted:
            self._greet(neighbour, out)
