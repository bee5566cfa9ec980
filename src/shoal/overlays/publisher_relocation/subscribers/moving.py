"""Subscribers that move to where their publications enter: one broker's part.

Publishers' brokers trace sessions, as GRAPE does, and say what they have learnt to all brokers that
the session has passed.  So each of these knows where its clients' publications come from, and what
they cost on the way; no message is about one subscriber alone but the last, which sends it away.

| of a subscriber here | does |
| --- | --- |
| a session is told of which it had some | adds it up |
| it has had enough, of which most is told | asks for its ping times |
| they came | decides; sends it away, or begins anew |
| they do not come | begins anew: who cannot say how far brokers are cannot be moved |
| it changes what it subscribes to | begins anew |
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    MoveClient,
    Notify,
    Record,
    SetTimer,
    TimerKey,
)
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.records import SubscriberSelectionRecord
from shoal.overlays.publisher_relocation.subscribers.planner import (
    Figures,
    Session,
    Share,
    choose,
    figures_of,
    share_of,
    shortlist,
)

# Of what a subscriber gets so much must be told of, in percent.  Else those that publish most
# would decide alone, as their sessions are over first.
TOLD_PERCENT = 80

# The first part of the keys of the timers set here; the second is the subscriber.
TIMER = "subscriber"


class Terms(msgspec.Struct, frozen=True):
    """By what is decided; the fields are GRAPE's parameters, and `enough` how many publications."""

    enough: int
    priority: Priority
    weight: int
    least_gain_percent: int
    ping_timeout_us: int


class _Asked(msgspec.Struct):
    """What is decided when the ping times have come."""

    session: MessageId
    figures: Figures
    candidates: tuple[BrokerId, ...]


class MovingSubscribers:
    """Those of one broker.

    `untold` is how many more traced publications a client has had, `door` who speaks for it, if
    not it does itself.
    """

    def __init__(
        self,
        broker: BrokerId,
        terms: Terms,
        untold: Callable[[ClientId], int],
        door: Callable[[ClientId], ClientId],
    ) -> None:
        self._broker = broker
        self._terms = terms
        self._untold = untold
        self._door = door
        # What each client got, by publisher.
        self._shares: dict[ClientId, dict[ClientId, Share]] = {}
        self._asked: dict[ClientId, _Asked] = {}
        self._questions = 0

    def told(
        self,
        publisher: ClientId,
        session: Session,
        had: Mapping[ClientId, int],
        staying: Container[ClientId],
        now_us: int,
        out: list[Effect],
        *,
        others: int = 0,
        times: int = 1,
    ) -> None:
        """A publisher's session is over, of which local clients had these publications.

        Some of them are not moved by what they get; what clients had that are not named is in
        `others`.  The session stands for `times` as many.
        """
        once, twice = others, 0
        for bits in had.values():
            twice |= once & bits
            once |= bits
        shares: dict[int, Share] = {}
        for client, bits in had.items():
            if client in staying:
                continue
            share = shares.get(bits)
            if share is None:
                try:
                    alone = once & ~twice
                    share = shares[bits] = share_of(session, self._broker, bits, alone, times)
                except ValueError:  # the tree has changed meanwhile
                    return
            self._add(client, publisher, share)
            self._ask_when_enough(client, now_us, out)

    def pinged(self, client: ClientId, times: PingTimes, now_us: int, out: list[Effect]) -> bool:
        """A client's round trips; whether they were asked for here."""
        asked = self._asked.get(client)
        if asked is None or asked.session != times.session:
            return False
        self.changed(client, out)
        one_way_us = {broker: time_us // 2 for broker, time_us in times.round_trip_us.items()}
        terms = self._terms
        try:
            decision = choose(
                asked.figures,
                asked.candidates,
                one_way_us,
                terms.priority,
                terms.weight,
                terms.least_gain_percent,
            )
        except ValueError:  # ping times of other brokers
            return True
        out.append(
            Record(
                SubscriberSelectionRecord(
                    subscriber=client,
                    broker=self._broker,
                    decided_us=now_us,
                    publications=asked.figures.count,
                    candidates=decision.candidates,
                    target=decision.target,
                    rate_now=decision.rate_now,
                    rate_target=decision.rate_target,
                    delay_now_us=decision.delay_now_us,
                    delay_target_us=decision.delay_target_us,
                    weight=decision.weight,
                )
            )
        )
        if decision.target != self._broker:
            out.append(MoveClient(client, decision.target))
        return True

    def timer(self, client: ClientId) -> None:
        """Ping times did not come."""
        self._asked.pop(client, None)
        self._shares.pop(client, None)

    def changed(self, client: ClientId, out: list[Effect]) -> None:
        """It wants something else, or has been decided about: what is known of it is void."""
        self._shares.pop(client, None)
        if self._asked.pop(client, None) is not None:
            out.append(CancelTimer(_timer(client)))

    # --- steps --------------------------------------------------------------------------------

    def _add(self, client: ClientId, publisher: ClientId, share: Share) -> None:
        shares = self._shares.setdefault(client, {})
        known = shares.get(publisher)
        if known is not None and known.session.entry == share.session.entry:
            known.add(share)
        else:  # what came another way says nothing of this one
            shares[publisher] = Share(share.session, share.count, dict(share.handled))

    def _ask_when_enough(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        if client in self._asked:
            return
        shares = tuple(self._shares[client].values())
        count = sum(share.count for share in shares)
        if count < self._terms.enough:
            return
        if 100 * count < TOLD_PERCENT * (count + self._untold(client)):
            return
        try:
            figures = figures_of(shares, self._broker)
        except ValueError:  # the tree changed between two sessions
            del self._shares[client]
            return
        candidates = shortlist(figures, self._terms.priority, self._terms.weight)
        self._questions += 1
        session = MessageId(self._broker, client, self._questions)
        self._asked[client] = _Asked(session, figures, candidates)
        brokers = tuple(dict.fromkeys((*candidates, self._broker)))
        out.append(SetTimer(_timer(client), now_us + self._terms.ping_timeout_us))
        out.append(Notify(self._door(client), PingRequest(session, brokers)))


def _timer(client: ClientId) -> TimerKey:
    return TIMER, client
