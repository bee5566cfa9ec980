"""Roster: the versioned places of all brokers in a product that brokers join and leave.

Every broker knows all places, and sends changes to all its neighbours; of two entries about a
broker the higher version is valid, so they may come over any links in any order. One broker makes
the decisions that could conflict: the first that stays (the *registrar*) gives a place to a joiner,
and permits one leave at a time. A broker that has left and joins again is a new one: the registrar
sets its place and its time of join.

| state | set by | then |
| --- | --- | --- |
| wants a place, or a named one | the joiner | it gets that, or the first free one |
| there | the registrar; for a founder the network file | |
| wants to leave | itself | the registrar permits it, when no other broker leaves |
| leaves | the registrar | others take its place; see `departing.py` |
| dead | any broker, as an operator says | it decides nothing; it is there again when it returns |
| left | itself, when no broker depends on it | its place is free |
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
# A leave that takes longer counts as cancelled: another may begin.
GOES_AT_MOST_US = 30_000_000
NOWHERE = -1


class PlaceStage(enum.Enum):
    """A broker's state in the network (see the table above)."""

    COMES = "comes"
    THERE = "there"
    WANTS_TO_GO = "wants to go"
    GOES = "goes"
    DEAD = "dead"
    LEFT = "left"


class RosterPlace(msgspec.Struct, frozen=True, array_like=True):
    """An entry about a broker: its place, since when, and the region above its own.

    version  of two entries the higher one is valid; about when it was made, in µs
    since    when it joined, in µs; 0: a founder
    region   -1: it has none; of a joiner: the place that it wants, if it is free
    parent   the region above its own; of a joiner: above the new one that it may open
    """

    broker: BrokerId
    version: int
    stay: PlaceStage
    since: int = 0
    region: int = NOWHERE
    cluster: int = NOWHERE
    parent: int = NOWHERE

    @property
    def comes(self) -> bool:
        return self.stay is PlaceStage.COMES

    @property
    def position(self) -> Position | None:
        return None if self.region == NOWHERE else Position(self.region, self.cluster)


class PlacesAnnounced(Message, frozen=True):
    """All places, when a link comes up; then changes of them."""

    introduces = True

    places: tuple[RosterPlace, ...]


class Roster:
    """The places as one broker knows them; `product` follows them."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.places: dict[BrokerId, RosterPlace] = {}
        for broker in product.brokers:
            region, cluster = product.position(broker)
            parent = product.parent(region)
            above = NOWHERE if parent is None else parent
            self.places[broker] = RosterPlace(
                broker, 0, PlaceStage.THERE, 0, region, cluster, above
            )
        # Brokers that a starting broker knows from the network file.
        self._founders = frozenset(self.places)

    def merge(self, places: Iterable[RosterPlace]) -> list[RosterPlace]:
        """Merge entries about brokers; returns those that are new."""
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

    def _fill(self, position: Position) -> list[RosterPlace]:
        """A broker was given a place that was not known to be free until now."""
        named = [
            each
            for each in self.places.values()
            if each.position == position and each.stay not in (PlaceStage.COMES, PlaceStage.LEFT)
        ]
        found = sorted(named, key=lambda each: (each.since, each.broker))[:1]
        for each in found:
            self._follow(each)
        return found

    def _follow(self, place: RosterPlace) -> None:
        position, product = place.position, self.product
        if position is None or place.stay in (PlaceStage.COMES, PlaceStage.LEFT):
            product.remove(place.broker)
            return
        if place.broker in product:
            # One that has left and come back to its place is the last there, not the first.
            known_us = product.joined(position.cluster).get(position.region)
            if product.position(place.broker) == position and known_us == place.since:
                return
            product.remove(place.broker)
        other = product.at(position)
        if other is not None:
            # Two have named one place: the earlier joiner keeps it.
            theirs = self.places[other]
            if (theirs.since, other) < (place.since, place.broker):
                return
            product.remove(other)
        parent = None if place.parent == NOWHERE else place.parent
        product.place(place.broker, position, place.since, parent)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that must survive a restart: the difference to the network file.

        The file of a joiner does not contain the others' places.
        """
        places, founders = self.places.values(), self._founders
        later = [each for each in places if each.version or each.broker not in founders]
        return {"places": msgspec.to_builtins(later)}

    @property
    def knows_founders(self) -> bool:
        """Whether it knows the founders."""
        places = self.places.values()
        return any(each.since == 0 and each.position for each in places if not each.comes)

    def changed(self, broker: BrokerId, now_us: int, stay: PlaceStage) -> RosterPlace:
        """The next entry about a broker."""
        known = self.places[broker]
        version = max(now_us, known.version + 1)
        return msgspec.structs.replace(known, version=version, stay=stay)

    def is_going(self, broker: BrokerId) -> bool:
        """Whether others shall take a broker's place."""
        place = self.places.get(broker)
        return place is not None and place.stay is PlaceStage.GOES

    # --- the registrar ------------------------------------------------------------------------

    @property
    def registrar(self) -> BrokerId | None:
        """The first broker of those that stay, or of all if none does."""
        there = [each for each in self.places.values() if each.broker in self.product]
        staying = [each for each in there if each.stay is PlaceStage.THERE] or there
        first = min(staying, key=lambda each: (each.since, each.region, each.cluster), default=None)
        return None if first is None else first.broker

    def why_not_permitted(self, broker: BrokerId) -> str:
        """Why a broker that wants to leave may not do so yet; empty if it may."""
        if self.places[broker].stay is not PlaceStage.WANTS_TO_GO:
            return ""
        going = sorted(each for each in self.places if self.is_going(each))
        if going:
            return f"{', '.join(going)} leaves first"
        return f"{self.registrar} has yet to permit it"

    def decide(self, now_us: int) -> list[RosterPlace]:
        """The registrar's next decision: entries to merge and to send."""
        found = []
        for place in sorted(self.places.values(), key=lambda each: (each.version, each.broker)):
            if place.stay is PlaceStage.COMES:
                found.append(self._give(place, now_us))
                self.merge(found[-1:])
        places = sorted(self.places.values(), key=lambda each: (each.version, each.broker))
        going = [each for each in places if each.stay is PlaceStage.GOES]
        wanting = [each for each in places if each.stay is PlaceStage.WANTS_TO_GO]
        if wanting and all(now_us - each.version > GOES_AT_MOST_US for each in going):
            found.append(self.changed(wanting[0].broker, now_us, PlaceStage.GOES))
            self.merge(found[-1:])
        return found

    def _give(self, place: RosterPlace, now_us: int) -> RosterPlace:
        since = max([now_us, *(each.since + 1 for each in self.places.values())])
        product, wanted = self.product, place.position
        if wanted is None or product.at(wanted) is not None:
            wanted = product.free_position()
        region, cluster = wanted or Position(product.regions, 0)
        is_known = region < product.regions
        parent = product.parent(region) if is_known else min(max(0, place.parent), region - 1)
        return RosterPlace(
            place.broker,
            max(now_us, place.version + 1),
            PlaceStage.THERE,
            since,
            region,
            cluster,
            NOWHERE if parent is None else parent,
        )


def known_places(facts: Mapping[str, Any]) -> list[RosterPlace]:
    """The places that a broker wrote to disk in an earlier incarnation."""
    return msgspec.convert(facts.get("places", []), list[RosterPlace])


def wanted_place(broker: BrokerId, product: Product) -> RosterPlace | None:
    """The place that the rows of its network file name for a broker that joins."""
    if broker not in product:
        return None
    region, cluster = product.position(broker)
    parent = product.parent(region)
    above = NOWHERE if parent is None else parent
    return RosterPlace(broker, 0, PlaceStage.COMES, 0, region, cluster, above)


def _is_sound(place: RosterPlace) -> bool:
    if place.region == NOWHERE:
        return place.cluster == NOWHERE and place.stay in (PlaceStage.COMES, PlaceStage.LEFT)
    return (
        0 <= place.region < MAX_REGIONS
        and 0 <= place.cluster < MAX_CLUSTERS
        and NOWHERE <= place.parent < place.region
        and (place.parent == NOWHERE) == (place.region == 0)
    )
