"""What the machine delivers to a broker's door, on its way to the clients that asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.effects import Deliver
from shoal.ledger import Ledger
from shoal.model import Publication
from shoal.mqtt.door.network import TO_ATTRIBUTE, Door
from shoal.mqtt.door.repeats import Taker, stream_of, taker
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.fan_out import FanOut
from shoal.mqtt.sessions.had import Lacking
from shoal.mqtt.sessions.retained import RetainedStore


class Arrivals:
    """Each publication once, in the order in which they come; what brokers say to each other, too.

    `lacking` says what sessions may lack that came before they did.
    """

    def __init__(
        self,
        door: Door,
        federation: Federation,
        fan_out: FanOut,
        retained: RetainedStore,
        audience: Audience,
        lacking: Lacking,
    ) -> None:
        self._door = door
        self._federation = federation
        self._fan_out = fan_out
        self._retained = retained
        self._audience = audience
        self._lacking = lacking
        self.journal: Journal | None = None
        # How many the machine has delivered a second time.
        self.repeated = 0
        self._repeats: Taker | None = None
        self._ordered_by: str | None = None
        self._are_in_streams = True
        # Behind a message that is still handed to many.
        self._waiting: list[Deliver] = []

    def notice_repeats(
        self,
        heard: Mapping[str, int],
        ordered_by: str | None = None,
        *,
        keeps_order: bool = True,
        has_detours: bool = False,
    ) -> None:
        """The machine may deliver again what was heard before, or is from now on.

        Where the network does not keep publishers' order, `ordered_by` is the attribute by whose
        text it is kept, if by any; `has_detours` is as in `shoal.mqtt.door.repeats`.
        """
        self._ordered_by = ordered_by
        self._are_in_streams = keeps_order or ordered_by is not None
        self._repeats = taker(heard, ordered_by, keeps_order=keeps_order, has_detours=has_detours)

    def register(self, ledger: Ledger) -> None:
        if (repeats := self._repeats) is not None:
            ledger.register("publications that were delivered", repeats.measure)

    def take(self, deliveries: Iterable[Deliver], now_us: int) -> None:
        """Hand on what the machine has delivered; what is behind a message to many waits."""
        if self._fan_out.spreading.is_on or self._waiting:
            self._wait(deliveries)
        else:
            self._take(deliveries, now_us)

    def _wait(self, deliveries: Iterable[Deliver]) -> None:
        if not self._waiting:
            self._fan_out.spreading.then(self._go_on)
        self._waiting += deliveries

    def _go_on(self, now_us: int) -> None:
        waiting, self._waiting = self._waiting, []
        self._take(waiting, now_us)

    def _take(self, deliveries: Iterable[Deliver], now_us: int) -> None:
        door, repeats, fan_out = self._door, self._repeats, self._fan_out
        journal = self.journal if self._are_in_streams else None
        audience = self._audience if self._audience.is_asked else None
        spreading = fan_out.spreading
        left = iter(deliveries)
        for delivery in left:
            publication = delivery.routed.publication
            is_said = TO_ATTRIBUTE in publication.attributes
            if is_said or publication.assured:
                # What is written of it is written with what comes of it.
                fan_out.settle()
            if spreading.is_on:
                self._wait((delivery, *left))
                return
            if repeats is not None and not repeats.take(publication):
                self._repeat(publication, now_us)
                continue
            if journal is not None and publication.assured:
                journal.hear(stream_of(publication, self._ordered_by), publication.sequence)
            if is_said:
                if publication.publisher != door.client:
                    self._federation.hear(publication.body, now_us)
                continue
            message = door.message(publication, now_us)
            if message is not None:
                if message.retain:
                    self._retained.keep(message, now_us)
                if audience is not None and delivery.routed.mark is not None:
                    audience.note(delivery.routed, message, now_us)
                fan_out.gather(message, now_us)

    def _repeat(self, publication: Publication, now_us: int) -> None:
        """The machine has delivered this before, but maybe before some session was here."""
        self.repeated += 1
        if not publication.assured or TO_ATTRIBUTE in publication.attributes:
            return
        stream, number = stream_of(publication, self._ordered_by), publication.sequence
        if self._lacking.covers(stream, number):
            message = self._door.message(publication, now_us)
            if message is not None:
                self._fan_out.make_up(message, stream, number, now_us)
