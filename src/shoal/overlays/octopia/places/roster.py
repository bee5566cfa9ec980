"""Who is where in a product to which brokers come, and from which they go.

Every broker knows all places, and says what is new of them to all its neighbours; of two words
about a broker the later version holds, so they may come over any links in any order.  What would
clash if two decided it, one broker decides: the first that stays (the *registrar*) gives a place to
a broker that joins, and lets one broker go at a time.  A broker that has left and joins again is a
new one: its place, and since when it has it, are the registrar's.

| state | from | then |
| --- | --- | --- |
| wants a place, or the one it names | who comes, of itself | it gets that, or the first free one |
| there | the registrar; of a founder the network file | |
| wants to go | itself | the registrar lets it, when nobody else goes |
| goes | the registrar | others do without it; see `departing.py` |
| left | itself, when nothing depends on it | its place is free |
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shoal.broker.messages import Message
from shoal.model import BrokerId
from shoal.overlays.octopia.places.labels import MAX_CLUSTERS, Position, Product

# Above this nothing is a place: as many regions as there may be brokers.
MAX_REGIONS = 1_000
# Who goes and is not gone after this counts as staying: another may go.
GOES_AT_MOST_US = 30_000_000
NOWHERE = -1


class Stay(enum.Enum):
    """Where a broker is in its life in the network (see the table above)."""

    COMES = "comes"
    THERE = "there"
    WANTS_TO_GO = "wants to go"
    GOES = "goes"
    LEFT = "left"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A word about a broker: where it is, since when, and below which region its own is.

    version  of two words the higher one holds; about when it was said, in µs
    since    when it came, in µs; 0: it was there from the beginning
    region   -1: it has none; of one that comes: the place that it wants, if it is free
    parent   the region above its own; of one that comes: above the new one that it may open
    """

    broker: BrokerId
    version: int
    stay: Stay
    since: int = 0
    region: int = NOWHERE
    cluster: int = NOWHERE
    parent: int = NOWHERE

    @property
    def comes(self) -> bool:
        return self.stay is Stay.COMES

    @property
    def position(self) -> Position | None:
        return None if self.region == NOWHERE else Position(self.region, self.cluster)


class Places(Message, frozen=True):
    """All places, when a link comes up; then what is new of them."""

    introduces = True

    places: tuple[Place, ...]


class Roster:
    """What one broker knows of all places; `product` follows it."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.places: dict[BrokerId, Place] = {}
        for broker in product.brokers:
            region, cluster = product.position(broker)
            parent = product.parent(region)
            above = NOWHERE if parent is None else parent
            self.places[broker] = Place(broker, 0, Stay.THERE, 0, region, cluster, above)
        # Of these a broker that starts knows without being told.
        self._founders = frozenset(self.places)

    def hear(self, places: Iterable[Place]) -> list[Place]:
        """Take in words about brokers; those that are news."""
        news = []
        for place in places:
            known = self.places.get(place.broker)
            if (known is None or place.version > known.version) and _is_sound(place):
                before = self._held_by(place.broker)
                self.places[place.broker] = place
                self._follow(place)
                news.append(place)
                if before is not None and self.product.at(before) is None:
                    news += [each for each in self._fill(before) if each not in news]
        return news

    def _held_by(self, broker: BrokerId) -> Position | None:
        return self.product.position(broker) if broker in self.product else None

    def _fill(self, position: Position) -> list[Place]:
        """Who was given a place, which was not heard to be free until now."""
        named = [
            each
            for each in self.places.values()
            if each.position == position and each.stay not in (Stay.COMES, Stay.LEFT)
        ]
        found = sorted(named, key=lambda each: (each.since, each.broker))[:1]
        for each in found:
            self._follow(each)
        return found

    def _follow(self, place: Place) -> None:
        position, product = place.position, self.product
        if position is None or place.stay in (Stay.COMES, Stay.LEFT):
            product.remove(place.broker)
            return
        if place.broker in product:
            if product.position(place.broker) == position:
                return
            product.remove(place.broker)
        other = product.at(position)
        if other is not None:
            # Two have named one place: who came first keeps it.
            theirs = self.places[other]
            if (theirs.since, other) < (place.since, place.broker):
                return
            product.remove(other)
        parent = None if place.parent == NOWHERE else place.parent
        product.place(place.broker, position, place.since, parent)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What must outlast a restart: what differs from the network file.

        The file of who comes does not say where the others are.
        """
        places, founders = self.places.values(), self._founders
        later = [each for each in places if each.version or each.broker not in founders]
        return {"places": msgspec.to_builtins(later)}

    @property
    def knows_founders(self) -> bool:
        """Whether it knows who was there from the beginning."""
        places = self.places.values()
        return any(each.since == 0 and each.position for each in places if not each.comes)

    def changed(self, broker: BrokerId, now_us: int, stay: Stay) -> Place:
        """The next word about a broker."""
        known = self.places[broker]
        version = max(now_us, known.version + 1)
        return msgspec.structs.replace(known, version=version, stay=stay)

    def is_going(self, broker: BrokerId) -> bool:
        """Whether others shall do without a broker."""
        place = self.places.get(broker)
        return place is not None and place.stay is Stay.GOES

    # --- the registrar ------------------------------------------------------------------------

    def is_registrar(self, broker: BrokerId) -> bool:
        """Whether this is the first broker of those that stay, or of all if none does."""
        there = [each for each in self.places.values() if each.broker in self.product]
        staying = [each for each in there if each.stay is Stay.THERE] or there
        first = min(staying, key=lambda each: (each.since, each.region, each.cluster), default=None)
        return first is not None and first.broker == broker

    def decide(self, now_us: int) -> list[Place]:
        """What the registrar decides next: words to hear and to say."""
        found = []
        for place in sorted(self.places.values(), key=lambda each: (each.version, each.broker)):
            if place.stay is Stay.COMES:
                found.append(self._give(place, now_us))
                self.hear(found[-1:])
        places = sorted(self.places.values(), key=lambda each: (each.version, each.broker))
        going = [each for each in places if each.stay is Stay.GOES]
        wanting = [each for each in places if each.stay is Stay.WANTS_TO_GO]
        if wanting and all(now_us - each.version > GOES_AT_MOST_US for each in going):
            found.append(self.changed(wanting[0].broker, now_us, Stay.GOES))
            self.hear(found[-1:])
        return found

    def _give(self, place: Place, now_us: int) -> Place:
        since = max([now_us, *(each.since + 1 for each in self.places.values())])
        product, wanted = self.product, place.position
        if wanted is None or product.at(wanted) is not None:
            wanted = product.free_position()
        region, cluster = wanted or Position(product.regions, 0)
        is_known = region < product.regions
        parent = product.parent(region) if is_known else min(max(0, place.parent), region - 1)
        return Place(
            place.broker,
            max(now_us, place.version + 1),
            Stay.THERE,
            since,
            region,
            cluster,
            NOWHERE if parent is None else parent,
        )


def known_places(facts: Mapping[str, Any]) -> list[Place]:
    """What a broker remembers of an earlier life."""
    return msgspec.convert(facts.get("places", []), list[Place])


def wanted_place(broker: BrokerId, product: Product) -> Place | None:
    """The place that the rows of its network file name for a broker that joins."""
    if broker not in product:
        return None
    region, cluster = product.position(broker)
    parent = product.parent(region)
    above = NOWHERE if parent is None else parent
    return Place(broker, 0, Stay.COMES, 0, region, cluster, above)


def _is_sound(place: Place) -> bool:
    if place.region == NOWHERE:
        return place.cluster == NOWHERE and place.stay in (Stay.COMES, Stay.LEFT)
    return (
        0 <= place.region < MAX_REGIONS
        and 0 <= place.cluster < MAX_CLUSTERS
        and NOWHERE <= place.parent < place.region
        and (place.parent == NOWHERE) == (place.region == 0)
    )
