"""Arrivals: deliveries of the broker machine to the front end, on their way to the sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.effects import Deliver
from shoal.ledger import Ledger
from shoal.model import Publication
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.front_end.deduplication import DuplicateSink, stream_of, taker
from shoal.mqtt.front_end.network import TO_ATTRIBUTE, FrontEnd
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.deduplication_window import Lacking
from shoal.mqtt.sessions.fan_out import FanOut
from shoal.mqtt.sessions.retained import RetainedStore


class MqttArrivals:
    """Passes each delivery on once and in order, and control messages to the federation.

    `lacking` knows the publications that a transferred session may lack although they came here
    before the session did.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        federation: Federation,
        fan_out: FanOut,
        retained: RetainedStore,
        audience: Audience,
        lacking: Lacking,
    ) -> None:
        self._front_end = front_end
        self._federation = federation
        self._fan_out = fan_out
        self._retained = retained
        self._audience = audience
        self._lacking = lacking
        self.journal: SessionJournal | None = None
        # Duplicates that the machine has delivered.
        self.repeated = 0
        self._repeats: DuplicateSink | None = None
        self._ordered_by: str | None = None
        self._are_in_streams = True
        # Deliveries behind a message whose sliced fan-out runs.
        self._waiting: list[Deliver] = []

    def begin_deduplication(
        self,
        heard: Mapping[str, int],
        ordered_by: str | None = None,
        *,
        keeps_order: bool = True,
        has_detours: bool = False,
    ) -> None:
        """Begin to drop duplicates; `heard` has the last sequence of each stream before the start.

        In a network that does not keep publishers' order, `ordered_by` is the attribute whose text
        defines the streams that are in order, if there is one; `has_detours` is as in
        `shoal.mqtt.front_end.deduplication`.
        """
        self._ordered_by = ordered_by
        self._are_in_streams = keeps_order or ordered_by is not None
        self._repeats = taker(heard, ordered_by, keeps_order=keeps_order, has_detours=has_detours)

    def register(self, ledger: Ledger) -> None:
        if (repeats := self._repeats) is not None:
            ledger.register("publications that were delivered", repeats.measure)

    def take(self, deliveries: Iterable[Deliver], now_us: int) -> None:
        """Pass on deliveries of the machine; those behind a running sliced fan-out wait."""
        if self._fan_out.spreading.is_on or self._waiting:
            self._queue_deliveries(deliveries)
        else:
            self._take_deliveries(deliveries, now_us)

    def _queue_deliveries(self, deliveries: Iterable[Deliver]) -> None:
        if not self._waiting:
            self._fan_out.spreading.then(self._take_waiting)
        self._waiting += deliveries

    def _take_waiting(self, now_us: int) -> None:
        waiting, self._waiting = self._waiting, []
        self._take_deliveries(waiting, now_us)

    def _take_deliveries(self, deliveries: Iterable[Deliver], now_us: int) -> None:
        front_end, repeats, fan_out = self._front_end, self._repeats, self._fan_out
        journal = self.journal if self._are_in_streams else None
        audience = self._audience if self._audience.is_asked else None
        spreading = fan_out.spreading
        left = iter(deliveries)
        for delivery in left:
            publication = delivery.routed.publication
            is_said = TO_ATTRIBUTE in publication.attributes
            if is_said or publication.assured:
                # Flush the batch first: the journal records each message together with its effects.
                fan_out.settle()
            if spreading.is_on:
                self._queue_deliveries((delivery, *left))
                return
            if repeats is not None and not repeats.take(publication):
                self._repeat(publication, now_us)
                continue
            if journal is not None and publication.assured:
                journal.record_received(
                    stream_of(publication, self._ordered_by), publication.sequence
                )
            if is_said:
                if publication.publisher != front_end.client:
                    self._federation.on_control(publication.body, now_us)
                continue
            message = front_end.message(publication, now_us)
            if message is not None:
                if message.retain:
                    self._retained.keep(message, now_us)
                if audience is not None and delivery.routed.mark is not None:
                    audience.note(delivery.routed, message, now_us)
                fan_out.gather(message, now_us)

    def _repeat(self, publication: Publication, now_us: int) -> None:
        """Count a duplicate, and give it to transferred sessions that may lack it."""
        self.repeated += 1
        if not publication.assured or TO_ATTRIBUTE in publication.attributes:
            return
        stream, number = stream_of(publication, self._ordered_by), publication.sequence
        if self._lacking.covers(stream, number):
            message = self._front_end.message(publication, now_us)
            if message is not None:
                self._fan_out.make_up(message, stream, number, now_us)
