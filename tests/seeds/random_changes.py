"""Random networks whose brokers join and leave while clients publish: nobody may notice.

Some brokers have no clients; these leave, at any moment, several at once.  Others join, and get
clients of their own once they are ready.  A seed decides everything.
"""

from __future__ import annotations

from shoal.language import parse
from shoal.model import Subscription
from shoal.simulation.checkers import TimedSubscription
from tests.seeds.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork


class ChangingNetwork(RandomNetwork):
    """One seed's network; `run` says what went wrong."""

    def __init__(
        self, seed: int, *, system: str, lossy: bool = False, patient: bool = False
    ) -> None:
        super().__init__(seed, system=system, lossy=lossy, patient=patient)
        self.leaving: dict[str, int] = {}
        for broker in self.brokers:
            if broker not in self.homes and self.random.random() < 0.8:
                self._remove(broker)
        for number in range(self.random.randint(0, 3)):
            self._add(f"N{number}")

    def _homes(self) -> list[str]:
        return self.random.sample(self.brokers, max(1, len(self.brokers) // 2))

    def _remove(self, broker: str) -> None:
        # Often several at one moment, also neighbours.
        at_us = self.random.choice([20 * SECOND_US, self.random.randint(SETTLE_US, END_US)])
        self.leaving[broker] = at_us
        self.world.remove_broker(at_us, broker)

    def _add(self, broker: str) -> None:
        at_us = self.random.randint(SETTLE_US, END_US // 2)
        self.world.add_broker(at_us, broker, [self.random.choice(self.homes)])
        client = f"S of {broker}"
        self.world.add_subscriber(client, f"place of {client}")
        subscription = Subscription(id=client, client=client, filter=parse(self._filter_text()))
        from_us = at_us + SETTLE_US
        self.world.subscribe(from_us, broker, subscription)
        interest = TimedSubscription(subscription=subscription, from_us=from_us)
        self.interests.append((interest, broker))

    def run(self) -> list[str]:
        problems = super().run()
        stayed = self.leaving.keys() - self.world.departures.keys()
        return problems + [f"{broker} has not left" for broker in sorted(stayed)]
