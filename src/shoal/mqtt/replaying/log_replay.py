"""The replay of one subscription: merges the logs, finds the fence, and goes on live.

| state | event | does → state |
| --- | --- | --- |
| reading | a part of a log | sends records up to the time that all logs were read to, as the client reads |
| reading | all logs were at their ends | asks that every broker know the subscription, then asks each again |
| reading | all have answered that | sets the fence → up to the fence |
| up to the fence | too many live publications are held | drops them → reading |
| up to the fence | all logs are read up to it, and all is sent | sends the held ones → over |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from shoal.log.instants import instant_text
from shoal.log.records import Entry, LogGap, LogRecord
from shoal.log.slices import LogPlace
from shoal.matching.topics.filters import topic_matches
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import LogTold
from shoal.mqtt.replaying.log_source import AGAIN_US, POLL_US, LogSource
from shoal.mqtt.replaying.past_messages import past_message, with_gap
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, Session

# A broker with a log that does not answer for so long is given up.
AWAY_US = 60_000_000
# The work of a record, in queued messages sent: it is made and encoded for one client.
PAST_WORK = 4
# Sentences about missing publications of one message.
MOST_GAPS = 8


class ReplayHost(Protocol):
    """The broker of a replay."""

    is_networked: bool

    def ask(self, replay: LogReplay, source: LogSource, now_us: int) -> None:
        """Send a question to the broker of a log."""

    def when_spread(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the subscriptions made so far."""

    def wake(self, replay: LogReplay, at_us: int) -> None:
        """Call `step` at this time."""

    def next_question(self) -> int:
        """The number of the next question."""

    def greatest(self, now_us: int) -> int:
        """The greatest number of a publication of this broker."""

    def note_gap(self, replay: LogReplay, text: str) -> None:
        """Tell the operator that publications are missing."""


class LogReplay:
    """The replay of `subscription`, whose gate has its state."""

    def __init__(self, subscription: ClientSubscription, host: ReplayHost, now_us: int) -> None:
        assert subscription.gate is not None
        self.subscription = subscription
        self.gate = subscription.gate
        self._host = host
        places = self.gate.places
        self.sources = {
            name: LogSource(name, LogPlace(*places[name]) if name in places else None, now_us)
            for name in sorted(self.gate.brokers)
        }
        self._gaps: list[str] = []
        self._is_feeding = False
        # Whether a fence is set; and the first question whose answer counts for it, None until
        # every broker knows the subscription (0: nothing was asked).
        self._has_fence = False
        self._first_question: int | None = 0
        # The time of the last record that was sent, and of the last step.
        self.sent_us = self.gate.from_us
        self._now_us = now_us
        self.is_over = False
        # No topic filter has U+0000.
        self._feed_name = f"\0{host.next_question()}"

    @property
    def session(self) -> Session:
        return self.subscription.session

    @property
    def _via(self) -> tuple[str, ...]:
        """The subscription's name, if it is conflated."""
        return () if self.subscription.conflator is None else (self.subscription.text,)

    @property
    def is_wanted(self) -> bool:
        """Whether the subscription stands, and its client is connected here."""
        session = self.session
        return (
            self._stands
            and session.session_writer is not None
            and session.going is None
            and not session.is_departed
        )

    @property
    def _stands(self) -> bool:
        known = self.session.subscriptions.get(self.subscription.text)
        return known is self.subscription

    @property
    def waits_for(self) -> list[BrokerId]:
        """The brokers that owe an answer."""
        return [name for name, each in self.sources.items() if each.asked and not each.waiting]

    def stop(self) -> None:
        """Stop; another replay may go on from the gate's places."""
        self.gate.drop_held()
        self.session.drop_feed(self._feed_name)

    # --- steps --------------------------------------------------------------------------------

    def step(self, now_us: int) -> None:
        """Ask, send, and look whether the past is over."""
        self._now_us = now_us
        self._give_up_absent(now_us)
        gate, sources = self.gate, self.sources
        if self._has_fence and not gate.fence:  # too many publications were held
            self._has_fence, self._first_question = False, self._host.next_question()
            for each in sources.values():
                each.go_on()
        if self._has_fence:
            for each in sources.values():
                each.stop_at(gate.fence, self._number_of)
        for each in sources.values():
            if each.is_due(now_us):
                self._host.ask(self, each, now_us)
        self._feed(now_us)
        if not self._has_fence:
            self._seek_fence(now_us)
        if self._has_fence and not self._is_feeding and all(s.is_done for s in sources.values()):
            self._go_live(now_us)
        if not self.is_over:
            # The end of the feed wakes it.
            self._host.wake(self, now_us + (AGAIN_US if self._is_feeding else POLL_US))

    def take_answer(self, source: LogSource, told: LogTold, now_us: int) -> None:
        """Take an answer about a log."""
        part = told.part
        if self.sources.get(source.broker) is not source:
            return  # it was given up meanwhile
        if part is None:
            self._give_up_source(source, told.problem)
            self.step(now_us)
            return
        if part.gone_us and (self.gate.from_us or source.begin is not None):
            when = instant_text(part.gone_us)
            self._note_gap(f"{source.broker}: its log begins at {when}; earlier ones were deleted")
        if part.is_restored:
            self._note_gap(f"{source.broker}: an older copy of its log was put back")
        try:
            source.answer(told.number, part, told.greatest, now_us)
        except ValueError as error:
            self._give_up_source(source, f"its answer cannot be read: {error}")
        self._note_place(source)
        self.step(now_us)

    def _seek_fence(self, now_us: int) -> None:
        sources = self.sources.values()
        if not all(each.is_at_end for each in sources):
            return
        if self._first_question == 0:
            self._first_question = None

            def known(now_us: int) -> None:
                self._first_question = self._host.next_question()
                self._host.wake(self, now_us)

            self._host.when_spread(known, now_us)
        first = self._first_question
        if first is None or any(each.answered < first for each in sources):
            return
        greatest = max([each.greatest for each in sources], default=0)
        self.gate.fence = 1 + max(greatest, self.gate.greatest, self._host.greatest(now_us))
        self._has_fence = True
        self._host.wake(self, now_us)

    def _go_live(self, now_us: int) -> None:
        """Deliver the held publications, and pass later ones."""
        gate, subscription, session = self.gate, self.subscription, self.session
        limits = session.limits
        if self._gaps and not gate.held:
            return  # the next message names them
        if (
            session.queued + len(gate.held) > limits.maximum_queued_messages
            or session.waiting_bytes + gate.held_bytes > limits.maximum_queued_bytes
        ):
            gate.drop_held()
            return
        gate.is_over = self.is_over = True
        while gate.held:
            message = gate.held.popleft()
            if gap := self._take_gaps():
                message = with_gap(message, gap)
            session.deliver(
                message,
                min(message.qos, subscription.qos),
                message.retain and subscription.retain_as_published,
                subscription.identifiers,
                now_us,
                self._via,
            )
        gate.held_bytes = 0
        if session.conflation is not None:
            session.conflation.wake(subscription, now_us)
        gate.places.clear()
        self._record()

    # --- brokers that are away ----------------------------------------------------------------

    def _give_up_absent(self, now_us: int) -> None:
        for each in tuple(self.sources.values()):
            if not each.is_done and each.waits_since_us and now_us - each.waits_since_us > AWAY_US:
                self._give_up_source(each, f"it has not answered for {AWAY_US // 1_000_000} s")

    def _give_up_source(self, source: LogSource, why: str) -> None:
        since = instant_text(max(self.sent_us, self.gate.from_us))
        self._note_gap(f"{source.broker}: its publications since {since} are missing: {why}")
        del self.sources[source.broker]
        self.gate.brokers.discard(source.broker)
        self.gate.places.pop(source.broker, None)
        self._record()

    # --- sending ------------------------------------------------------------------------------

    def _feed(self, now_us: int) -> None:
        if not self._is_feeding and self._first() is not None:
            self._is_feeding = True
            self.session.feed(((self._feed_name, self._messages()),), now_us)

    def _messages(self) -> Iterator[Outgoing | int]:
        """Records of all logs by time, as far as all were read; and the work to skip one."""
        try:
            while self._stands and (source := self._first()) is not None:
                outgoing = self._outgoing(source.broker, source.take())
                self._note_place(source)
                if outgoing is not None:
                    yield outgoing
                yield PAST_WORK
        finally:
            self._is_feeding = False
        self._host.wake(self, 0)

    def _first(self) -> LogSource | None:
        """The log whose record is next; None if none can be sent yet."""
        first: LogSource | None = None
        first_us, until_us = 0, 2**63
        fence = self.gate.fence if self._has_fence else 0
        for each in self.sources.values():
            if fence and not each.is_done:
                each.stop_at(fence, self._number_of)
            if each.is_done:
                continue
            if not each.waiting:
                until_us = min(until_us, each.until_us)
                continue
            time_us = each.waiting[0][1].time_us
            if first is None or time_us < first_us:
                first, first_us = each, time_us
        return first if first_us <= until_us else None

    def _outgoing(self, broker: BrokerId, record: Entry) -> Outgoing | None:
        self.sent_us = record.time_us
        if isinstance(record, LogGap):
            self._note_gap(f"{broker}: {_missing(record)}")
            return None
        subscription = self.subscription
        if subscription.no_local and record.publisher == subscription.session.client_id:
            return None
        if not topic_matches(subscription.topic_filter, record.topic):
            return None
        message = past_message(record)
        if message.has_expired(self._now_us):
            return None
        if gap := self._take_gaps():
            message = with_gap(message, gap)
        retain = record.retain and subscription.retain_as_published
        qos = min(record.qos, subscription.qos)
        return Outgoing(message, qos, retain, subscription.identifiers, via=self._via)

    def _number_of(self, record: LogRecord) -> int:
        return record.number if self._host.is_networked else record.time_us

    def _note_place(self, source: LogSource) -> None:
        if source.place is not None and source.broker in self.sources:
            self.gate.places[source.broker] = (source.place.offset, source.place.run)
        self._record()

    def _record(self) -> None:
        if self.session.journal is not None:
            self.session.journal.replayed(self.subscription)

    def _note_gap(self, text: str) -> None:
        self._host.note_gap(self, text)
        if len(self._gaps) < MOST_GAPS:
            self._gaps.append(text)

    def _take_gaps(self) -> str:
        gaps, self._gaps = self._gaps, []
        return "; ".join(gaps)


def _missing(gap: LogGap) -> str:
    number = "publications" if gap.missing is None else f"{gap.missing} publications"
    since, until = instant_text(gap.from_us), instant_text(gap.to_us)
    return f"{number} between {since} and {until} are not in its log: {gap.reason}"
