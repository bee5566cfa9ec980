"""All replays of one broker, and its questions to brokers with logs.

| event | does |
| --- | --- |
| SUBSCRIBE with `$from` | a gate for the subscription, or the reason to refuse it |
| SUBACK sent, or the client of an unfinished one connects | begins a replay, or lets it wait for another of its user |
| timer | the next step of a replay, unless its client has gone |
| LogAsked | reads the own log, by an effect; then LogTold |
| LogTold | passes it to the replay that asked |
"""  # noqa: E501

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

from shoal.ledger import Ledger, LedgerMeasure
from shoal.log.instants import begin_us
from shoal.log.slices import LogSlice
from shoal.model import BrokerId
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import LogAsked, LogTold, encode_control
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.notices import Notices, Party
from shoal.mqtt.replaying.log_replay import LogReplay
from shoal.mqtt.replaying.log_source import LogSource
from shoal.mqtt.replaying.reading import ReadLog
from shoal.mqtt.sessions.live_gate import LiveGate
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.rows import where_of
from shoal.mqtt.sessions.subscribing import PastRefusal
from shoal.mqtt.timers import MqttTimers

REPLAY_TIMER = "replay"
# Chosen records of one answer, in bytes; one record more may be in it.
PART_BYTES = 65_536
# Replays of all users at a time; those of clients that come back wait.
MOST_REPLAYS = 256


class LogReplays:
    """The replays of `broker_id`; `limits` returns the present ones.

    The driver sets `brokers`, which returns the brokers of the network that keep a log, `keeps`,
    which tells the publications that logs keep, and `has_log`.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        limits: Callable[[], MqttLimits],
        timers: MqttTimers,
        notices: Notices,
        front_end: FrontEnd | None,
        federation: Federation | None,
        now_us: int,
    ) -> None:
        self.brokers: Callable[[], Collection[BrokerId]] = tuple
        self.keeps: Callable[[PublishedMessage], bool] | None = None
        self.has_log = False
        self.is_networked = front_end is not None
        self._broker_id = broker_id
        self._limits = limits
        self._timers = timers
        self._notices = notices
        self._front_end = front_end
        self._federation = federation
        self._replays: dict[LiveGate, LogReplay] = {}
        # Subscriptions whose user has as many replays as are allowed.
        self._waiting: OrderedDict[LiveGate, ClientSubscription] = OrderedDict()
        self._asked: dict[int, tuple[LogReplay, LogSource]] = {}
        self._numbers = count(now_us)
        # Effects since the last `take`.
        self.effects: list[ReadLog] = []
        if federation is not None:
            federation.at_log = self.on_control

    def register(self, ledger: Ledger) -> None:
        """Enter the replays in the memory ledger."""

        def replays() -> LedgerMeasure:
            size = sum(
                each.gate.held_bytes + PART_BYTES * len(each.sources)
                for each in self._replays.values()
            )
            return LedgerMeasure(len(self._replays), size, MOST_REPLAYS)

        ledger.register("replays of logs", replays)

    @property
    def status(self) -> list[dict[str, Any]]:
        """The replays, how far each is, and the brokers that owe it an answer."""
        return [
            {
                "client": each.session.client_id,
                "topic_filter": each.subscription.text,
                "sent_us": each.sent_us,
                "waits_for": each.waits_for,
                "held": len(each.gate.held),
            }
            for each in self._replays.values()
        ]

    def take(self) -> list[ReadLog]:
        """The effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    # --- subscriptions ------------------------------------------------------------------------

    def gate(
        self, session: Session, since: str, is_shared: bool, now_us: int
    ) -> LiveGate | PastRefusal:
        """The gate of a new subscription, or the reason to refuse it."""
        if is_shared:
            why = "a shared subscription has no past; subscribe without $share, or read the log"
            return PastRefusal(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, why)
        try:
            from_us = begin_us(since, now_us)
        except ValueError as error:
            return PastRefusal(ReasonCode.TOPIC_FILTER_INVALID, f"$from: {error}")
        brokers = self.brokers()
        if not brokers:
            why = "$from: no broker of this network keeps a log; see [log] in the network file"
            return PastRefusal(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, why)
        most = self._limits().maximum_user_replays
        if self._is_full(session):
            why = f"$from: {most} subscriptions of this user still get their past"
            if len(self._replays) >= MOST_REPLAYS:
                why = f"$from: {MOST_REPLAYS} subscriptions at this broker still get their past"
            return PastRefusal(ReasonCode.QUOTA_EXCEEDED, why)
        return LiveGate(since, from_us, brokers)

    def _is_full(self, session: Session) -> bool:
        """Whether there are as many replays of a session's user as are allowed, or in all.

        A client without a user is one by itself.
        """
        user = session.user or session.client_id
        others = [each.session for each in self._replays.values()]
        count = sum(user == (each.user or each.client_id) for each in others)
        return count >= self._limits().maximum_user_replays or len(others) >= MOST_REPLAYS

    def attach(self, subscription: ClientSubscription) -> None:
        """Handle a subscription with a gate that is added here."""
        gate = subscription.gate
        assert gate is not None
        gate.keeps = self.keeps
        if not gate.is_over:
            session = subscription.session
            session.pasts = {**(session.pasts or {}), subscription.text: subscription}
        replay = self._replays.get(gate)
        if replay is not None:
            replay.subscription = subscription

    def entered(self, session: Session, now_us: int) -> None:
        """Go on with the unfinished replays of a client that has connected."""
        for subscription in tuple((session.pasts or {}).values()):
            assert subscription.gate is not None
            former = self._replays.pop(subscription.gate, None)
            if former is not None:
                former.stop()
            self.begin(subscription, now_us)

    def begin(self, subscription: ClientSubscription, now_us: int) -> None:
        """Begin a replay, unless it runs."""
        gate, session = subscription.gate, subscription.session
        if gate is None or gate.is_over or gate in self._replays:
            return
        if self._is_full(session):
            self._waiting[gate] = subscription
            return
        self._waiting.pop(gate, None)
        self._replays[gate] = LogReplay(subscription, self, now_us)
        self._timers.set((REPLAY_TIMER, gate), now_us)

    def run_step(self, gate: LiveGate, now_us: int) -> None:
        """Run a step of a replay."""
        replay = self._replays.get(gate)
        if replay is None:
            return
        if replay.is_wanted:
            replay.step(now_us)
            if not replay.is_over:
                return
            self._forget_past(replay.subscription)
        else:
            replay.stop()
            if replay.session.subscriptions.get(replay.subscription.text) is not (
                replay.subscription
            ):
                self._forget_past(replay.subscription)
        self._end_replay(gate, now_us)

    def _forget_past(self, subscription: ClientSubscription) -> None:
        pasts = subscription.session.pasts
        if pasts is not None and pasts.get(subscription.text) is subscription:
            del pasts[subscription.text]

    def _end_replay(self, gate: LiveGate, now_us: int) -> None:
        self._timers.cancel((REPLAY_TIMER, gate))
        del self._replays[gate]
        for number in [n for n, (each, _) in self._asked.items() if each.gate is gate]:
            del self._asked[number]
        for subscription in tuple(self._waiting.values()):
            known = subscription.session.subscriptions.get(subscription.text)
            if known is not subscription or subscription.session.session_writer is None:
                assert subscription.gate is not None
                del self._waiting[subscription.gate]
            else:
                self.begin(subscription, now_us)

    # --- questions and answers ----------------------------------------------------------------

    def ask(self, replay: LogReplay, source: LogSource, now_us: int) -> None:
        """Send a question to the broker of a log."""
        number, subscription = next(self._numbers), replay.subscription
        source.ask(number, now_us)
        self._asked[number] = replay, source
        asked = LogAsked(
            self._broker_id,
            number,
            source.begin,
            replay.gate.from_us,
            subscription.topic_filter,
            where_of(subscription.content),
        )
        if source.broker == self._broker_id:
            source.has_arrived = True
            self._read_log(asked, now_us)
        elif self._front_end is not None:
            body = encode_control(asked)

            def arrived(_: int) -> None:
                if source.asked[-1:] == [number]:
                    source.has_arrived = True

            self._front_end.notice(self._front_end.send(source.broker, body, now_us), arrived)

    def on_control(self, control: LogAsked | LogTold, now_us: int) -> None:
        """Handle a question about the own log, or an answer about another's."""
        if isinstance(control, LogAsked):
            self._read_log(control, now_us)
            return
        replay, source = self._asked.pop(control.number, (None, None))
        if replay is None or source is None:
            return
        if source.broker != control.broker or control.number not in source.asked:
            return
        for number in source.asked:
            self._asked.pop(number, None)
        if self._replays.get(replay.gate) is replay and replay.is_wanted:
            replay.take_answer(source, control, now_us)

    def _read_log(self, asked: LogAsked, now_us: int) -> None:
        if self.has_log:
            self.effects.append(ReadLog(asked))
        else:
            self.told(asked, None, now_us, "it keeps no log")

    def told(self, asked: LogAsked, part: LogSlice | None, now_us: int, problem: str = "") -> None:
        """Answer a question, by a part of the own log or the problem of reading it."""
        told = LogTold(self._broker_id, asked.number, part, self.greatest(now_us), problem)
        if asked.broker == self._broker_id:
            self.on_control(told, now_us)
        elif self._front_end is not None:
            self._front_end.send(asked.broker, encode_control(told), now_us)

    # --- for replays --------------------------------------------------------------------------

    def next_question(self) -> int:
        """The number of the next question."""
        return next(self._numbers)

    def greatest(self, now_us: int) -> int:
        """The greatest number of a publication of this broker."""
        return now_us if self._front_end is None else self._front_end.sequence

    def when_spread(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the subscriptions made so far."""
        if self._federation is None:
            answer(now_us)
        else:
            self._federation.when_spread(answer, now_us)

    def wake(self, replay: LogReplay, at_us: int) -> None:
        """Call `step` of a replay at this time."""
        if self._replays.get(replay.gate) is replay:
            self._timers.set((REPLAY_TIMER, replay.gate), at_us)

    def note_gap(self, replay: LogReplay, text: str) -> None:
        """Tell the operator that publications are missing."""
        who = Party(replay.session.client_id, replay.session.user or None, None)
        self._notices.note("past is missing", who, replay.subscription.text, text)

    def __iter__(self) -> Iterator[LogReplay]:
        return iter(tuple(self._replays.values()))
