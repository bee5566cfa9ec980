"""Dissemination of places: changes of the roster go to all neighbours.

A joiner announces itself to the first neighbour that it meets; granted places and leaves become
known to all brokers eventually. Places that must survive a restart are written to disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from shoal.broker.effects import Effect, Remember, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, Roster, RosterPlace


class PlaceNews:
    """`linked` are all neighbours, those without a place too."""

    def __init__(
        self,
        broker: BrokerId,
        roster: Roster,
        linked: Collection[BrokerId],
        wanted: RosterPlace | None = None,
    ) -> None:
        """`wanted` is the place that this broker asks for when it joins, if it names one."""
        self._broker = broker
        self._wanted = wanted
        self._roster = roster
        self._linked = linked

    def introduce(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link came up: all that is known goes over it."""
        out.append(Send(neighbour, PlacesAnnounced(tuple(self._roster.places.values()))))

    def send(self, news: Collection[RosterPlace], but: BrokerId | None, out: list[Effect]) -> None:
        """Announce changes to all neighbours, but one."""
        if news:
            out += [
                Send(each, PlacesAnnounced(tuple(news)))
                for each in sorted(self._linked)
                if each != but
            ]

    def pass_on(
        self,
        news: list[RosterPlace],
        source: BrokerId | None,
        now_us: int,
        out: list[Effect],
        *,
        is_placed: bool,
    ) -> list[RosterPlace]:
        """Forward the changes from `source`, and decide on them as the registrar.

        Returns all changes.
        """
        self.send(news, source, out)
        out.append(Remember(self._roster.facts))
        if is_placed and self._roster.registrar == self._broker:
            decided = self._roster.decide(now_us)
            if decided:
                self.send(decided, None, out)
                out.append(Remember(self._roster.facts))
            news = news + decided
        return news

    # --- of this broker -----------------------------------------------------------------------

    def come(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """This broker joins at a neighbour: a region of its own would be below that one's."""
        product, own = self._roster.product, self._roster.places.get(self._broker)
        version = now_us if own is None else max(now_us, own.version + 1)
        if self._wanted is not None:
            place = msgspec.structs.replace(self._wanted, version=version)
        else:
            parent = product.position(neighbour).region if neighbour in product else 0
            place = RosterPlace(self._broker, version, PlaceStage.COMES, parent=parent)
        self._merge_and_send([place], out)

    def stay(self, now_us: int, out: list[Effect]) -> list[RosterPlace]:
        """This broker wanted to leave in an earlier incarnation, but stays; returns the change."""
        return self._merge_and_send(
            [self._roster.changed(self._broker, now_us, PlaceStage.THERE)], out
        )

    def announce_left(self, now_us: int, out: list[Effect]) -> None:
        """This broker has left: after a kill it knows that, as others do by then."""
        self._merge_and_send([self._roster.changed(self._broker, now_us, PlaceStage.LEFT)], out)
        out.append(Remember(self._roster.facts))

    def _merge_and_send(
        self, places: Iterable[RosterPlace], out: list[Effect]
    ) -> list[RosterPlace]:
        news = self._roster.merge(places)
        self.send(news, None, out)
        return news
