"""The subscriber of this folder's random networks, with checks of its own deliveries."""

from __future__ import annotations

from shoal.broker.effects import Deliver
from shoal.model import Publication
from shoal.mqtt.front_end.deduplication import DuplicateSink, OrderedDeduplication, stream_of


class Subscriber:
    """A subscriber at one incarnation of a broker; `least` is its lower bound of x."""

    def __init__(
        self, id: str, home: str, least: int, since_us: int, repeats: DuplicateSink
    ) -> None:
        self.id = id
        self.home = home
        self.least = least
        self.since_us = since_us
        self.until_us: int | None = None
        self.topic = ""
        # By key, the stream in which it is ordered.
        self.got: dict[tuple[str, int], str] = {}
        # The publications that cannot be late because of another way during a disconnection.
        self.in_order: OrderedDeduplication | None = None
        self.timely: list[Publication] = []
        self.ordered_by: str | None = None
        self.problems: list[str] = []
        self._repeats = repeats

    def deliver(self, delivery: Deliver) -> None:
        publication = delivery.routed.publication
        if not self._repeats.take(publication):
            return
        if publication.key in self.got:
            self.problems.append(f"{self.id} got {publication.key} twice")
        if not self.wants(publication):
            self.problems.append(f"{self.id} got {publication.key} unasked")
        self.got[publication.key] = stream_of(publication, self.ordered_by)
        if self.in_order is not None and self.in_order.take(publication):
            self.timely.append(publication)

    def wants(self, publication: Publication) -> bool:
        attributes = publication.attributes
        is_above = attributes["x"] >= self.least  # type: ignore[operator]
        return is_above and self.topic in ("", attributes.get("topic"))

    def notify(self, message: object) -> None: ...
