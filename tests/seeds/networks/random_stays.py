"""Random networks in which brokers cancel their leaves, at any moment, under traffic.

A broker that stays admits clients again and forwards as before, and may leave later; after a late
cancellation it leaves. A seed decides everything.
"""

from __future__ import annotations

from typing import Any

from shoal.language import parse
from shoal.model import Subscription
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.refuge import PAUSE_US
from shoal.simulation.trace import Published
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import SECOND_US, SETTLE_US

# Its clients have moved after two pauses; systems take some seconds more.
LONGEST_US = 3 * PAUSE_US + 5 * SECOND_US


class StayingNetwork(ChangingNetwork):
    """One seed's network; `run` gives the violations.

    `staying` has the times of cancelled leaves, `again` those of later leaves; `stayed` are the
    brokers that have not left, `late` those whose cancellation was too late.
    """

    def __init__(self, seed: int, *, system: str, **options: Any) -> None:
        self.staying: dict[str, int] = {}
        self.again: dict[str, int] = {}
        self.stayed: set[str] = set()
        self.late: set[str] = set()
        super().__init__(seed, system=system, **options)

    def _remove(self, broker: str) -> None:
        super()._remove(broker)
        if self.random.random() < 0.3:
            return
        most_us = self.random.choice([SECOND_US // 5, SECOND_US, LONGEST_US])
        at_us = self.leaving[broker] + self.random.randint(1, most_us)
        self.staying[broker] = at_us
        self.world.keep_broker(at_us, broker)
        if self.random.random() < 0.3:
            self.again[broker] = again_us = at_us + self.random.randint(1, 10 * SECOND_US)
            self.world.remove_broker(again_us, broker)
        else:
            self._come_to(broker, at_us + SETTLE_US)

    def _add(self, broker: str) -> None:
        """No broker to which clients of others cannot move."""
        if self._takes_clients(broker):
            super()._add(broker)

    def _takes_clients(self, broker: str) -> bool:
        system = SYSTEMS[self.system]
        return system.takes_clients(self.parameters or system.parameters(), broker)

    def _come_to(self, broker: str, from_us: int) -> None:
        """A client connects to a broker that stays."""
        if self._takes_clients(broker):
            client = f"S that comes to {broker}"
            self.world.add_subscriber(client, f"place of {client}")
            subscription = Subscription(id=client, client=client, filter=parse(self._filter_text()))
            self.world.subscribe(from_us, broker, subscription)
            interest = TimedSubscription(subscription=subscription, from_us=from_us)
            self.interests.append((interest, broker))

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """As clients that have moved to a refuge stay there."""
        homes = {timed.subscription.id: home for timed, home in self.interests}
        home = homes[interest.subscription.id]
        refuges = {**self.world.former_refuges, **self.world.refuges}
        for _ in self.leaving:
            if home not in self.leaving:
                return False
            for since_us in (self.leaving[home], self.again.get(home, self.leaving[home])):
                if since_us - SETTLE_US <= published.at_us <= since_us + LONGEST_US + SETTLE_US:
                    return True
            home = refuges.get(home, "")
        return False

    def table_problems(self) -> list[str]:
        """Nothing: the oracle does not know the clients that came back."""
        return []

    def run(self, until_us: int | None = None) -> list[str]:
        problems = super().run(until_us)
        departures, refused = self.world.departures, self.world.trace.refused
        self.late = {row.client for row in refused if row.client in self.staying}
        self.stayed = self.staying.keys() - departures.keys()
        may_stay = self.stayed - self.late - self.again.keys()
        expected = {f"{broker} has not left" for broker in may_stay}
        expected |= {f"refused: {row}" for row in refused if row.client in self.late}
        found = [each for each in problems if each not in expected]
        gone = sorted(self.staying.keys() & departures.keys() - self.late)
        return found + [
            f"{broker} has left"
            for broker in gone
            if self.staying[broker] < departures[broker] < self.again.get(broker, until_us or 0)
        ]
