"""A subscriber's side of a move: its subscriptions go from broker to broker without a loss.

A pure machine like the publisher's beside it, one per client. It makes before it breaks: it
subscribes at the new broker under a name of its own, and accepts deliveries of the old one until
every publisher's broker knows that name and all publications under way have come; then it accepts
those of the new one, except duplicates, and unsubscribes at the old one. So nothing is lost,
duplicated or reordered.

No broker knows when others know a subscription, so the machine waits for `SPREAD_US`, above any way
through the network. The live network knows it (`shoal.mqtt.federation`): there a client's broker
has its session, which is transferred instead.

| input | away | here | moving |
| --- | --- | --- | --- |
| move | | subscribes there → moving | |
| SPREAD_US over | | forgets duplicates | accepts from the new, unsubscribes at the old → here |
| its broker delivers | dropped | accepted, unless a duplicate | accepted, and remembered |
| the new one delivers | | | held, except early publications |
| its broker is lost | | | accepts from the new, unsubscribes at the old → here |
| the new one is lost | | | stays → here |
| a broker came back | | subscribes again | subscribes again |
| go | | unsubscribes → away | unsubscribes at both → away |
| come | subscribes there → here | | |

Each subscription is such a machine by itself; a client may have them at several brokers.  All of
them together answer requests for ping times.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.effects import Record
from shoal.broker.messages import Message, Pong, Subscribe, Unsubscribe
from shoal.clients.messages import PingRequest
from shoal.clients.pings import Pings
from shoal.clients.publisher import ToBroker, WakeUp
from shoal.clients.records import SubscriberMoveRecord
from shoal.model import BrokerId, ClientId, Publication, Subscription, SubscriptionId

# The time for subscriptions to spread, and as long again for publications made before.
SPREAD_US = 10_000_000


class Handed(msgspec.Struct, frozen=True):
    """Effect: a publication for the application, from this broker."""

    publication: Publication
    subscription: SubscriptionId
    broker: BrokerId
    hops: int


SubscriberEffect = ToBroker | WakeUp | Record | Handed

Key = tuple[ClientId, int]


class _SubscriberPlace:
    """The place of a subscription: at `broker`, under the name `at.id`; None while it is away.

    Then `left` is its last broker. `there` is the subscription with its name at the target.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.broker: BrokerId | None = None
        self.left: BrokerId | None = None
        self.at = subscription
        self.target: BrokerId | None = None
        self.there = subscription
        self.asked_us = 0
        # Publications of the old broker: the new one may deliver them until `forgets_us`.
        self.had: set[Key] = set()
        self.forgets_us = 0
        self.held: list[Handed] = []
        self._names = 0

    def name_anew(self) -> Subscription:
        """The subscription with a new name for the next broker: equal names would be one."""
        self._names += 1
        name = f"{self.subscription.id}@{self._names}"
        return msgspec.structs.replace(self.subscription, id=name)

    def stay(self) -> None:
        """Cancel the move."""
        self.target = None
        self.held = []


class Subscriber:
    """One client's subscriptions."""

    def __init__(self, client: ClientId) -> None:
        self.client = client
        self._places: dict[SubscriptionId, _SubscriberPlace] = {}
        # The broker that asked for ping times.
        self._asker: BrokerId = ""
        self._pings: Pings | None = None

    def __iter__(self) -> Iterator[tuple[Subscription, BrokerId]]:
        """Its subscriptions, as their brokers know them, with the brokers; without those away."""
        for place in self._places.values():
            if place.broker is not None:
                yield place.at, place.broker

    def uses(self, broker: BrokerId) -> bool:
        """Whether it has subscribed at a broker, or is about to."""
        return any(broker in (place.broker, place.target) for place in self._places.values())

    # --- the application's side ---------------------------------------------------------------

    def subscribe(self, broker: BrokerId, subscription: Subscription) -> list[SubscriberEffect]:
        place = self._places[subscription.id] = _SubscriberPlace(subscription)
        place.broker = broker
        return [ToBroker(broker, Subscribe(subscription))]

    def unsubscribe(self, subscription_id: SubscriptionId) -> list[SubscriberEffect]:
        place = self._places.pop(subscription_id, None)
        return [] if place is None else self._unsubscribe_at(place)

    def move(self, broker: BrokerId, now_us: int) -> list[SubscriberEffect]:
        """Move to another broker with all subscriptions that are not moving already."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.broker not in (None, broker) and place.target is None:
                place.target, place.there, place.asked_us = broker, place.name_anew(), now_us
                effects.append(ToBroker(broker, Subscribe(place.there)))
        return [*effects, WakeUp(now_us + SPREAD_US)] if effects else []

    def go(self, broker: BrokerId) -> list[SubscriberEffect]:
        """Leave a broker; publications until the next `come` are missed."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.broker == broker:
                effects += self._unsubscribe_at(place)
            elif place.target == broker:
                effects += self._stay(place)
        return effects

    def come(self, broker: BrokerId, left: BrokerId) -> list[SubscriberEffect]:
        """Come to a broker with all subscriptions that are away from its last one."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.broker is None and place.left == left:
                place.broker = broker
                effects.append(ToBroker(broker, Subscribe(place.at)))
        return effects

    # --- the brokers' side --------------------------------------------------------------------

    def delivered(
        self,
        broker: BrokerId,
        publication: Publication,
        names: tuple[SubscriptionId, ...],
        hops: int,
        now_us: int,
    ) -> list[SubscriberEffect]:
        """Handle a broker's delivery for subscriptions, by their names there."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            handed = Handed(publication, place.subscription.id, broker, hops)
            if place.broker == broker and place.at.id in names:
                if publication.key not in place.had:
                    effects.append(handed)
                    if place.target is not None:
                        place.had.add(publication.key)
            elif (
                place.target == broker
                and place.there.id in names
                # An early publication comes from the old broker, too, perhaps before the move
                # began.
                and now_us >= place.asked_us + SPREAD_US // 2
            ):
                place.held.append(handed)
        return effects

    def notified(self, broker: BrokerId, message: Message, now_us: int) -> list[SubscriberEffect]:
        """Handle a broker's PingRequest or Pong; others are the application's."""
        match message:
            case PingRequest():
                self._asker, self._pings = broker, Pings(message, now_us)
                return [ToBroker(each, ping) for each, ping in self._pings.asks]
            case Pong(session) if self._pings is not None:
                times = self._pings.answered(broker, session, now_us)
                if times is not None:
                    self._pings = None
                    return [ToBroker(self._asker, times)]
        return []

    def woken(self, now_us: int) -> list[SubscriberEffect]:
        """Handle the time of a `WakeUp`."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.target is None and now_us >= place.forgets_us:
                place.had.clear()
            elif place.target is not None and now_us >= place.asked_us + SPREAD_US:
                effects += self._arrive(place, now_us)
        return effects

    def lost(self, broker: BrokerId, now_us: int) -> list[SubscriberEffect]:
        """Handle a broker that does not answer."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.target == broker:
                effects += self._stay(place)
            elif place.target is not None and place.broker == broker:
                effects += self._arrive(place, now_us)
        return effects

    def reconnected(self, broker: BrokerId) -> list[SubscriberEffect]:
        """Handle a broker that came back without its state."""
        effects: list[SubscriberEffect] = []
        for place in self._places.values():
            if place.broker == broker:
                effects.append(ToBroker(broker, Subscribe(place.at)))
            if place.target == broker:
                effects.append(ToBroker(broker, Subscribe(place.there)))
        return effects

    # --- effects ------------------------------------------------------------------------------

    def _arrive(self, place: _SubscriberPlace, now_us: int) -> list[SubscriberEffect]:
        """Complete a move: accept the deliveries of the new broker."""
        assert place.target is not None
        assert place.broker is not None
        newest: dict[ClientId, int] = {}
        for publisher, sequence in place.had:
            newest[publisher] = max(sequence, newest.get(publisher, sequence))
        # Without duplicates, and without older publications that the old broker lost: out of order.
        new = [
            each
            for each in place.held
            if each.publication.sequence > newest.get(each.publication.publisher, -1)
        ]
        record = SubscriberMoveRecord(
            client=self.client,
            subscription=place.subscription.id,
            source=place.broker,
            target=place.target,
            asked_us=place.asked_us,
            moved_us=now_us,
        )
        # The old broker may be back by now, if it was lost.
        old = ToBroker(place.broker, Unsubscribe(place.at.id))
        place.broker, place.at = place.target, place.there
        place.stay()
        place.forgets_us = now_us + SPREAD_US
        return [*new, Record(record), WakeUp(place.forgets_us), old]

    def _stay(self, place: _SubscriberPlace) -> list[SubscriberEffect]:
        """Cancel a move; the target may have got the subscription already."""
        assert place.target is not None
        asked = ToBroker(place.target, Unsubscribe(place.there.id))
        place.stay()
        return [asked]

    def _unsubscribe_at(self, place: _SubscriberPlace) -> list[SubscriberEffect]:
        """Unsubscribe at its brokers."""
        effects: list[SubscriberEffect] = []
        if place.broker is not None:
            effects.append(ToBroker(place.broker, Unsubscribe(place.at.id)))
        if place.target is not None:
            effects.append(ToBroker(place.target, Unsubscribe(place.there.id)))
        place.broker, place.left = None, place.broker
        place.had.clear()
        place.stay()
        return effects
