"""Traces messages at one broker: decides at the entry, and keeps spans."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from shoal.attributes import TOPIC_ATTRIBUTE, Json
from shoal.broker.effects import Deliver, Effect, Input, Received, Requested, Send
from shoal.language import format_filter, parse
from shoal.ledger import Ledger, LedgerMeasure
from shoal.matching import FilterVerdict, explain, matches
from shoal.matching.topics.filters import read_topic_filter, topic_matches
from shoal.model import EVERYTHING, Filter, FilterError, Publication
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.runtime.bounded_lines import LogBucket
from shoal.runtime.tracing.spans import (
    DELIVERED,
    DROPPED,
    NO,
    SENT,
    WAITING,
    ClientSpan,
    EnteredSpan,
    HopSpan,
    TracedMessage,
    TraceSample,
)

FLAG = "$trace"
# Messages that are kept, and subscribers of each.
MOST_TRACED, MOST_CLIENTS = 500, 100
# Content filters that are explained for one topic filter.
MOST_ASKED = 100
# Flagged messages that are traced: at once, and each second.
FLAGGED_BURST, FLAGGED_PER_S = 20.0, 20.0
# Sampled messages that are traced: at once, and each second.
SAMPLED_BURST, SAMPLED_PER_S = 50.0, 10.0
LONGEST_SAMPLE_S = 86_400.0
MOST_CHARACTERS = 400
TRACED_BYTES, SPAN_BYTES = 2_000, 1_000


class Tracer:
    """The traces of one broker; `clock` is its clock, in µs."""

    def __init__(self, clients: BrokerClients, json: Json, clock: Callable[[], int]) -> None:
        self.sample: TraceSample | None = None
        self._clients, self._json, self._clock = clients, json, clock
        self._where: Filter = EVERYTHING
        self._seen = 0
        self._flagged = LogBucket(FLAGGED_BURST, FLAGGED_PER_S, clock())
        self._sampled = LogBucket(SAMPLED_BURST, SAMPLED_PER_S, clock())
        self._traced: OrderedDict[str, TracedMessage] = OrderedDict()
        # The label of the message that is being published.
        self._label = ""
        # Reasons of drops within the fan-out that is under way, by message and client.
        self._drops: dict[tuple[str, str], str] = {}

    def register(self, ledger: Ledger) -> None:
        def measure() -> LedgerMeasure:
            spans = sum(len(each.clients) + len(each.hops) for each in self._traced.values())
            size = len(self._traced) * TRACED_BYTES + spans * SPAN_BYTES
            most = MOST_TRACED * (TRACED_BYTES + 2 * MOST_CLIENTS * SPAN_BYTES)
            return LedgerMeasure(len(self._traced), size, MOST_TRACED, most)

        ledger.register("traced messages", measure)

    # --- orders and questions -----------------------------------------------------------------

    async def order(self, query: Mapping[str, str]) -> str:
        """Begin a sample: `topic`, `where`, `each` (one of so many) and `seconds`; 0 ends it.

        Returns the reason why not, or nothing.
        """
        try:
            seconds = float(query.get("seconds", "600"))
            each = int(query.get("each", "1000"))
            if not 0 <= seconds <= LONGEST_SAMPLE_S or math.isnan(seconds):
                return f"seconds: {seconds:g} is not from 0 to {LONGEST_SAMPLE_S:g}"
            if each < 1:
                return f"each: {each} is no number from 1 on"
            topic = query.get("topic", "#")
            read_topic_filter(topic)
            where = query.get("where", "").strip()
            self._where = parse(where) if where else EVERYTHING
        except ValueError as error:
            return str(error)
        until_us = self._clock() + round(1e6 * seconds)
        self.sample = (
            TraceSample(topic=topic, where=where, each=each, until_us=until_us) if seconds else None
        )
        return ""

    async def traces(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The traced messages; of one `key` or label with their spans, else a line for each."""
        wanted = query.get("key", "")
        sample = None if self.sample is None else msgspec.to_builtins(self.sample)
        if wanted:
            found = [each for each in self._traced.values() if wanted in (each.key, each.label)]
            return {"traces": [msgspec.to_builtins(each) for each in found], "sample": sample}
        rows = [_summary(each) for each in reversed(self._traced.values())]
        return {"traces": rows, "sample": sample}

    # --- the entry ----------------------------------------------------------------------------

    def consider(self, message: PublishedMessage) -> None:
        """Decide whether a message that enters here is traced."""
        self._label = ""
        for name, value in message.properties.user_properties:
            if name == FLAG:
                if self._flagged.take(self._clock()):
                    message.traced = True
                    self._label = value[:200]
                return
        if self.sample is not None and self._is_sampled(message, self.sample):
            message.traced = True

    def _is_sampled(self, message: PublishedMessage, sample: TraceSample) -> bool:
        now_us = self._clock()
        if now_us >= sample.until_us:
            self.sample = None
            return False
        if not topic_matches(sample.topic, message.topic):
            return False
        if self._where != EVERYTHING and not matches(
            self._where, attributes_of(message, self._json)
        ):
            return False
        self._seen += 1
        return self._seen % sample.each == 0 and self._sampled.take(now_us)

    def entered(self, message: PublishedMessage) -> None:
        """A traced message has its key."""
        session = self._clients.sessions.get(message.publisher)
        self._of(message).entered = EnteredSpan(
            client=message.publisher,
            user=session.user if session is not None else "",
            qos=message.qos,
            at_us=self._clock(),
        )

    def settled(self, publications: Iterable[Publication]) -> None:
        """Publications of this broker's clients are settled."""
        for publication in publications:
            if publication.traced:
                traced = self._traced.get(_key(*publication.key))
                if traced is not None and traced.entered is not None:
                    traced.entered.settled_us = self._clock()

    # --- hops ---------------------------------------------------------------------------------

    def handled(self, input: Input, effects: Iterable[Effect], now_us: int, waited_us: int) -> None:
        """The machine has handled an input whose first publication is traced; it has no other."""
        if type(input) is Received:
            carrier = input.message
            publication = carrier.publications[0].publication  # type: ignore[attr-defined]
            source = input.neighbour
        else:
            assert type(input) is Requested
            publication = input.request.publications[0]  # type: ignore[attr-defined]
            source = ""
        targets = [effect.neighbour for effect in effects if type(effect) is Send]
        self._of_publication(publication).hops.append(
            HopSpan(
                source=source,
                at_us=now_us - waited_us,
                waited_us=waited_us,
                took_us=max(0, self._clock() - now_us),
                targets=list(dict.fromkeys(targets)),
                deliveries=sum(type(effect) is Deliver for effect in effects),
            )
        )

    # --- subscribers --------------------------------------------------------------------------

    def routed(self, message: PublishedMessage, now_us: int) -> None:
        """A traced message has been handed to its subscribers here."""
        traced = self._of(message)
        attributes = attributes_of(message, self._json)
        for subscription in self._asked(message.topic):
            if len(traced.clients) >= MOST_CLIENTS:
                traced.left_out += 1
                continue
            self._add_client(traced, subscription, message, attributes, now_us)
        self._drops.clear()

    def handed(
        self, message: PublishedMessage, subscription: ClientSubscription, now_us: int
    ) -> None:
        """A traced message has been handed to the chosen member of a shared subscription."""
        attributes = attributes_of(message, self._json)
        self._add_client(self._of(message), subscription, message, attributes, now_us)
        self._drops.clear()

    def _asked(self, topic: str) -> Iterator[ClientSubscription]:
        """Subscriptions whose topic filter matches, whatever their content filter says."""
        seen: dict[ClientSubscription, None] = {}
        for plain, asked, _ in self._clients.subscriptions.asked(topic, MOST_ASKED):
            seen.update(dict.fromkeys(asked))
            if plain is not None:
                seen[plain] = None
        known = self._clients.subscriptions.known.get(topic)
        if known is not None and known.all is not None:
            seen.update(dict.fromkeys(known.all))
        yield from seen

    def _add_client(
        self,
        traced: TracedMessage,
        subscription: ClientSubscription,
        message: PublishedMessage,
        attributes: Mapping[str, Any],
        now_us: int,
    ) -> None:
        session = subscription.session
        why = explain(subscription.content, dict(attributes))
        is_match = why.verdict is FilterVerdict.TRUE
        span = ClientSpan(
            client=session.client_id,
            filter=_filter_text(subscription),
            qos=min(message.qos, subscription.qos),
            at_us=now_us,
            state=NO,
            verdict="" if subscription.content == EVERYTHING else _decisive(why),
        )
        traced.clients.append(span)
        if not is_match:
            return
        if subscription.no_local and session.client_id == message.publisher:
            span.why = "it published the message itself (no local)"
            return
        if session.diversion is not None:
            span.state, span.why = WAITING, "its session is on its way to another broker"
            return
        span.state = session.fate_of(message, span.qos)
        match span.state:
            case "waiting":
                away = session.session_writer is None
                queued = f"{session.queued:,} messages are in its queue"
                span.why = f"it is disconnected; {queued}" if away else queued
            case "dropped" if session.session_writer is None:
                span.why = "it is disconnected, and QoS 0 is not kept for it"
            case "delivered":
                span.ended_us = now_us
        # A drop is reported before the fan-out is over.
        span.why = self._drops.pop((traced.key, span.client), span.why)

    def dropped(self, client: str, message: PublishedMessage, why: str) -> None:
        """A traced message was dropped for a client."""
        traced = self._traced.get(_key_of(message))
        if traced is None:
            return
        for span in traced.clients:
            if span.client == client and span.state in (SENT, WAITING):
                span.state, span.why, span.ended_us = DROPPED, why, self._clock()
                return
        self._drops[traced.key, client] = why

    def acknowledged(self, client: str, message: PublishedMessage) -> None:
        """A client has acknowledged a traced message, or it is done with for another reason."""
        traced = self._traced.get(_key_of(message))
        for span in traced.clients if traced is not None else ():
            if span.client == client and span.state in (SENT, WAITING):
                span.state, span.why, span.ended_us = DELIVERED, "", self._clock()

    # --- records ------------------------------------------------------------------------------

    def _of(self, message: PublishedMessage) -> TracedMessage:
        key = _key_of(message)
        traced = self._traced.get(key)
        if traced is None or not traced.publisher:
            traced = self._record(key, message.topic, message.published_us)
            traced.label, self._label = self._label or _label_of(message), ""
            traced.publisher, traced.bytes = message.publisher, len(message.payload)
        return traced

    def _of_publication(self, publication: Publication) -> TracedMessage:
        """The record at a broker that may not read the message."""
        topic = str(publication.attributes.get(TOPIC_ATTRIBUTE, ""))
        key = _key(*publication.key)
        traced = self._record(key, topic, publication.published_us)
        if not traced.attributes:
            traced.attributes = {
                name: value
                for name, value in publication.attributes.items()
                if not name.startswith("$")
            }
        return traced

    def _record(self, key: str, topic: str, published_us: int) -> TracedMessage:
        traced = self._traced.get(key)
        if traced is None:
            traced = self._traced[key] = TracedMessage(
                key=key,
                label="",
                publisher="",
                topic=topic,
                published_us=published_us,
                bytes=0,
                attributes={},
            )
            if len(self._traced) > MOST_TRACED:
                self._traced.popitem(last=False)
        return traced


def _key(publisher: str, sequence: int) -> str:
    return f"{publisher}/{sequence}"


def _key_of(message: PublishedMessage) -> str:
    if message.key is not None:
        return _key(*message.key)
    return _key(message.publisher, message.published_us)


def _label_of(message: PublishedMessage) -> str:
    found = (value for name, value in message.properties.user_properties if name == FLAG)
    return next(found, "")[:200]


def _filter_text(subscription: ClientSubscription) -> str:
    if subscription.content == EVERYTHING:
        return subscription.topic_filter
    try:
        return f"{subscription.topic_filter} where {format_filter(subscription.content)}"
    except FilterError:
        return f"{subscription.topic_filter} where …"


def _decisive(why: Any) -> str:
    """The values that decide a filter: of all parts if it is TRUE, else of those that are not."""
    return str(why.text(everything=why.verdict is FilterVerdict.TRUE))[:MOST_CHARACTERS]


def _summary(traced: TracedMessage) -> dict[str, Any]:
    states: dict[str, int] = {}
    for span in traced.clients:
        states[span.state] = states.get(span.state, 0) + 1
    return {
        "key": traced.key,
        "label": traced.label,
        "publisher": traced.publisher,
        "topic": traced.topic,
        "published_us": traced.published_us,
        "is_first": traced.entered is not None,
        "states": states,
    }
