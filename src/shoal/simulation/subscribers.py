"""The subscribers of a simulated world: their machines, between their applications and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from shoal.broker.effects import Deliver, Record
from shoal.broker.messages import Message
from shoal.clients.publisher import ToBroker, WakeUp
from shoal.clients.subscriber import Handed, Subscriber, SubscriberEffect
from shoal.model import BrokerId, ClientId, Publication, Subscription, SubscriptionId
from shoal.simulation.conflation import SimulatedConflation
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.trace import DeliveryEvent, Trace

Ask = Callable[[int, BrokerId, ClientId, Message], None]


class SimulatedSubscribers:
    """All of them. Deliveries to a client that has never moved need not pass here."""

    def __init__(
        self, queue: EventQueue, trace: Trace, ask: Ask, conflation: SimulatedConflation
    ) -> None:
        self.conflation = conflation
        # Clients that need their deliveries brought here.
        self.movers: set[ClientId] = set()
        self._queue = queue
        self._trace = trace
        self._ask = ask
        self._subscribers: dict[ClientId, Subscriber] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._subscribers

    def __iter__(self) -> Iterator[tuple[Subscription, BrokerId]]:
        """Subscriptions as brokers know them, and where."""
        for subscriber in self._subscribers.values():
            yield from subscriber

    def near(self, broker: BrokerId) -> list[ClientId]:
        """Return the clients that have subscribed there, or move there."""
        return [name for name, each in self._subscribers.items() if each.uses(broker)]

    # --- requests of applications -------------------------------------------------------------

    def subscribe(self, now_us: int, broker: BrokerId, subscription: Subscription) -> None:
        client = subscription.client
        subscriber = self._subscribers.setdefault(client, Subscriber(client))
        self._carry_out(client, subscriber.subscribe(broker, subscription), now_us)

    def unsubscribe(self, now_us: int, subscription: Subscription) -> None:
        """Unsubscribe at the subscriber's current broker."""
        client = subscription.client
        self._carry_out(client, self._subscribers[client].unsubscribe(subscription.id), now_us)

    def move(self, now_us: int, client: ClientId, broker: BrokerId) -> None:
        self.movers.add(client)
        self._carry_out(client, self._subscribers[client].move(broker, now_us), now_us)

    def go(self, now_us: int, client: ClientId, broker: BrokerId) -> None:
        """It leaves a broker."""
        self._carry_out(client, self._subscribers[client].go(broker), now_us)

    def come(self, now_us: int, client: ClientId, broker: BrokerId, left: BrokerId) -> None:
        """The client comes to a broker with its state from a broker that it has left."""
        self._carry_out(client, self._subscribers[client].come(broker, left), now_us)

    # --- effects of brokers -------------------------------------------------------------------

    def delivered(self, now_us: int, argument: tuple[BrokerId, Deliver]) -> None:
        broker, delivery = argument
        client, publication = delivery.client, delivery.routed.publication
        effects = self._subscribers[client].delivered(
            broker, publication, delivery.subscriptions, delivery.hops, now_us
        )
        self._carry_out(client, effects, now_us)

    def notified(self, now_us: int, argument: tuple[ClientId, BrokerId, Message]) -> None:
        client, broker, message = argument
        effects = self._subscribers[client].notified(broker, message, now_us)
        self._carry_out(client, effects, now_us)

    def lost(self, now_us: int, broker: BrokerId) -> None:
        for client, subscriber in self._subscribers.items():
            self._carry_out(client, subscriber.lost(broker, now_us), now_us)

    def reconnected(self, now_us: int, broker: BrokerId) -> None:
        for client, subscriber in self._subscribers.items():
            self._carry_out(client, subscriber.reconnected(broker), now_us)

    def _woken(self, now_us: int, client: ClientId) -> None:
        self._carry_out(client, self._subscribers[client].woken(now_us), now_us)

    def _carry_out(self, client: ClientId, effects: list[SubscriberEffect], now_us: int) -> None:
        for effect in effects:
            match effect:
                case ToBroker(broker, request):
                    self._ask(now_us, broker, client, request)
                case Handed(publication, subscription, broker, hops):
                    hand_out = partial(self._record, publication, client, broker, hops)
                    self.conflation.take(publication, (subscription,), now_us, hand_out)
                case WakeUp(at_us):
                    self._queue.push(at_us, self._woken, client)
                case Record(record):
                    self._trace.records.append(record)

    def _record(
        self,
        publication: Publication,
        client: ClientId,
        broker: BrokerId,
        hops: int,
        names: tuple[SubscriptionId, ...],
        at_us: int,
    ) -> None:
        self._trace.deliveries.append(
            DeliveryEvent(publication, names, client, broker, at_us, hops)
        )
