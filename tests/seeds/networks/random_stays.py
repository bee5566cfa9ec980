"""Random networks in which brokers take their leaves back, at any moment, under traffic.

A broker that stays takes clients in again and forwards as before; one to which it is too late
leaves all the same.  A seed decides everything.
"""

from __future__ import annotations

from shoal.language import parse
from shoal.model import Subscription
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.refuge import PAUSE_US
from shoal.simulation.trace import Published
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import SECOND_US, SETTLE_US

# Its clients have gone after two pauses; systems take some seconds more.
LONGEST_US = 3 * PAUSE_US + 5 * SECOND_US


class StayingNetwork(ChangingNetwork):
    """One seed's network; `run` says what went wrong, `stayed` and `late` what became of stays."""

    def _remove(self, broker: str) -> None:
        super()._remove(broker)
        if self.random.random() < 0.7:
            most_us = self.random.choice([SECOND_US // 5, SECOND_US, LONGEST_US])
            at_us = self.leaving[broker] + self.random.randint(1, most_us)
            self.staying[broker] = at_us
            self.world.keep_broker(at_us, broker)
            self._come_to(broker, at_us + SETTLE_US)

    def _add(self, broker: str) -> None:
        """No broker to which clients of others cannot go."""
        system = SYSTEMS[self.system]
        if system.takes_clients(self.parameters or system.parameters(), broker):
            super()._add(broker)

    @property
    def staying(self) -> dict[str, int]:
        """Which brokers take their leaves back, and when."""
        found: dict[str, int] = self.__dict__.setdefault("_staying", {})
        return found

    def _come_to(self, broker: str, from_us: int) -> None:
        """A client comes to a broker that stays."""
        system = SYSTEMS[self.system]
        if system.takes_clients(self.parameters or system.parameters(), broker):
            client = f"S that comes to {broker}"
            self.world.add_subscriber(client, f"place of {client}")
            subscription = Subscription(id=client, client=client, filter=parse(self._filter_text()))
            self.world.subscribe(from_us, broker, subscription)
            interest = TimedSubscription(subscription=subscription, from_us=from_us)
            self.interests.append((interest, broker))

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """As clients that have gone to a refuge stay there."""
        homes = {timed.subscription.id: home for timed, home in self.interests}
        home = homes[interest.subscription.id]
        refuges = {**self.world.former_refuges, **self.world.refuges}
        for _ in self.leaving:
            if home not in self.leaving:
                return False
            at_us = self.leaving[home]
            if at_us - SETTLE_US <= published.at_us <= at_us + LONGEST_US + SETTLE_US:
                return True
            home = refuges.get(home, "")
        return False

    def table_problems(self) -> list[str]:
        """Nothing: the oracle does not know which clients came back."""
        return []

    def run(self, until_us: int | None = None) -> list[str]:
        problems = super().run(until_us)
        gone = self.world.departures.keys()
        self.late = {row.client for row in self.world.trace.refused if row.client in self.staying}
        self.stayed = self.staying.keys() - gone
        excused = {f"{broker} has not left" for broker in self.stayed - self.late}
        refused = [f"refused: {row}" for row in self.world.trace.refused if row.client in self.late]
        wrong = [f"{broker} has left" for broker in sorted(self.staying.keys() & gone - self.late)]
        wrong = [each for each in wrong if each.split()[0] not in self._left_before()]
        return [each for each in problems if each not in (*excused, *refused)] + wrong

    def _left_before(self) -> set[str]:
        """Brokers that had left by the time at which they were to stay."""
        departures = self.world.departures
        return {name for name, at_us in self.staying.items() if departures.get(name, at_us) < at_us}
