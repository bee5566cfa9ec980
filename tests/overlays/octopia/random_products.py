"""A whole product from one seed: bursts over slow outputs, churn of subscribers, deaths.

`RandomProduct(seed).run()` gives a list of problems, empty if every judge is content.
"""

from __future__ import annotations

from random import Random

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.octopia.parameters import UNORDERED, Congestion, Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product, rows_of
from shoal.overlays.octopia.system import SYSTEM
from shoal.overlays.registry import strategy_factory
from shoal.overlays.system import Picture
from shoal.simulation.faults import LinkFaults
from shoal.simulation.judging.checkers import TimedSubscription, check_deliveries
from shoal.simulation.service import ServiceCosts
from shoal.simulation.trace import Published
from shoal.simulation.world import World
from tests.seeds.networks.random_network import SeededUnderlay

SECOND_US = 1_000_000
START_US = 3 * SECOND_US
END_US = 25 * SECOND_US
# From a death until all brokers know and have linked anew; the simulator loses messages under way.
REPAIR_US = 7 * SECOND_US
# From a request to its effect, beside bursts in the queues.
SETTLE_US = 12 * SECOND_US


class RandomProduct:
    def __init__(
        self, seed: int, dynamic: Dynamic, *, lossy: bool = False, deaths: int = 0
    ) -> None:
        self.random = random = Random(f"product/{seed}")
        clusters, regions = random.randint(2, 4), random.randint(2, 5)
        names = [f"B{number}" for number in range(clusters * regions)]
        parents = tuple(random.randrange(region) for region in range(1, regions))
        self.product = Product(rows_of(names, clusters), parents)
        self.parameters = OctopiaParameters(
            rows=self.product.rows,
            parents=parents,
            dynamic=dynamic,
            congestion=random.choice(list(Congestion)),
            threshold=random.choice([0.0, 2.0, 10.0]),
            return_us=random.choice([200_000, 2_000_000]),
            covering=bool(seed % 2),
            merging=seed % 4 == 3,
            sharp_bits=[1, 4, 0][seed % 3],
        )
        self.world = World(
            self.product.links,
            strategy_factory("octopia", self.parameters),
            SeededUnderlay(seed),
            seed=seed,
            costs=ServiceCosts(
                processing_us=random.randint(0, 300),
                matching_us=random.randint(0, 300),
                transmission_us=random.randint(500, 4_000),
            ),
            link_faults=LinkFaults(loss=0.03, jitter_us=20_000) if lossy else None,
        )
        self.burst = 3 if lossy else 60
        self.end_us = END_US + bool(deaths) * 30 * SECOND_US
        self.publications: list[Publication] = []
        self.interests: list[tuple[TimedSubscription, str]] = []
        self.homes: dict[str, str] = {}
        self.kept: list[Advertisement] = []
        self.deaths: dict[str, tuple[int, int]] = {}
        for number in range(deaths):
            self._die(number)
        for number in range(random.randint(1, 3)):
            self._add_publisher(f"P{number}")
        for number in range(random.randint(3, 12)):
            self._add_subscriber(f"S{number}")

    def _die(self, number: int) -> None:
        """A broker is down for a while; now and then a whole region is."""
        broker = self.random.choice(self.product.brokers)
        at_us = START_US + number * 10 * SECOND_US + self.random.randrange(SECOND_US)
        back_us = at_us + self.random.choice([SECOND_US, 15 * SECOND_US, 40 * SECOND_US])
        if broker not in self.deaths:
            self.deaths[broker] = at_us, back_us
            self.world.crash(at_us, broker)
            self.world.restart(back_us, broker)

    def _add_publisher(self, client: str) -> None:
        random, home = self.random, self.random.choice(self.product.brokers)
        self.homes[client] = home
        self.world.add_publisher(client, home, f"place of {client}")
        for number in range(random.randint(1, 2)):
            where = f"x BETWEEN {40 * number} AND {40 * number + 60}"
            promise = Advertisement(id=f"{client}.{number}", publisher=client, filter=parse(where))
            self.kept.append(promise)
            self.world.advertise(number * SECOND_US, promise)
        now_us, most = START_US, 60 + 40 * (number > 0)
        while now_us < self.end_us:
            for _ in range(random.choice([1, 1, 1, self.burst])):
                publication = Publication(
                    publisher=client,
                    sequence=len(self.publications),
                    published_us=now_us,
                    attributes={"x": random.randrange(most)},
                )
                self.publications.append(publication)
                self.world.request(now_us, client, Publish((publication,)))
                now_us += random.randint(1, 4_000)
            now_us += random.randint(1, 900_000)

    def _add_subscriber(self, client: str) -> None:
        random, home = self.random, self.random.choice(self.product.brokers)
        self.world.add_subscriber(client, f"place of {client}")
        low = random.randrange(80)
        subscription = Subscription(
            id=client, client=client, filter=parse(f"x BETWEEN {low} AND {low + 40}")
        )
        from_us = random.choice([0, random.randint(0, self.end_us)])
        until_us = random.choice([None, None, random.randint(from_us + SECOND_US, 2 * self.end_us)])
        self.world.subscribe(from_us, home, subscription)
        if until_us is not None:
            self.world.unsubscribe(until_us, home, subscription)
        timed = TimedSubscription(subscription=subscription, from_us=from_us, until_us=until_us)
        self.interests.append((timed, home))
        self.homes[client] = home

    # --- judging ------------------------------------------------------------------------------

    def run(self) -> list[str]:
        self.world.run(self.end_us + 75 * SECOND_US)
        trace = self.world.trace
        self.verdict = check_deliveries(
            self.publications,
            [timed for timed, _ in self.interests],
            sorted(trace.deliveries, key=lambda row: row.delivered_us),
            SETTLE_US,
            handed={row.publication.key: row for row in trace.published},
            excused=self._is_excused,
        )
        problems = [f"refused: {refusal}" for refusal in trace.refused if not self.deaths]
        verdict = self.verdict
        problems += [f"lost {key}" for key in verdict.lost]
        problems += [f"phantom {key}" for key in verdict.phantoms]
        if not self.deaths:
            problems += [f"twice {key}" for key in verdict.duplicates]
        if not self.deaths and self.parameters.dynamic not in UNORDERED:
            problems += [f"overtaken {key}" for key in verdict.out_of_order]
        return problems + self._table_problems()

    def _is_excused(self, published: Published, timed: TimedSubscription) -> bool:
        """Messages under way at a death, and those to or from the dead broker."""
        at_us = published.at_us
        ends = {self.homes[timed.subscription.client], published.broker}
        for broker, (died_us, back_us) in self.deaths.items():
            for moment_us in (died_us, back_us):
                if moment_us - 3 * SECOND_US <= at_us <= moment_us + REPAIR_US:
                    return True
            if broker in ends and died_us <= at_us <= back_us + SETTLE_US:
                return True
        return False

    def _table_problems(self) -> list[str]:
        assert SYSTEM.oracle is not None
        picture = Picture(
            self.product.links,
            [(promise, self.homes[promise.publisher]) for promise in self.kept],
            [(each.subscription, home) for each, home in self.interests if each.until_us is None],
        )
        nodes = self.world.brokers.items()
        return SYSTEM.oracle(picture, {name: node.machine.strategy for name, node in nodes})
