"""Where the clients of a simulated broker go before it leaves the network.

A client that moves is silent for a while at each step, so that nothing of its own is under way: it
says goodbye, comes to the nearest broker that stays, and goes on.  A subscriber misses what is
published meanwhile; a publisher holds back what it would publish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from shoal.broker.messages import Goodbye, Message, Subscribe, Unsubscribe
from shoal.model import BrokerId, ClientId, Subscription, SubscriptionId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.nodes import PublisherNode

# Above any way through the network, with messages that are sent again.
PAUSE_US = 5_000_000

Ask = Callable[[int, BrokerId, ClientId, Message], None]


class Refuge:
    """Subscriptions by the broker they are at, publishers, and who leaves for where."""

    def __init__(
        self,
        queue: EventQueue,
        publishers: Mapping[ClientId, PublisherNode],
        brokers: Collection[BrokerId],
        neighbours: Callable[[BrokerId], tuple[BrokerId, ...]],
        ask: Ask,
    ) -> None:
        self._queue = queue
        self._publishers = publishers
        self._brokers = brokers
        self._neighbours = neighbours
        self._ask = ask
        self._subscriptions: dict[BrokerId, dict[SubscriptionId, Subscription]] = {}
        self._between: dict[SubscriptionId, Subscription] = {}
        self.chosen: dict[BrokerId, BrokerId] = {}

    # --- subscriptions ------------------------------------------------------------------------

    def of(self, broker: BrokerId) -> BrokerId:
        """Where clients that want this broker go."""
        while broker in self.chosen:
            broker = self.chosen[broker]
        return broker

    def subscriptions(self, broker: BrokerId) -> tuple[Subscription, ...]:
        return tuple(self._subscriptions.get(broker, {}).values())

    def subscribe(self, now_us: int, argument: tuple[BrokerId, Subscription]) -> None:
        broker, subscription = self.of(argument[0]), argument[1]
        self._subscriptions.setdefault(broker, {})[subscription.id] = subscription
        self._ask(now_us, broker, subscription.client, Subscribe(subscription))

    def unsubscribe(self, now_us: int, argument: tuple[BrokerId, Subscription]) -> None:
        broker, subscription = self.of(argument[0]), argument[1]
        if self._between.pop(subscription.id, None) is None:
            del self._subscriptions[broker][subscription.id]
            self._ask(now_us, broker, subscription.client, Unsubscribe(subscription.id))

    # --- clients that go ----------------------------------------------------------------------

    def empty(self, now_us: int, broker: BrokerId) -> None:
        """Send the clients that are there elsewhere, unless nobody stays."""
        if broker not in self.chosen:
            refuge = self._nearest(broker)
            if refuge is None:
                return
            self.chosen[broker] = refuge
        for subscription in self._subscriptions.pop(broker, {}).values():
            self._between[subscription.id] = subscription
            self._ask(now_us, broker, subscription.client, Unsubscribe(subscription.id))
            self._queue.push(now_us + PAUSE_US, self._come, (broker, subscription.id))
        for node in self._publishers.values():
            if node.machine.broker == broker and not (node.machine.moving or node.is_paused):
                node.pause()
                self._queue.push(now_us + PAUSE_US, self._say_goodbye, (broker, node))

    def _nearest(self, broker: BrokerId) -> BrokerId | None:
        reached = [broker]
        for each in reached:
            if each not in self.chosen and each != broker:
                return each
            near = self._neighbours(each) or sorted(self._brokers)
            reached += [other for other in near if other not in reached]
        return None

    def _come(self, now_us: int, argument: tuple[BrokerId, SubscriptionId]) -> None:
        broker, subscription_id = argument
        subscription = self._between.pop(subscription_id, None)
        if subscription is not None:
            self.subscribe(now_us, (broker, subscription))

    def _say_goodbye(self, now_us: int, argument: tuple[BrokerId, PublisherNode]) -> None:
        broker, node = argument
        client = node.machine.client
        if node.machine.moving or node.machine.broker != broker:
            node.resume(now_us)  # the network moves it already
        elif not node.machine.gone:
            self._ask(now_us, broker, client, Goodbye())
            self._queue.push(now_us + PAUSE_US, self._come_home, argument)

    def _come_home(self, now_us: int, argument: tuple[BrokerId, PublisherNode]) -> None:
        broker, node = argument
        node.carry_out(node.machine.come_home(self.of(broker), (), now_us), now_us)
        self._queue.push(now_us + PAUSE_US, self._go_on, node)

    def _go_on(self, now_us: int, node: PublisherNode) -> None:
        node.resume(now_us)
