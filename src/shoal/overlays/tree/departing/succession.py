"""How the neighbours of a broker that leaves a tree take its place.

One of them is the *centre*: it opens links to the others.  Then all are still: they take in only
what comes from the leaver, until nothing is under way through it.  The leaver tells the centre
what lies behind each of the others; the centre turns its tables, tells the others before all else,
and goes on.  Each of the others moves by itself, from the leaver to the centre, when it has had all
that comes from the leaver, and the centre's word.  So there is one tree at every moment, whichever
of them fails: who has not the centre's word stays with the leaver, whose link to the centre is the
last to end.

| role | hears | does |
| --- | --- | --- |
| none | Prepare | the centre opens links, and answers when all are up; the others at once |
| prepared | Stop | holds what does not come from the leaver; answers, each time |
| prepared | Stop, but something has begun to move | refuses, ends new links, goes on: none |
| still | Succeed (centre) | turns tables, tells the others, goes on: none |
| still | Flushed, or the leaver is lost (others) | takes in what comes from the centre alone |
| still | Succeeded, from the centre | turns tables, ends the link to the leaver, goes on: none |
| any | a new link fails, Abandon, another attempt | refuses, ends new links, goes on: none |
| none | Succeeded, back (centre) | remembers that link, since when its other end does |
| none | Stayed, from the leaver | forgets those who have not moved |
| none | Absent, and the link to the leaver has ended | opens links to those who are away |
| any | the leaver is lost (centre; others unless still) | ends new links, goes on: none |

While a broker is still its tables must not change by anything else: other changes of links, and
timers, wait until it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from shoal.broker.effects import (
    Effect,
    EndLink,
    Hold,
    LinkChanged,
    LinkReady,
    LinkState,
    OpenLink,
    Recall,
    Release,
    Send,
    TimerFired,
    TimerKey,
)
from shoal.model import BrokerId
from shoal.overlays.tree.exchange import Exchange
from shoal.overlays.tree.messages import (
    Abandon,
    Absent,
    Behind,
    Flushed,
    LeavingMessage,
    Prepare,
    Prepared,
    Refuse,
    Stayed,
    Stead,
    Stop,
    Stopped,
    Succeed,
    Succeeded,
)
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_table import RoutingTable

# A link that was asked for is there by then, or will not come any more.
LATE_US = 10_000_000

Deferred = LinkChanged | TimerFired


class Around(Protocol):
    """The system that routes over the tree, as far as links that change concern it."""

    @property
    def is_moving(self) -> bool:
        """Whether something is under way here for which links must stay as they are."""

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """A link came up, failed or ended, as links do."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer fired."""

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """These neighbours have taken the place of one, if any, and the tables have turned."""

    def since_us(self, neighbour: BrokerId) -> int:
        """Since when this end of a link knows whether it belongs to the tree."""

    def settled(self, neighbour: BrokerId, at_us: int, *, is_in: bool) -> int:
        """A link belongs to the tree, or not any more; since when: not before `at_us`."""

    def parting(self, neighbours: Iterable[BrokerId], now_us: int, out: list[Effect]) -> None:
        """This broker leaves: its links to these have ended, or are about to."""

    def inherit(
        self, absent: Mapping[BrokerId, Stead], leaver: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """These were away as a neighbour left, and are this broker's neighbours in its place.

        It says in whose place it had them itself.
        """

    def has(self, broker: BrokerId) -> bool:
        """Whether this is a neighbour, whatever others say of it."""

    def stood_in(self, neighbour: BrokerId) -> Stead:
        """In whose place this broker has that neighbour, and since when, newest first."""


class _Role:
    """What this broker does while a neighbour leaves."""

    def __init__(self, leaver: BrokerId, prepare: Prepare, *, is_centre: bool) -> None:
        self.leaver = leaver
        self.attempt = prepare.attempt
        self.centre = prepare.centre
        self.is_centre = is_centre
        self.new = prepare.others if is_centre else (prepare.centre,)
        self.absent = prepare.absent
        self.up: set[BrokerId] = set()
        self.is_still = False
        self.lost: list[LinkState] = []


class Succession:
    """One broker's role in it; `is_engaged` says whether it is about to leave itself."""

    def __init__(
        self,
        broker: BrokerId,
        propagation: Propagation,
        exchange: Exchange,
        around: Around,
        is_engaged: Callable[[], bool],
    ) -> None:
        self.around = around
        self._broker = broker
        self._propagation = propagation
        self._exchange = exchange
        self._is_engaged = is_engaged
        self._role: _Role | None = None
        self._deferred: list[Deferred] = []
        # Links that may still come up though nobody wants them any more, and until when.
        self._unwanted: dict[BrokerId, int] = {}
        # Neighbours whose place others have taken, and to which the links have yet to end.
        self._replaced: set[BrokerId] = set()
        # By neighbour that leaves, whom it has left to this broker: for when their link has ended.
        self._absent: dict[BrokerId, dict[BrokerId, Stead]] = {}

    @property
    def is_free(self) -> bool:
        """Whether no neighbour of this broker's is about to leave."""
        return self._role is None

    @property
    def is_awaited(self) -> bool:
        """Whether a neighbour that leaves has yet to see that this broker has moved, or stays."""
        return bool(self._replaced)

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether a link to this broker is one of those that take a leaver's place."""
        return self._role is not None and neighbour in self._role.new

    def defers(self, what: Deferred) -> bool:
        """Whether this must wait until the broker goes on; it comes then."""
        if self._role is None or not self._role.is_still:
            return False
        self._deferred.append(what)
        return True

    # --- messages -----------------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: LeavingMessage, now_us: int, out: list[Effect]
    ) -> None:
        """From a neighbour that leaves, or from the centre."""
        role = self._role
        if type(message) is Prepare:
            if role is not None and role.leaver == neighbour:
                self._abandon(now_us, out)
            self._prepare(neighbour, message, out)
            return
        if type(message) is Succeeded and self._propagation.has_link(neighbour):
            out.append(OpenLink(neighbour, is_lasting=True))
            self.around.settled(neighbour, message.at_us, is_in=True)
            return
        if isinstance(message, Stayed):
            self._lose(message.brokers, now_us, out)
            return
        if isinstance(message, Absent):
            self._absent[neighbour] = dict(message.steads)
            return
        if role is None or message.attempt != role.attempt:
            return
        is_centres = neighbour == role.centre and role.is_still
        match message:
            case Stop(turn=turn) if neighbour == role.leaver:
                if not role.is_still and self.around.is_moving:  # since it was prepared
                    self._refuse(role, now_us, out)
                else:
                    self._be_still(role, turn, out)
            case Succeed() if neighbour == role.leaver and role.is_centre:
                self._take_place(role, message, now_us, out)
            case Flushed() if neighbour == role.leaver and not role.is_centre:
                out.append(Hold((role.centre,)))
            case Succeeded(at_us=at_us) if is_centres and not role.is_centre:
                self._move(role, max(now_us, at_us), now_us, out)
            case Abandon() if neighbour == role.leaver:
                self._abandon(now_us, out)

    def _prepare(self, leaver: BrokerId, message: Prepare, out: list[Effect]) -> None:
        is_centre = message.centre == self._broker
        role = _Role(leaver, message, is_centre=is_centre)
        if (
            self._role is not None
            or self._is_engaged()
            or self.around.is_moving
            or not self._exchange.is_settled(leaver)
            or any(self._propagation.has_link(each) for each in role.new)
        ):
            out.append(Send(leaver, Refuse(message.attempt)))
            return
        self._role = role
        for each in role.new:
            self._unwanted.pop(each, None)
        if is_centre:
            out.extend(OpenLink(each) for each in role.new)
        else:
            out.append(Send(leaver, self._prepared(role)))

    def _prepared(self, role: _Role) -> Prepared:
        """Who is away for the leaver, and is no stranger here, has moved when it left before."""
        return Prepared(role.attempt, tuple(filter(self.around.has, role.absent)))

    def _be_still(self, role: _Role, turn: int, out: list[Effect]) -> None:
        """Hold what does not come from the leaver, and say so, each time."""
        if not role.is_still:
            role.is_still = True
            out.append(Hold((role.leaver,)))
        out.append(Send(role.leaver, Stopped(role.attempt, turn)))

    def _take_place(self, role: _Role, place: Succeed, now_us: int, out: list[Effect]) -> None:
        """At the centre, which counts what the leaver has: else its words would be older."""
        propagation = self._propagation
        succeed(propagation, role.leaver, place.others)
        propagation.tables.count_moves(place.moves)
        propagation.turned = {role.leaver: role.new}
        out.append(Recall(role.leaver))
        for each in role.new:
            at_us = max(now_us, self.around.since_us(each) + 1)
            out.append(Send(each, Succeeded(role.attempt, at_us)))
        propagation.restate(propagation.neighbours, list(propagation.tables.subscriptions), out)
        propagation.forget(role.leaver, out)
        self._go_on(role, now_us, out)

    def _move(self, role: _Role, at_us: int, now_us: int, out: list[Effect]) -> None:
        """At one of the others."""
        follow(self._propagation, role.leaver, role.centre)
        self._propagation.turned = {role.leaver: (role.centre,)}
        out.append(Recall(role.leaver))
        self._unwanted[role.leaver] = now_us + LATE_US
        self.around.settled(role.leaver, now_us, is_in=False)
        since_us = self.around.settled(role.centre, at_us, is_in=True)
        out += [
            Send(role.centre, Succeeded(role.attempt, since_us)),
            OpenLink(role.centre, is_lasting=True),
            EndLink(role.leaver),
        ]
        self._go_on(role, now_us, out)

    def _lose(self, brokers: tuple[BrokerId, ...], now_us: int, out: list[Effect]) -> None:
        """At the centre: these have not moved, whether their links have failed here already or not.

        What the leaver says of what lies behind them would else be taken for old.
        """
        for each in brokers:
            if self._propagation.has_link(each):
                self._unwanted[each] = now_us + LATE_US
                out.append(EndLink(each))
                self.around.relink(each, LinkState.ENDED, now_us, out)

    def _go_on(self, role: _Role, now_us: int, out: list[Effect]) -> None:
        if not role.lost:
            self._replaced.add(role.leaver)
        self._exchange.replaced(role.leaver, role.new)
        out.extend(LinkReady(each) for each in role.new)
        self.around.replaced(role.leaver, role.new, now_us, out)
        self._finish(role, now_us, out)

    def _finish(self, role: _Role, now_us: int, out: list[Effect]) -> None:
        self._role = None
        deferred, self._deferred = self._deferred, []
        for what in deferred:
            if isinstance(what, TimerFired):
                self.around.timer(what.key, now_us, out)
            else:
                self.around.relink(what.neighbour, what.state, now_us, out)
        if role.is_still:
            out.append(Release())

    def _refuse(self, role: _Role, now_us: int, out: list[Effect]) -> None:
        """Tell the leaver, if it is there, that it cannot go now."""
        if not role.lost:
            out.append(Send(role.leaver, Refuse(role.attempt)))
        self._abandon(now_us, out)

    def _abandon(self, now_us: int, out: list[Effect]) -> None:
        """All stays as it is; what happened to the leaver's link meanwhile counts now."""
        role = self._role
        assert role is not None
        for each in role.new:
            self._unwanted[each] = now_us + LATE_US
            out.append(EndLink(each))
        self._role = None
        for state in role.lost:
            self.around.relink(role.leaver, state, now_us, out)
        self._finish(role, now_us, out)

    # --- links --------------------------------------------------------------------------------

    def departed(self, broker: BrokerId) -> None:
        """It has left: a link to it that has failed, and waits to be taken for that, has ended."""
        if self._role is not None and self._role.leaver == broker:
            self._role.lost = [LinkState.ENDED for _ in self._role.lost]
        failed = LinkChanged(broker, LinkState.FAILED)
        ended = LinkChanged(broker, LinkState.ENDED)
        self._deferred = [ended if each == failed else each for each in self._deferred]

    def wants(self, neighbour: BrokerId) -> None:
        """A link to this broker may stay, whatever became of a leave for which there was one."""
        self._unwanted.pop(neighbour, None)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> bool:
        """A link changed; whether that is no affair of the tree's, or waits."""
        self._replaced.discard(neighbour)
        absent = self._absent.pop(neighbour, {})
        if absent and state is LinkState.ENDED:
            self.around.inherit(absent, neighbour, now_us, out)
        role, is_up = self._role, state is LinkState.UP
        if role is not None and self.opens(neighbour):
            self._new_link(role, neighbour, now_us, out, is_up=is_up)
            return True
        if role is not None and neighbour == role.leaver:
            if role.is_still and not role.is_centre:
                role.lost.append(state)
                out.append(Hold((role.centre,)))
                return True
            self._abandon(now_us, out)
            return False
        if self.defers(LinkChanged(neighbour, state)):
            return True
        is_unwanted = now_us < self._unwanted.get(neighbour, now_us)
        if is_unwanted and is_up:
            out += [LinkReady(neighbour), EndLink(neighbour)]  # no tables are said over it
        return is_unwanted

    def _new_link(
        self, role: _Role, neighbour: BrokerId, now_us: int, out: list[Effect], *, is_up: bool
    ) -> None:
        if not is_up or neighbour in role.up:
            self._refuse(role, now_us, out)
            return
        role.up.add(neighbour)
        if role.is_centre and len(role.up) == len(role.new):
            out.append(Send(role.leaver, self._prepared(role)))


# --- how tables turn ------------------------------------------------------------------------------


def behind(tables: RoutingTable, neighbour: BrokerId) -> Behind:
    """What lies behind this neighbour of who leaves."""
    return Behind(
        neighbour,
        tuple(row.advertisement.id for row in tables.advertised_from(neighbour)),
        tuple(entry.subscription for entry in tables.subscribed_from(neighbour)),
        tuple(entry.id for entry in tables.covered_at(neighbour)),
    )


def follow(propagation: Propagation, old: BrokerId, new: BrokerId) -> None:
    """All that lies behind one neighbour lies behind another now, which takes its place."""
    tables = propagation.tables
    for row in tables.advertised_from(old):
        tables.turn_advertisement(row, new)
    for entry in tables.told_to(old):
        tables.untell(entry, old)
        tables.tell(entry, new)
    for entry in tables.subscribed_from(old):
        tables.turn_subscription(entry, new)
    if tables.wanted is not None and old in tables.wanted:
        tables.wanted[new] = tables.wanted.pop(old)
    propagation.hearsay.rename(old, new)
    propagation.relink(old, (new,))


def succeed(propagation: Propagation, old: BrokerId, others: Sequence[Behind]) -> None:
    """What lay behind one neighbour lies behind others now, to which there are links."""
    tables = propagation.tables
    lacking = {entry.id for entry in tables.covered_at(old)}
    covered = {each.neighbour: lacking | {*each.covered} for each in others}
    new = tuple(each.neighbour for each in others)
    for each in others:
        for id in each.advertisements:
            row = tables.advertisements.get(id)
            if row is not None and row.last_hop == old:
                tables.turn_advertisement(row, each.neighbour)
        for subscription in each.subscriptions:
            entry = tables.subscriptions.get(subscription.id)
            if entry is None:
                tables.add_subscription(subscription, each.neighbour)
            elif entry.last_hop == old:
                tables.turn_subscription(entry, each.neighbour)
            elif entry.last_hop != each.neighbour:
                # It has told the leaver, and counts this broker as told from now on.
                propagation.hearsay.add(subscription, each.neighbour)
    for entry in tables.subscriptions.values():
        tables.untell(entry, old)
        for name in new:
            is_told = entry.last_hop != name and entry.id not in covered[name]
            if is_told and entry.is_wanted_by(name):
                tables.tell(entry, name)
    propagation.relink(old, new)
