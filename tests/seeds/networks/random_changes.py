"""Random networks with joins and leaves of brokers while clients publish.

Brokers leave at any time, often several at once, also neighbours. Their clients move, and may miss
only publications during the move. Others join, and get clients of their own. A seed decides
everything.
"""

from __future__ import annotations

from typing import Any

from shoal.language import parse
from shoal.model import Subscription
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.refuge import PAUSE_US
from shoal.simulation.trace import Published
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork
from tests.systems import TREES


class ChangingNetwork(RandomNetwork):
    """One seed's network; `run` gives the violations."""

    def __init__(
        self,
        seed: int,
        *,
        system: str,
        lossy: bool = False,
        patient: bool = False,
        **options: Any,
    ) -> None:
        """`options` are a random network's."""
        super().__init__(seed, system=system, lossy=lossy, patient=patient, **options)
        self.leaving: dict[str, int] = {}
        share = self.random.choice([0.2, 0.5, 0.8])
        for broker in self.brokers[1:]:
            if self.random.random() < share:
                self._remove(broker)
        for number in range(self.random.randint(0, 3)):
            self._add(f"N{number}")

    def _remove(self, broker: str) -> None:
        at_us = self.random.choice([20 * SECOND_US, self.random.randint(SETTLE_US, END_US)])
        self.leaving[broker] = at_us
        self.world.remove_broker(at_us, broker)

    def _add(self, broker: str) -> None:
        """No broker joins at one that may leave before that one is ready."""
        at_us = self.random.randint(SETTLE_US, END_US // 2)
        known = [
            each for each in self.brokers if self.leaving.get(each, END_US) > at_us + SETTLE_US
        ]
        self.world.add_broker(at_us, broker, [self.random.choice(known)])
        system = SYSTEMS[self.system]
        if not system.takes_clients(self.parameters or system.parameters(), broker):
            return
        client = f"S of {broker}"
        self.world.add_subscriber(client, f"place of {client}")
        subscription = Subscription(id=client, client=client, filter=parse(self._filter_text()))
        from_us = at_us + SETTLE_US
        self.world.subscribe(from_us, broker, subscription)
        interest = TimedSubscription(subscription=subscription, from_us=from_us)
        self.interests.append((interest, broker))

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """The subscriber was on its way from a broker that left, or to one that left later."""
        homes = {timed.subscription.id: home for timed, home in self.interests}
        home = homes[interest.subscription.id]
        while home in self.leaving:
            at_us = self.leaving[home]
            if at_us - SETTLE_US <= published.at_us <= at_us + PAUSE_US + SETTLE_US:
                return True
            home = self.world.refuges.get(home, "")
        return False

    def run(self, until_us: int | None = None) -> list[str]:
        problems = super().run(until_us)
        stayed = self.leaving.keys() - self.world.departures.keys()
        problems += [f"{broker} has not left" for broker in sorted(stayed)]
        if self.system in TREES:  # brokers of a tree stay until their publishers have gone
            first = {each.publisher for each in self.kept_advertisements if each.id.endswith(".A0")}
            too_late = self.world.too_late
            problems += [f"{broker} left before {who}" for who, broker in too_late if who in first]
        return problems
