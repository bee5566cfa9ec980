"""What one broker hears of places, and what it says: what is new of them goes to all neighbours.

Who comes says so to the first neighbour that it meets; who has been given a place, or has left, is
known to everybody sooner or later.  What must outlast a restart is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from shoal.broker.effects import Effect, Remember, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.places.roster import Place, Places, Roster, Stay


class News:
    """`linked` are all neighbours, those without a place too."""

    def __init__(
        self,
        broker: BrokerId,
        roster: Roster,
        linked: Collection[BrokerId],
        wanted: Place | None = None,
    ) -> None:
        """`wanted` is the place that this broker asks for when it joins, if it names one."""
        self._broker = broker
        self._wanted = wanted
        self._roster = roster
        self._linked = linked

    def introduce(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link came up: all that is known goes over it."""
        out.append(Send(neighbour, Places(tuple(self._roster.places.values()))))

    def say(self, news: Collection[Place], but: BrokerId | None, out: list[Effect]) -> None:
        """Tell all neighbours, but one."""
        if news:
            out += [Send(each, Places(tuple(news))) for each in sorted(self._linked) if each != but]

    def pass_on(
        self,
        news: list[Place],
        source: BrokerId | None,
        now_us: int,
        out: list[Effect],
        *,
        is_placed: bool,
    ) -> list[Place]:
        """Say what `source` has said, and as the registrar what comes of it; all of that."""
        self.say(news, source, out)
        out.append(Remember(self._roster.facts))
        if is_placed and self._roster.is_registrar(self._broker):
            decided = self._roster.decide(now_us)
            if decided:
                self.say(decided, None, out)
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
            place = Place(self._broker, version, Stay.COMES, parent=parent)
        self._hear_and_say([place], out)

    def stay(self, now_us: int, out: list[Effect]) -> list[Place]:
        """This broker, which was to go in an earlier life, does not; what is new of that."""
        return self._hear_and_say([self._roster.changed(self._broker, now_us, Stay.THERE)], out)

    def say_left(self, now_us: int, out: list[Effect]) -> None:
        """This broker has left."""
        self._hear_and_say([self._roster.changed(self._broker, now_us, Stay.LEFT)], out)

    def _hear_and_say(self, places: Iterable[Place], out: list[Effect]) -> list[Place]:
        news = self._roster.hear(places)
        self.say(news, None, out)
        return news
