"""A whole network from one seed: a tree, publishers and subscribers that come and go, moves.

`RandomNetwork(seed).run()` gives a list of problems, empty if every judge is content. The seed
decides everything, so a failing one replays exactly.
"""

from __future__ import annotations

from random import Random

import msgspec

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Attributes, Publication, Subscription
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters, Moves
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.system import Picture
from shoal.simulation.faults import LinkFaults
from shoal.simulation.judging.checkers import TimedSubscription, check_deliveries
from shoal.simulation.service import ServiceCosts
from shoal.simulation.trace import Published
from shoal.simulation.world import World
from tests.systems import covering, drawn, to_rest, with_cycles

SECOND_US = 1_000_000
# Above any propagation through the largest tree below, migrations and retransmissions included.
SETTLE_US = 6 * SECOND_US
END_US = 60 * SECOND_US
# The end of a run for systems with periodic messages.
UNTIL_US = END_US + 10 * SETTLE_US
# The largest difference of two brokers' clocks.
CLOCKS_US = 10 * SECOND_US
CLASSES = ("stock", "flight", "sport", "news")


class SeededUnderlay:
    """Each pair of places has a random distance, equal in both directions."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def latency_us(self, source_place: str, target_place: str) -> int:
        pair = "/".join(sorted((source_place, target_place)))
        return Random(f"{self._seed}/{pair}").randint(100, 30_000)


class RandomNetwork:
    # The least and the greatest number.
    SUBSCRIBERS = (1, 14)
    # For so long before a subscription begins, and after it ends, a publication may arrive or not.
    margin_us = SETTLE_US

    def __init__(
        self,
        seed: int,
        *,
        system: str,
        lossy: bool = False,
        patient: bool = False,
        interval_us: int = 400_000,
        moves: Moves | None = None,
        most_busy: int | None = None,
        clocks: bool = False,
        sizes: tuple[int, int] = (2, 14),
    ) -> None:
        """Publishers publish in at most this interval, on average. One seed in four covers.

        With `clocks` brokers' clocks differ. `sizes` bounds the number of brokers. With GRAPE,
        `moves` may name the clients that move; one seed in three then finds its weight. Publishers
        move to any broker, or with `most_busy` to none that is busy for more per cent of its time.
        """
        self.interval_us = interval_us
        self.random = random = Random(f"network/{seed}")
        size = random.randint(*sizes)
        self.brokers = [f"B{number}" for number in range(size)]
        self.links = [
            (self.brokers[random.randrange(number)], self.brokers[number])
            for number in range(1, size)
        ]
        self.links = with_cycles(system, self.brokers, self.links)
        self.system = system
        self.parameters = drawn(system, random, tuple(self.brokers))
        if moves is not None:
            assert isinstance(self.parameters, GrapeParameters)
            priority = Priority.KNEE if seed % 3 == 2 else self.parameters.priority
            self.parameters = msgspec.structs.replace(
                self.parameters, moves=moves, priority=priority
            )
        if most_busy is not None:
            self.parameters = msgspec.structs.replace(self.parameters, most_busy_percent=most_busy)
        if seed % 4 == 3:
            self.parameters = covering(system, self.parameters, merging=seed % 8 == 3)
        drift = Random(f"clocks/{seed}")
        self.clocks_us = {name: drift.randint(0, clocks * CLOCKS_US) for name in self.brokers}
        self.world = World(
            self.links,
            strategy_factory(system, self.parameters),
            SeededUnderlay(seed),
            seed=seed,
            costs=ServiceCosts(
                processing_us=random.randint(0, 500),
                matching_us=random.randint(0, 500),
                transmission_us=random.randint(0, 200),
            ),
            link_faults=LinkFaults(loss=0.05, jitter_us=40_000) if lossy else None,
            is_patient=patient,
            clocks_us=self.clocks_us,
        )
        self.homes = self._homes()
        self.publications: list[Publication] = []
        self.interests: list[tuple[TimedSubscription, str]] = []
        self.kept_advertisements: list[Advertisement] = []
        self.publishers: list[str] = []
        for number in range(random.randint(1, 5)):
            self._add_publisher(f"P{number}")
        for number in range(random.randint(*self.SUBSCRIBERS)):
            self._add_subscriber(f"S{number}")

    # --- clients ------------------------------------------------------------------------------

    def _homes(self) -> list[str]:
        """Brokers with clients."""
        return self.brokers

    def _add_publisher(self, client: str) -> None:
        """Advertisements that come and go, and publications within them."""
        random = self.random
        self.publishers.append(client)
        self.world.add_publisher(client, random.choice(self.homes), f"place of {client}")
        spans = []
        for number in range(random.randint(1, 3)):
            name, limit = random.choice(CLASSES), random.choice([30, 60, 100])
            text = f"class = '{name}' AND x < {limit}"
            advertisement = Advertisement(
                id=f"{client}.A{number}", publisher=client, filter=parse(text)
            )
            from_us = random.randint(0, 20 * SECOND_US) if number else 0
            self.world.advertise(from_us, advertisement)
            until_us = END_US
            if random.random() < 0.3:
                until_us = random.randint(from_us + 2 * SETTLE_US, END_US)
                self.world.unadvertise(until_us, advertisement)
            else:
                self.kept_advertisements.append(advertisement)
            spans.append((from_us + SETTLE_US, until_us, name, limit))
        interval_us = random.randint(self.interval_us // 20, self.interval_us)
        now_us, sequence = SETTLE_US, 0
        while now_us < END_US - SECOND_US:
            promised = [span for span in spans if span[0] <= now_us < span[1]]
            if promised:
                self._publish(client, sequence, now_us, *random.choice(promised)[2:])
                sequence += 1
            now_us += random.randint(1, 2 * interval_us)

    def _publish(self, client: str, sequence: int, now_us: int, name: str, limit: int) -> None:
        attributes: Attributes = {"class": name, "x": self.random.randrange(limit)}
        publication = Publication(
            publisher=client, sequence=sequence, published_us=now_us, attributes=attributes
        )
        self.publications.append(publication)
        self.world.request(now_us, client, Publish((publication,)))

    def _add_subscriber(self, client: str) -> None:
        random = self.random
        self.world.add_subscriber(client, f"place of {client}")
        for number in range(random.randint(1, 3)):
            subscription = Subscription(
                id=f"{client}.S{number}", client=client, filter=parse(self._filter_text())
            )
            broker = random.choice(self.homes)
            from_us = random.choice([0, random.randint(0, 40 * SECOND_US)])
            until_us = None
            if random.random() < 0.4:
                until_us = random.randint(from_us + SECOND_US, END_US)
                self.world.unsubscribe(until_us, broker, subscription)
            self.world.subscribe(from_us, broker, subscription)
            interest = TimedSubscription(
                subscription=subscription, from_us=from_us, until_us=until_us
            )
            self.interests.append((interest, broker))

    def _filter_text(self) -> str:
        random = self.random
        name, low = random.choice(CLASSES), random.randrange(100)
        return random.choice(
            [
                f"class = '{name}'",
                f"class = '{name}' AND x > {low}",
                f"class = '{name}' AND x BETWEEN {low} AND {low + 30}",
                f"class IN ('{name}', 'sport') AND NOT x < {low}",
                f"class LIKE '{name[:2]}%' OR x = {low}",
                f"x <> {low}",
                f"class = '{name}' AND y IS NOT NULL",
            ]
        )

    # --- judging ------------------------------------------------------------------------------

    def run(self, until_us: int | None = None) -> list[str]:
        """Run until then, or to rest."""
        self.world.run(until_us or to_rest(self.system, UNTIL_US))
        trace = self.world.trace
        problems = [f"refused: {refusal}" for refusal in trace.refused]
        if len(trace.published) != len(self.publications):
            problems.append(f"{len(self.publications) - len(trace.published)} never handed over")
        verdict = check_deliveries(
            self.publications,
            [interest for interest, _ in self.interests],
            sorted(trace.deliveries, key=lambda delivery: delivery.delivered_us),
            self.margin_us,
            handed={row.publication.key: row for row in trace.published},
            excused=self.is_excused,
        )
        self.required = verdict.required
        if not verdict:
            problems.append(str(verdict))
        return problems + self.table_problems()

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        """Whether this delivery is not required."""
        return False

    def table_problems(self) -> list[str]:
        """The differences that the system's oracle finds."""
        oracle = SYSTEMS[self.system].oracle
        if oracle is None:
            return []
        picture = Picture(
            self.world.links or self.links,
            [
                (advertisement, self.world.publisher_broker(advertisement.publisher))
                for advertisement in self.kept_advertisements
            ],
            [
                (interest.subscription, self.world.broker_for(home))
                for interest, home in self.interests
                if interest.until_us is None
            ],
        )
        nodes = self.world.brokers.items()
        return oracle(picture, {name: node.machine.strategy for name, node in nodes})
