"""A BlueDove cluster from one seed: matchers that join, leave and die, churn of clients.

`RandomCluster(seed).run()` gives a list of problems, empty if every judge is content. The seed
decides everything, so a failing one replays exactly.
"""

from __future__ import annotations

from enum import Enum
from random import Random

from shoal.broker.effects import Requested
from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.matching.segments import Dimension
from shoal.model import Publication, Subscription
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.messages import LeaveCluster
from shoal.overlays.bluedove.parameters import BlueDoveParameters, DeliveryOrder
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.simulation.faults import LinkFaults
from shoal.simulation.judging.checkers import CheckerVerdict, TimedSubscription, check_deliveries
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

END_US = 40 * SECOND_US
# After the last publication: messages under way, timeouts, detection of deaths, and recovery.
DRAIN_US = 40 * SECOND_US


class Trouble(Enum):
    """The events of matchers; and the time in which a new subscription may miss something."""

    NONE = 3 * SECOND_US
    LEAVES = 4 * SECOND_US
    # A subscription for an unserved place waits until the dead matcher is noticed.
    CRASHES = 25 * SECOND_US


class RandomCluster:
    def __init__(
        self,
        seed: int,
        trouble: Trouble,
        *,
        lossy: bool = False,
        order: DeliveryOrder | None = None,
        both: bool = False,
    ) -> None:
        """With `both` every dispatcher is a matcher, and there are no others at first."""
        self.random = random = Random(f"cluster/{seed}/{trouble.name}")
        self.order = order or (DeliveryOrder.FREE if seed % 3 == 0 else DeliveryOrder.PUBLISHER)
        self._seed = seed
        self.trouble = trouble
        self.dispatchers = [f"D{number}" for number in range(random.randint(1, 3))]
        self.matchers = [f"M{number}" for number in range(random.randint(1, 6))]
        if both:
            self.dispatchers = self.matchers = [f"B{number}" for number in range(3)]
        self.joiners = [f"N{number}" for number in range(random.randint(0, 3))]
        self.names = "xyz"[: random.randint(1, 3)]
        self.strategies: dict[str, Bluedove] = {}
        self.world = self._world(LinkFaults(loss=0.03, jitter_us=30_000) if lossy else None)
        self.interests: list[TimedSubscription] = []
        self.publications: list[Publication] = []
        for number in range(6):
            self._add_subscriber(f"C{number}")
        for number in range(3):
            self._add_publisher(f"P{number}")
        for name in self.joiners:
            self.world.crash(0, name)
            self.world.restart(random.randint(5, 30) * SECOND_US, name)
        self._make_trouble()

    def _world(self, faults: LinkFaults | None) -> World:
        random = self.random
        parameters = BlueDoveParameters(
            dimensions=tuple(Dimension(attribute=name) for name in self.names),
            dispatchers=tuple(self.dispatchers),
            matchers=tuple(self.matchers),
            order=self.order,
            policy=random.choice(list(Policy)),
            cores=random.randint(1, 4),
            publications_per_job=random.randint(1, 8),
        )

        def system(context):  # type: ignore[no-untyped-def]
            made = Bluedove(context, parameters)
            self.strategies[context.broker] = made
            return made

        return World(
            [],
            system,
            SeededUnderlay(self._seed),
            brokers=list(dict.fromkeys([*self.dispatchers, *self.matchers, *self.joiners])),
            seed=self._seed,
            costs=ServiceCosts(
                processing_us=random.randint(0, 500),
                matching_us=random.randint(0, 500),
                matching_per_subscription_ns=random.randint(0, 100_000),
            ),
            link_faults=faults,
        )

    # --- clients ------------------------------------------------------------------------------

    def _add_subscriber(self, client: str) -> None:
        random, world = self.random, self.world
        world.add_subscriber(client, f"place of {client}")
        for number in range(8):
            subscription = Subscription(
                id=f"{client}.S{number}", client=client, filter=parse(self._filter_text())
            )
            home = random.choice(self.dispatchers)
            from_us = random.choice([0, random.randint(0, 30 * SECOND_US)])
            world.subscribe(from_us, home, subscription)
            until_us = None
            if random.random() < 0.3:
                until_us = random.randint(from_us + SECOND_US, END_US)
                world.unsubscribe(until_us, home, subscription)
            self.interests.append(
                TimedSubscription(subscription=subscription, from_us=from_us, until_us=until_us)
            )

    def _filter_text(self) -> str:
        random = self.random
        low, limit = random.randrange(900), random.randrange(1_000)
        one, two = random.choice("xyzw"), random.choice("xyz")
        return random.choice(
            [
                f"{one} >= {low} AND {one} < {low + 250}",
                f"{one} >= {low} AND {one} < {low + 250} AND {two} < {limit}",
                f"{one} > {low}",
                f"{one} IS NULL",
                f"{one} = {low} OR {two} BETWEEN {limit} AND {limit + 50}",
                f"{one} = 'text'",
            ]
        )

    def _add_publisher(self, client: str) -> None:
        random = self.random
        self.world.add_publisher(client, random.choice(self.dispatchers), f"place of {client}")
        now_us, sequence = 2 * SECOND_US, 0
        while now_us < END_US:
            attributes: dict[str, int | float | str] = {
                name: random.choice([random.uniform(-50, 1_050), random.randrange(1_000)])
                for name in "xyz"
                if random.random() < 0.9
            }
            if random.random() < 0.05:
                attributes["x"] = "text"
            publication = Publication(
                publisher=client, sequence=sequence, published_us=now_us, attributes=attributes
            )
            self.publications.append(publication)
            self.world.request(now_us, client, Publish((publication,)))
            sequence += 1
            now_us += random.randint(1, 250_000)

    # --- events of matchers ---------------------------------------------------------------------

    def _make_trouble(self) -> None:
        random, world = self.random, self.world
        if self.trouble is Trouble.NONE or len(self.matchers) < 3:
            return
        for name in random.sample(self.matchers, min(2, len(self.matchers) - 2)):
            at_us = random.randint(6 * SECOND_US, 30 * SECOND_US)
            if self.trouble is Trouble.LEAVES:
                leave = Requested("operator", LeaveCluster())
                world.queue.push(at_us, world.brokers[name].receive, leave)
                continue
            world.crash(at_us, name)
            if random.random() < 0.7:
                away_us = random.choice([1, 100_000, 3 * SECOND_US, 12 * SECOND_US])
                world.restart(at_us + away_us, name)

    # --- judging ------------------------------------------------------------------------------

    def run(self) -> list[str]:
        self.world.run(END_US + DRAIN_US)
        trace = self.world.trace
        problems = [f"refused: {refusal}" for refusal in trace.refused]
        verdict = self.judge()
        problems += [f"lost: {key}" for key in verdict.lost]
        problems += [f"twice: {key}" for key in verdict.duplicates]
        problems += [f"phantom: {key}" for key in verdict.phantoms]
        if self.order is DeliveryOrder.PUBLISHER:
            problems += [f"out of order: {key}" for key in verdict.out_of_order]
        self.required = verdict.required
        for name in self.dispatchers:
            dispatcher = self.strategies[name].dispatcher
            assert dispatcher is not None
            if len(dispatcher.outbox):
                problems.append(f"{name} still keeps {len(dispatcher.outbox)} publications")
            if dispatcher.home.unstored:
                problems.append(f"{name} has not stored {dispatcher.home.unstored}")
        return problems + self._judge_segments()

    def judge(self) -> CheckerVerdict:
        deliveries = sorted(self.world.trace.deliveries, key=lambda row: row.delivered_us)
        return check_deliveries(self.publications, self.interests, deliveries, self.trouble.value)

    def _judge_segments(self) -> list[str]:
        """In the end exactly one matcher serves each place."""
        problems = []
        for dimension in range(len(self.names)):
            segments = sorted(
                strategy.matcher.segments[dimension]
                for name, strategy in self.strategies.items()
                if strategy.matcher is not None and self.world.brokers[name].running
            )
            bounds = [bound for segment in segments if segment for bound in segment]
            if bounds[1:-1:2] != bounds[2::2] or (bounds[0], bounds[-1]) != (-INF, INF):
                problems.append(f"dimension {dimension} is served as {segments}")
        return problems


INF = float("inf")
