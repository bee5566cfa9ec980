"""Subscribers that move to the brokers where their publications enter: one broker's part.

Publishers' brokers trace sessions, as in GRAPE, and send the traces to all brokers that the session
has passed. So each of these knows the entries of its clients' publications, and their costs on the
path; no message is about one subscriber alone, except the last, which sends it away.

| of a subscriber here | action |
| --- | --- |
| traces of a session with deliveries to it come | adds them up |
| it has enough deliveries, most of them with traces | requests its ping times |
| they came | decides; sends it away, or begins anew |
| they do not come | begins anew: a client without ping times cannot be moved |
| its subscriptions change | begins anew |
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
    PlannedSession,
    SubscriberFigures,
    SubscriberShare,
    choose,
    figures_of,
    share_of,
    shortlist,
)

# The least part of a subscriber's deliveries with traces, in percent. Otherwise frequent publishers
# would decide alone, as their sessions are over first.
TOLD_PERCENT = 80

# The first part of the keys of the timers set here; the second is the subscriber.
TIMER = "subscriber"


class MovingTerms(msgspec.Struct, frozen=True):
    """Terms of a decision.

    The fields are GRAPE's parameters, and `enough` the number of publications.
    """

    enough: int
    priority: Priority
    weight: int
    least_gain_percent: int
    ping_timeout_us: int


class _AskedMove(msgspec.Struct):
    """A decision that waits for ping times."""

    session: MessageId
    figures: SubscriberFigures
    candidates: tuple[BrokerId, ...]


class MovingSubscribers:
    """The moving subscribers of one broker.

    `untold` gives the number of a client's further traced publications, `front_end` its front end,
    or itself.
    """

    def __init__(
        self,
        broker: BrokerId,
        terms: MovingTerms,
        untold: Callable[[ClientId], int],
        front_end: Callable[[ClientId], ClientId],
    ) -> None:
        self._broker = broker
        self._terms = terms
        self._untold = untold
        self._front_end = front_end
        # Deliveries to each client, by publisher.
        self._shares: dict[ClientId, dict[ClientId, SubscriberShare]] = {}
        self._asked: dict[ClientId, _AskedMove] = {}
        self._questions = 0

    def on_traces(
        self,
        publisher: ClientId,
        session: PlannedSession,
        had: Mapping[ClientId, int],
        staying: Container[ClientId],
        now_us: int,
        out: list[Effect],
        *,
        others: int = 0,
        times: int = 1,
    ) -> None:
        """A publisher's session is over, with these deliveries to local clients.

        Clients in `staying` are not moved by their deliveries; `others` counts deliveries to
        unnamed clients. The session stands for `times` as many.
        """
        once, twice = others, 0
        for bits in had.values():
            twice |= once & bits
            once |= bits
        shares: dict[int, SubscriberShare] = {}
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
        """A client's round trips; returns whether they were requested here."""
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
        """Its subscriptions have changed, or it has been decided about: its shares are void."""
        self._shares.pop(client, None)
        if self._asked.pop(client, None) is not None:
            out.append(CancelTimer(_timer(client)))

    # --- steps --------------------------------------------------------------------------------

    def _add(self, client: ClientId, publisher: ClientId, share: SubscriberShare) -> None:
        shares = self._shares.setdefault(client, {})
        known = shares.get(publisher)
        if known is not None and known.session.entry == share.session.entry:
            known.add(share)
        else:  # deliveries from another entry say nothing of this one
            shares[publisher] = SubscriberShare(share.session, share.count, dict(share.handled))

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
        self._asked[client] = _AskedMove(session, figures, candidates)
        brokers = tuple(dict.fromkeys((*candidates, self._broker)))
        out.append(SetTimer(_timer(client), now_us + self._terms.ping_timeout_us))
        out.append(Notify(self._front_end(client), PingRequest(session, brokers)))


def _timer(client: ClientId) -> TimerKey:
    return TIMER, client
