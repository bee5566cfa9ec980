"""A broker of a random tree dies for good, and an operator declares it dead at a neighbour.

Its neighbours link to that one. Publications before that may miss the subscribers behind the dead
broker; all others must arrive, and later everything.
"""

from __future__ import annotations

from shoal.overlays.shapes import check_tree
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.nodes import DETECTION_US
from shoal.simulation.trace import Published
from tests.seeds.networks.random_network import SECOND_US, SETTLE_US, RandomNetwork

DIES_US = 20 * SECOND_US
DECLARED_US = DIES_US + 5 * SECOND_US


class Death(RandomNetwork):
    """One seed's network; its best connected broker, without clients, dies.

    With a `fault` one of the others is killed and restarted around the declaration.
    """

    margin_us = SETTLE_US

    def __init__(
        self, seed: int, *, system: str, lossy: bool = False, patient: bool = False, fault: bool
    ) -> None:
        super().__init__(seed, system=system, lossy=lossy, patient=patient)
        self.until_us = DECLARED_US + 2 * SECOND_US
        if len(self.neighbours) < 2:
            return
        self.decider = self.random.choice(self.neighbours)
        self.world.crash(DIES_US, self.dead)
        self.world.declare_dead(DECLARED_US, self.dead, self.decider)
        self.fault = ""
        if fault:
            at_us = DECLARED_US + self.random.randint(0, 300_000)
            for_us = self.random.choice([1, SECOND_US // 10, SECOND_US])
            other = self.random.choice(self.neighbours)
            self.world.crash(at_us, other)
            self.world.restart(at_us + for_us, other)
            self.fault = f"{other} is down at {at_us} us for {for_us} us"
        # The operator repeats the order while something prevents it, such as held rows.
        for again in (3, 6, 9, 20, 40):
            self.world.declare_dead(DECLARED_US + again * SECOND_US, self.dead, self.decider)
        self.until_us = DECLARED_US + 45 * SECOND_US

    def _homes(self) -> list[str]:
        around = {
            each: [end for link in self.links if each in link for end in link if end != each]
            for each in self.brokers
        }
        self.dead = max(self.brokers, key=lambda each: len(around[each]))
        self.neighbours = around[self.dead]
        return [each for each in self.brokers if each != self.dead]

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """It was published while the broker was missing, and for a while after that."""
        return (
            DIES_US - SETTLE_US <= published.at_us <= self.until_us + 4 * DETECTION_US + SETTLE_US
        )

    def table_problems(self) -> list[str]:
        return [each for each in super().table_problems() if not each.startswith(f"{self.dead}:")]

    def run(self, until_us: int | None = None) -> list[str]:
        problems = [each for each in super().run(until_us) if not each.startswith("refused: ")]
        others = [each for each in self.world.brokers if each != self.dead]
        check_tree(sorted(others), [link for link in self.world.links if self.dead not in link])
        return problems
