"""A broker leaves a random network, with a fault at some moment of the leave.

A network runs twice: first to see when the broker leaves, then with a fault in that time, at the
broker, at one of its neighbours, or at one of the links among them, old or new.
"""

from __future__ import annotations

from shoal.overlays.shapes import check_tree
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.nodes import DETECTION_US
from shoal.simulation.trace import Published
from tests.seeds.faults.random_exchanges import Links, is_tree
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork
from tests.seeds.networks.trees import path

LEAVES_US = 20 * SECOND_US
# The interval of looks at the links.
LOOK_US = SECOND_US // 10
LENGTHS_US = (1, SECOND_US // 10, SECOND_US, 4 * SECOND_US)


class BrokenLeave(RandomNetwork):
    """One seed's network, with an inner broker without clients that leaves."""

    # Publications that wait for a disconnected broker reach later subscribers, too.
    margin_us = SETTLE_US + max(LENGTHS_US)

    def __init__(
        self, seed: int, *, system: str, lossy: bool = False, patient: bool = False
    ) -> None:
        super().__init__(seed, system=system, lossy=lossy, patient=patient)
        self.fault = ""
        self._parts: frozenset[str] = frozenset()
        self._until_us = 0
        # The trees from just before on, each with its time: a system may exchange links.
        self._trees: list[tuple[int, Links]] = []
        for at_us in range(LEAVES_US - 1, END_US, LOOK_US):
            self.world.queue.push(at_us, self._look, None)
        self.world.remove_broker(LEAVES_US, self.leaving_broker)

    def _look(self, now_us: int, _: None) -> None:
        links = frozenset(self.world.links)
        is_new = not self._trees or self._trees[-1][1] != links
        if is_new and is_tree(sorted(self.world.brokers), links):
            self._trees.append((now_us, links))

    def _homes(self) -> list[str]:
        self.neighbours = {each: self._neighbours_of(each) for each in self.brokers}
        self.leaving_broker = max(self.brokers, key=lambda each: len(self.neighbours[each]))
        return [each for each in self.brokers if each != self.leaving_broker]

    def _neighbours_of(self, broker: str) -> list[str]:
        return [end for link in self.links if broker in link for end in link if end != broker]

    def break_something(self, left_us: int) -> None:
        """At a moment between the leave's start and a little after its end in the first run."""
        random, leaving_broker, around = (
            self.random,
            self.leaving_broker,
            self.neighbours[self.leaving_broker],
        )
        one, other = random.choice(around), random.choice(around)
        parts = random.choice([(leaving_broker,), (one,), (leaving_broker, one), (one, other)])
        at_us = random.randint(LEAVES_US, left_us + 20_000)
        until_us = at_us + random.choice(LENGTHS_US)
        if len(set(parts)) == 1:
            self.world.crash(at_us, parts[0])
            self.world.restart(until_us, parts[0])
        else:
            self.world.cut(at_us, *parts)
            self.world.heal(until_us, *parts)
        self.fault = f"{parts} down at {at_us} us, until {until_us} us"
        self._parts = frozenset({leaving_broker, *parts})
        self._until_us = until_us + 4 * DETECTION_US

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """Its route passed the brokers concerned, about then, in one of the trees of that time."""
        at_us = published.at_us
        if not LEAVES_US - SETTLE_US <= at_us <= self._until_us + SETTLE_US:
            return False
        homes = {timed.subscription.id: home for timed, home in self.interests}
        ends = published.broker, homes[interest.subscription.id]
        for place, (start_us, links) in enumerate(self._trees):
            until_us = self._trees[place + 1][0] if place + 1 < len(self._trees) else END_US
            if (place and start_us > at_us + SETTLE_US) or until_us < at_us - SETTLE_US:
                continue
            if not self._parts.isdisjoint(path(sorted(links), *ends)):
                return True
        return False

    def run(self, until_us: int | None = None) -> list[str]:
        # A publisher is refused while its broker returns, as after any crash.
        problems = [each for each in super().run(until_us) if not each.startswith("refused: ")]
        if self.leaving_broker not in self.world.departures:
            problems.append(f"{self.leaving_broker} has not left")
        check_tree(sorted(self.world.brokers), self.world.links)
        return problems
