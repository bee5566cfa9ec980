"""Several brokers' MQTT sides on their machines, in memory; the test controls the links' speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from shoal.broker.effects import (
    Deliver,
    Input,
    LinkChanged,
    LinkReady,
    LinkState,
    Notify,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.model import Advertisement, Publication, SubscriptionId
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.federation.federation import Federation
from shoal.overlays.tree.routing import TreeRouting
from tests.mqtt.broker_api import SECOND, BrokerApi


class Site(BrokerApi):
    """The MQTT side and the machine of one broker of a network."""

    def __init__(
        self, network: Network, broker_id: str, neighbours: tuple[str, ...], **limits: Any
    ) -> None:
        super().__init__(**limits)
        self.network = network
        self.machine = Broker(broker_id, neighbours, TreeRouting)
        self.clients = BrokerClients(
            broker_id, self.now_us, limits=self.clients.limits, networked=True
        )
        self.notices: list[Notify] = []
        self.unsettled: list[Publication] = []
        self.unstored: list[SubscriptionId] = []
        self.unheard: list[Advertisement] = []
        # The timers of the machine.
        self.timers: dict[Any, int] = {}

    def after(self, seconds: float) -> None:
        """Time passes; timers of the machine are due, too."""
        end_us = self.now_us + round(seconds * SECOND)
        while self.timers and (at_us := min(self.timers.values())) <= end_us:
            super().after(max(0, at_us - self.now_us) / SECOND)
            for key in [key for key, due_us in self.timers.items() if due_us <= at_us]:
                del self.timers[key]
                self.handle(TimerFired(key))
            if not self.network.is_slow:
                self.network.settle()
        super().after((end_us - self.now_us) / SECOND)

    def carry_out(self, effects: Any) -> None:
        super().carry_out(effects)
        requests, self.requests = self.requests, []
        for request in requests:
            self.handle(request)
            if isinstance(request.request, Publish):
                if self.network.is_settling:
                    self.settle(request.request.publications)
                else:
                    self.unsettled += request.request.publications
            elif isinstance(request.request, Advertise):
                if self.network.is_storing:
                    self.advertised(request.client, request.request.advertisement)
                else:
                    self.unheard.append(request.request.advertisement)
            elif isinstance(request.request, Subscribe):
                if self.network.is_storing:
                    self.store(request.request.subscription.id)
                else:
                    self.unstored.append(request.request.subscription.id)
        if not self.network.is_slow:
            self.network.settle()

    def settle(self, publications: Iterable[Publication]) -> None:
        """The machine has settled these."""
        self.clients.settled(publications)
        self.carry_out(self.clients.take_effects())

    def store(self, subscription_id: SubscriptionId) -> None:
        """The machine has stored the subscription."""
        self.clients.stored(subscription_id)
        self.carry_out(self.clients.take_effects())

    def advertised(self, client_id: str, promise: Advertisement) -> None:
        """Every broker knows the advertisement."""
        self.clients.front_end.promising.heard(client_id, promise)
        self.carry_out(self.clients.take_effects())

    def handle(self, input: Input) -> None:
        """The machine takes an input; its messages wait in links."""
        for effect in self.machine.handle(input, self.now_us):
            match effect:
                case Send(neighbour, message):
                    self.network.links[self.machine.id, neighbour].append(message)
                case Deliver():
                    self.carry_out(self.clients.deliver([effect], self.now_us))
                case Notify():
                    self.notices.append(effect)
                case SetTimer(key, at_us):
                    self.timers[key] = at_us
                case LinkReady(neighbour):
                    self.clients.linked(neighbour, True, self.now_us)


class Network:
    """Brokers in a line, or in a `tree`.

    With `is_slow`, messages stay in their links until `step` or `settle`.

    Publications are settled at once; without `is_settling`, when the test says so. The same holds
    for subscriptions and `is_storing`.
    """

    def __init__(
        self, *names: str, tree: Sequence[tuple[str, str]] | None = None, **limits: Any
    ) -> None:
        self.is_slow = False
        self.is_settling = True
        self.is_storing = True
        self.links: dict[tuple[str, str], deque[Any]] = {}
        # Messages that arrived over links; of a batch each publication.
        self.carried = 0
        self.sites: dict[str, Site] = {}
        tree = list(pairwise(names)) if tree is None else tree
        for name in names:
            neighbours = tuple(a if b == name else b for a, b in tree if name in (a, b))
            self.links |= {(name, neighbour): deque() for neighbour in neighbours}
            self.sites[name] = Site(self, name, neighbours, **limits)
        for site in self.sites.values():
            site.carry_out(site.clients.take_effects())

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def step(self, chance: Random) -> bool:
        """One message of some link arrives; False if there is none."""
        waiting = [ends for ends, link in self.links.items() if link]
        if waiting:
            self.arrive(*chance.choice(waiting))
        return bool(waiting)

    def settle(self) -> None:
        """All messages arrive."""
        while waiting := [ends for ends, link in self.links.items() if link]:
            self.arrive(*waiting[0])

    def after(self, seconds: float) -> None:
        """Time passes at every broker."""
        for site in self.sites.values():
            site.after(seconds)

    def cut(self, one: str, other: str) -> None:
        """A link is given up: two parts continue by themselves."""
        for name, neighbour in ((one, other), (other, one)):
            self.links[name, neighbour].clear()
            self[name].handle(LinkChanged(neighbour, LinkState.FAILED))
            self[name].clients.linked(neighbour, False, self[name].now_us)

    def heal(self, one: str, other: str) -> None:
        """A link comes up, again or for the first time."""
        for name, neighbour in ((one, other), (other, one)):
            self.links.setdefault((name, neighbour), deque())
            self[name].handle(LinkChanged(neighbour, LinkState.UP))
        self.settle()

    def arrive(self, sender: str, receiver: str) -> None:
        """The first message of that link arrives."""
        message = self.links[sender, receiver].popleft()
        self.carried += len(getattr(message, "publications", (message,)))
        self[receiver].handle(Received(sender, message))


def federation_of(network: Network, name: str) -> Federation:
    """The federation of a broker that has one."""
    federation = network[name].clients.federation
    assert federation is not None
    return federation
