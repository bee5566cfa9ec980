"""Conflation in sessions: which messages of `$every` and `$changed` subscriptions go out, and when.

Conflation decides before the session's queue: a held message has no packet identifier, and a
message in flight is never replaced. A message that several subscriptions of a client match is
delivered once, when the first of them lets it pass; those that hold it count it as delivered.

| event | effect |
| --- | --- |
| a subscription without conflation matches, too | delivered at once |
| ... and the queue is full | the queue drops its copy; conflated subscriptions hold the message |
| one subscription lets it pass | delivered; each interval starts again, older held ones are superseded |
| all that let it pass later | held, once for the session; it supersedes older ones |
| none | suppressed |
| the client is disconnected, or its queue is full | held, changed or not; decided when it returns, or there is room |
| ... at QoS 0, disconnected | dropped, as without conflation |
| it was retained before the SUBSCRIBE, and a live one is held, or a later live one came | superseded |
| there are too many keys | the key delivered longest ago is forgotten; its held message goes out |
| the message expires while it is held | dropped at the end of the interval |
| another SUBSCRIBE replaces the subscription | held messages go out first |
| UNSUBSCRIBE, the session ends | held messages are dropped |
| a later message of its stream came before it | superseded: kills and links that fail may change the order |
| the past of a subscription (`$from`) is read | decided by the times of publication, as if it came live |
| the broker is killed | the journal has each key: the end of its interval, its values, its held message |
| the session is transferred | so has the transfer, with the rest of the interval; messages that come later are decided at the target |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence

from shoal.conflation import EndedInterval, KeyCount, KeyName, KeyState, key_name, shortened
from shoal.conflation.conflator import Place, Values
from shoal.ledger import Ledger, LedgerMeasure
from shoal.mqtt.content import AttributeReader
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import (
    ClientSubscription,
    HeldMessage,
    Session,
    SubscriptionConflator,
    qos_for,
)
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timers import MqttTimers

CONFLATION_TIMER = "conflation"
# Intervals that one call of the timer ends.
MOST_AT_ONCE = 500
# The pause before held messages are offered to a full queue again.
RETRY_US = MICROSECONDS // 10
# The approximate memory of a key, without its held message; and the most keys of all subscriptions:
# beyond it a subscription with a new key forgets one of its own.
KEY_BYTES = 600
MOST_KEYS_OF_ALL = 1_000_000

_Decision = tuple[SubscriptionConflator, KeyName, Values, int]


class Conflation:
    """The conflation of one broker's sessions."""

    def __init__(self, timers: MqttTimers, reader: AttributeReader, statistics: Statistics) -> None:
        self._timers = timers
        self._reader = reader
        self._statistics = statistics
        # The keys of all subscriptions.
        self._count = KeyCount()
        self.most_of_all = MOST_KEYS_OF_ALL

    def register(self, ledger: Ledger) -> None:
        ledger.register(
            "keys of conflated subscriptions",
            lambda: LedgerMeasure(self._count.keys, self._count.keys * KEY_BYTES, self.most_of_all),
        )

    # --- subscriptions come and go ------------------------------------------------------------

    def begin(self, subscription: ClientSubscription) -> None:
        """Begin to conflate a subscription, or continue one that another SUBSCRIBE repeats."""
        conflator = subscription.conflator
        assert conflator is not None
        session = subscription.session
        session.conflation = self
        if conflator not in session.conflators:
            session.conflators[conflator] = None
            conflator.count_in(self._count)

    def end(self, subscription: ClientSubscription) -> None:
        """Drop the state of a subscription that has ended, unless another has taken it over."""
        conflator, session = subscription.conflator, subscription.session
        if conflator is None or conflator.subscription is not subscription:
            return
        if conflator in session.conflators:
            del session.conflators[conflator]
            conflator.count_in(KeyCount())
        self._timers.cancel((CONFLATION_TIMER, conflator))
        for key in conflator:
            held = conflator.release(key)
            if held is not None:
                self._let_go(session, held, conflator, is_superseded=False)

    def open_all(self, subscription: ClientSubscription, now_us: int) -> None:
        """Deliver the held messages of a subscription that another SUBSCRIBE replaces."""
        conflator = subscription.conflator
        assert conflator is not None
        for key in tuple(conflator):
            state = conflator.get(key)
            values = () if state is None else state.held_values
            held = conflator.release(key)
            if held is not None:
                self._let_out(conflator, EndedInterval(key, held, values), now_us, now_us)

    # --- messages -----------------------------------------------------------------------------

    def take(
        self,
        message: PublishedMessage,
        session: Session,
        subscriptions: Sequence[ClientSubscription],
        now_us: int,
        *,
        is_retained: bool = False,
    ) -> None:
        """Deliver, hold or suppress a message that matches these subscriptions of one session.

        At least one of them is conflated, or they are gone. `is_retained`: it was retained before
        the SUBSCRIBE.
        """
        passing = [each for each in subscriptions if each.conflator is None]
        opening: list[_Decision] = []
        holding: list[_Decision] = []
        unchanged = 0
        is_away = session.session_writer is None
        for subscription in subscriptions:
            conflator = subscription.conflator
            if conflator is None:
                continue
            qos = min(message.qos, subscription.qos)
            if is_away and not (qos or session.is_moving):
                continue
            at_us = _time_of(message, subscription, now_us)
            key, values = self._read_key(conflator, message)
            if conflator.is_outdated(key, message.key) or (
                is_retained and _follows_live(conflator, key, message)
            ):
                self._statistics.superseded += 1
                continue
            decision = (conflator, key, values, at_us)
            if is_away or not session.has_room_for(message, qos):
                holding.append(decision)
                continue
            ended = conflator.end_interval_of(key, at_us)
            if ended is not None:
                self._let_out(conflator, ended, at_us, now_us)
            if conflator.is_in_interval(key):
                holding.append(decision)
            elif conflator.has_changed(key, values):
                opening.append(decision)
            else:
                conflator.suppressed(key, message.key)
                _note_live(conflator, key, message, is_retained=is_retained)
                unchanged += 1
        if passing and holding and not opening:
            present = passing + [conflator.subscription for conflator, *_ in holding]
            if not session.has_room_for(message, qos_for(message, present)):
                # The full queue drops the copy of the others, and reports it.
                self._accept(message, session, passing, is_retained, now_us)
                passing = []
        if passing or opening:
            self._deliver(message, session, passing, opening + holding, is_retained, now_us)
        elif holding:
            self._hold_message(message, session, holding, is_retained, now_us)
        elif unchanged:
            self._statistics.suppressed += 1

    def _read_key(
        self, conflator: SubscriptionConflator, message: PublishedMessage
    ) -> tuple[KeyName, Values]:
        """The key and the values of a message."""
        rule = conflator.rule
        if not rule.asks:
            return key_name((message.topic,)), ()
        attributes = self._reader.attributes_of(message)
        values = tuple(map(shortened, rule.values_of(attributes)))
        return key_name(rule.key_of(message.topic, attributes)), values

    def _deliver(
        self,
        message: PublishedMessage,
        session: Session,
        passing: list[ClientSubscription],
        decisions: list[_Decision],
        is_retained: bool,
        now_us: int,
    ) -> None:
        for decision in decisions:
            self._note_delivered(*decision, now_us, message.key)
            _note_live(decision[0], decision[1], message, is_retained=is_retained)
        self._accept(
            message,
            session,
            [*passing, *[conflator.subscription for conflator, *_ in decisions]],
            is_retained,
            now_us,
        )

    def _accept(
        self,
        message: PublishedMessage,
        session: Session,
        subscriptions: list[ClientSubscription],
        is_retained: bool,
        now_us: int,
    ) -> None:
        session.accept(
            message,
            qos_for(message, subscriptions),
            is_retained
            or (message.retain and any(each.retain_as_published for each in subscriptions)),
            tuple([one for each in subscriptions for one in each.identifiers]),
            now_us,
        )

    def _note_delivered(
        self,
        conflator: SubscriptionConflator,
        key: KeyName,
        values: Values,
        at_us: int,
        now_us: int,
        place: Place | None,
    ) -> None:
        """Note a delivery for one subscription: an interval starts."""
        self._make_room(conflator, key, now_us)
        superseded = conflator.delivered(key, values, at_us, place)
        self._note_superseded(conflator, superseded)
        self._changed(conflator, key)

    def _hold_message(
        self,
        message: PublishedMessage,
        session: Session,
        decisions: list[_Decision],
        is_retained: bool,
        now_us: int,
    ) -> None:
        """Hold a message for all these subscriptions, in place of older ones."""
        if why := self._reason_to_drop(message, session, decisions):
            session.count_dropped(message, why)
            return
        held = HeldMessage(message, is_retained=is_retained)
        session.count_in(message)
        session.withheld[held] = None
        session.withheld_bytes += message.kept_bytes
        for conflator, key, values, at_us in decisions:
            self._make_room(conflator, key, now_us)
            superseded = conflator.hold(key, values, held, at_us, message.key)
            held.holders[conflator] = key
            _note_live(conflator, key, message, is_retained=is_retained)
            self._note_superseded(conflator, superseded)
            self._changed(conflator, key)

    def _reason_to_drop(
        self, message: PublishedMessage, session: Session, decisions: list[_Decision]
    ) -> str:
        """Why a message cannot be held; empty if it can.

        Held messages that it supersedes make room for it.
        """
        limits, backlog = session.limits, session.backlog
        superseded: dict[HeldMessage, None] = {}
        for conflator, key, *_ in decisions:
            state = conflator.get(key)
            if state is not None and state.held is not None and len(state.held.holders) == 1:
                superseded[state.held] = None
        count = len(session.withheld) - len(superseded)
        size = session.withheld_bytes - sum(each.message.kept_bytes for each in superseded)
        if count >= limits.maximum_queued_messages:
            return f"its held messages are full: {limits.maximum_queued_messages:,} messages"
        if size + message.size > limits.maximum_queued_bytes:
            return f"its held messages are full: {limits.maximum_queued_bytes:,} bytes"
        if superseded:
            return ""
        if backlog.is_full and not message.qos:
            return "the queues of all clients are full, and it was sent at QoS 0"
        if session.is_share_full:
            return f"the queues of its user are full: {limits.maximum_user_queued_bytes:,} bytes"
        return ""

    def _make_room(self, conflator: SubscriptionConflator, key: KeyName, now_us: int) -> None:
        """Forget a key for a new one, if there are too many; its held message goes out."""
        if conflator.get(key) is not None or not len(conflator):
            return
        if not (conflator.is_full_for(key) or self._count.keys >= self.most_of_all):
            return
        oldest = next(iter(conflator))
        ended = conflator.forget_oldest()
        self._statistics.forgotten_keys += 1
        self._changed(conflator, oldest)
        if ended is not None:
            self._let_forgotten_out(conflator, ended.message, now_us)

    def _let_forgotten_out(
        self, conflator: SubscriptionConflator, held: HeldMessage, now_us: int
    ) -> None:
        """Deliver the held message of a key that is forgotten, once for all that hold it."""
        session = conflator.subscription.session
        if held.message.has_expired(now_us):
            session.report_drop(held.message, "it expired while it was held")
            self._let_go(session, held, conflator, is_superseded=False)
            return
        others = _take_from_others(conflator, held, now_us)
        self._drop_held_message(session, held)
        passing = [conflator.subscription]
        self._deliver(held.message, session, passing, others, held.is_retained, now_us)

    # --- held messages go out -----------------------------------------------------------------

    def on_conflation_timer(self, conflator: SubscriptionConflator, now_us: int) -> int:
        """Handle the timer of a subscription: intervals end. Returns the number of messages."""
        conflator.armed_us = None
        subscription = conflator.subscription
        session, gone = subscription.session, 0
        if conflator not in session.conflators or _has_unfinished_past(subscription):
            return 0
        while gone < MOST_AT_ONCE:
            if session.session_writer is None:
                return gone  # the client's return resumes
            ended = conflator.end_interval(now_us)
            if ended is None:
                break
            gone += 1
            held = ended.message
            if not session.has_room_for(held.message, held.qos):
                conflator.hold(ended.key, ended.values, held, now_us, held.message.key)
                self._arm(conflator, now_us + RETRY_US)
                return gone
            self._let_out(conflator, ended, now_us, now_us)
        if (next_us := conflator.next_us) is not None:
            self._arm(conflator, max(next_us, now_us + 1))
        return gone

    def resume(self, session: Session, now_us: int) -> None:
        """Resume a session whose client has returned."""
        for conflator in session.conflators:
            if conflator.next_us is not None:
                self._arm(conflator, now_us)

    def wake(self, subscription: ClientSubscription, now_us: int) -> None:
        """Resume a subscription whose past is over."""
        if subscription.conflator is not None and subscription.conflator.next_us is not None:
            self._arm(subscription.conflator, now_us)

    def forget_at_0(self, session: Session) -> None:
        """Drop the held messages of QoS 0: the client does not fetch them."""
        for held in [each for each in session.withheld if not each.qos]:
            for conflator, key in tuple(held.holders.items()):
                conflator.release(key)
                self._let_go(session, held, conflator, is_superseded=False)

    def _let_out(
        self,
        conflator: SubscriptionConflator,
        ended: EndedInterval[HeldMessage],
        at_us: int,
        now_us: int,
    ) -> None:
        """Deliver a message whose interval has ended, unless it is unchanged or has expired."""
        held, session = ended.message, conflator.subscription.session
        if held.message.has_expired(now_us):
            session.report_drop(held.message, "it expired while it was held")
        elif conflator.has_changed(ended.key, ended.values):
            decisions: list[_Decision] = [(conflator, ended.key, ended.values, at_us)]
            decisions += _take_from_others(conflator, held, at_us)
            self._drop_held_message(session, held)
            self._deliver(held.message, session, [], decisions, held.is_retained, now_us)
            return
        else:
            self._statistics.suppressed += 1
        self._let_go(session, held, conflator, is_superseded=False)
        self._changed(conflator, ended.key)

    def _note_superseded(self, conflator: SubscriptionConflator, held: HeldMessage | None) -> None:
        if held is not None:
            self._let_go(conflator.subscription.session, held, conflator)

    def _let_go(
        self,
        session: Session,
        held: HeldMessage,
        conflator: SubscriptionConflator,
        *,
        is_superseded: bool = True,
    ) -> None:
        """Note that a subscription does not hold a message any more."""
        held.holders.pop(conflator, None)
        if not held.holders and held in session.withheld:
            self._statistics.superseded += is_superseded
            message = held.message
            self._drop_held_message(session, held)
            if message.traced and session.backlog.at_done is not None:
                session.backlog.at_done(session.client_id, message)

    def _drop_held_message(self, session: Session, held: HeldMessage) -> None:
        if held in session.withheld:
            del session.withheld[held]
            session.withheld_bytes -= held.message.kept_bytes
            session.count_out(held.message)

    # --- the journal, timers, state from elsewhere --------------------------------------------

    def _changed(self, conflator: SubscriptionConflator, key: KeyName) -> None:
        session = conflator.subscription.session
        if session.journal is not None:
            session.journal.conflated(conflator, key)
        if session.session_writer is None:
            return  # the client's return resumes
        next_us = conflator.next_us
        if next_us is not None and (conflator.armed_us is None or next_us < conflator.armed_us):
            self._arm(conflator, next_us)

    def _arm(self, conflator: SubscriptionConflator, at_us: int) -> None:
        conflator.armed_us = at_us
        self._timers.set((CONFLATION_TIMER, conflator), at_us)

    def restore(
        self,
        conflator: SubscriptionConflator,
        key: KeyName,
        state: KeyState[HeldMessage],
        now_us: int,
    ) -> None:
        """Restore a key from the journal, or from the broker that had the session."""
        session, held = conflator.subscription.session, state.held
        before = conflator.get(key)
        if before is not None and before.held is not None and before.held is not held:
            # The source was killed, and has sent the key again.
            self._let_go(session, before.held, conflator, is_superseded=False)
        if held is not None and held not in session.withheld:
            session.count_in(held.message)
            session.withheld[held] = None
            session.withheld_bytes += held.message.kept_bytes
        if held is not None:
            held.holders[conflator] = key
        conflator.restore(key, state, now_us)
        if session.session_writer is not None and conflator.next_us is not None:
            self._arm(conflator, conflator.next_us)


def _has_unfinished_past(subscription: ClientSubscription) -> bool:
    """Whether a replay delivers the subscription's past: its times decide."""
    return subscription.gate is not None and not subscription.gate.is_over


def _take_from_others(
    conflator: SubscriptionConflator, held: HeldMessage, at_us: int
) -> list[_Decision]:
    """Take a held message out of the other subscriptions that hold it."""
    decisions: list[_Decision] = []
    for other, key in held.holders.items():
        state = other.get(key)
        if other is not conflator and state is not None:
            decisions.append((other, key, state.held_values, at_us))
    for other, key, *_ in decisions:
        other.release(key)
    return decisions


def _follows_live(
    conflator: SubscriptionConflator, key: KeyName, message: PublishedMessage
) -> bool:
    """Whether a retained message is older than one that came live, which is held or went out."""
    state = conflator.get(key)
    if state is None:
        return False
    holds_live = state.held is not None and not state.held.is_retained
    return holds_live or message.published_us < state.live_us


def _note_live(
    conflator: SubscriptionConflator, key: KeyName, message: PublishedMessage, *, is_retained: bool
) -> None:
    state = conflator.get(key)
    if state is not None and not is_retained:
        state.live_us = max(state.live_us, message.published_us)


def _time_of(message: PublishedMessage, subscription: ClientSubscription, now_us: int) -> int:
    """The time at which a message counts as arrived; a publisher's broker may be ahead."""
    return min(message.published_us, now_us) if _has_unfinished_past(subscription) else now_us
