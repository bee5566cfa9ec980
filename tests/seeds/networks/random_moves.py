"""Random networks with clients moved between brokers, while brokers are killed.

Any client, publisher or subscriber, may be moved at any time to any broker. A fault excuses losses
at the brokers of the subscription at that time.
"""

from __future__ import annotations

from random import Random

from shoal.clients.records import SubscriberMoveRecord
from shoal.overlays.publisher_relocation.grape.parameters import Moves
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import Picture
from shoal.simulation.judging.checkers import TimedSubscription
from shoal.simulation.judging.outages import Excuses, Outage, PublisherAttachments
from shoal.simulation.nodes import DETECTION_US
from shoal.simulation.trace import Published
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork


class RandomMoves(RandomNetwork):
    """One seed's network; `run` gives the violations."""

    MOVES = 8

    def __init__(
        self,
        seed: int,
        *,
        system: str,
        interval_us: int = 400_000,
        kills: int = 0,
        lossy: bool = False,
        moves: Moves | None = None,
        anywhere: bool = False,
    ) -> None:
        """With `anywhere` a fault excuses losses of any subscription, as routes are no tree's."""
        super().__init__(
            seed,
            system=system,
            interval_us=interval_us,
            lossy=lossy,
            patient=kills > 0,
            moves=moves,
        )
        chance = Random(f"moves/{seed}")
        clients = sorted({interest.subscription.client for interest, _ in self.interests})
        self.starts = [(name, self.world.publisher_broker(name)) for name in self.publishers]
        # Publishers that wait for a dead broker would publish at once before their advertisement is
        # known.
        movable = clients if kills else [*clients, *self.publishers]
        for _ in range(self.MOVES):
            at_us = chance.randint(SECOND_US, END_US)
            self.world.move(at_us, chance.choice(movable), chance.choice(self.brokers))
        self._anywhere = anywhere
        self.outages: list[Outage] = []
        for _ in range(kills):
            self._kill(chance)
        self._excuses: Excuses | None = None
        self._transfers: dict[str, list[tuple[int, float, str]]] = {}

    def _kill(self, chance: Random) -> None:
        broker, at_us = chance.choice(self.brokers), chance.randint(SETTLE_US, END_US)
        until_us = at_us + chance.choice((1, SECOND_US // 10, SECOND_US))
        self.world.crash(at_us, broker)
        self.world.restart(until_us, broker)
        self.outages.append(
            Outage(parts=(broker,), from_us=at_us, until_us=until_us + 2 * DETECTION_US)
        )

    def run(self, until_us: int | None = None) -> list[str]:
        problems = super().run(until_us)
        # A publication at a broker that has just restarted is refused: an outage.
        return [each for each in problems if not (self.outages and each.startswith("refused"))]

    @property
    def moved(self) -> list[SubscriberMoveRecord]:
        records = self.world.trace.records
        return [row for row in records if isinstance(row, SubscriberMoveRecord)]

    def is_excused(self, published: Published, interest: TimedSubscription) -> bool:
        if not self.outages:
            return False
        if self._anywhere:
            return any(
                outage.from_us - SETTLE_US <= published.at_us <= outage.until_us + SETTLE_US
                for outage in self.outages
            )
        if self._excuses is None:
            whereabouts = PublisherAttachments(self.starts, self.world.trace.records)
            self._excuses = Excuses(self.links, self.outages, whereabouts, SETTLE_US)
            self._transfers = self._find_transfers()
        publisher, at_us = published.publication.publisher, published.at_us
        return any(
            from_us <= at_us <= until_us
            and self._excuses.excuse(publisher, published.broker, at_us, broker)
            for from_us, until_us, broker in self._transfers[interest.subscription.id]
        )

    def _find_transfers(self) -> dict[str, list[tuple[int, float, str]]]:
        """The interval in which each subscription was at each broker."""
        transfers: dict[str, list[tuple[int, float, str]]] = {
            interest.subscription.id: [(0, float("inf"), home)] for interest, home in self.interests
        }
        for row in self.moved:
            transfer = transfers[row.subscription]
            from_us, _, broker = transfer[-1]
            transfer[-1] = (from_us, row.moved_us, broker)
            transfer.append((row.asked_us, float("inf"), row.target))
        return transfers

    def table_problems(self) -> list[str]:
        oracle = SYSTEMS[self.system].oracle
        if oracle is None:
            return []
        advertised = [
            (row, self.world.publisher_broker(row.publisher)) for row in self.kept_advertisements
        ]
        picture = Picture(self.world.links or self.links, advertised, self.world.subscriptions)
        nodes = self.world.brokers.items()
        return oracle(picture, {name: node.machine.strategy for name, node in nodes})


class RandomCrowd(RandomMoves):
    """Thousands of clients, each moved about once."""

    SUBSCRIBERS = (2_000, 3_000)
    MOVES = 2_000

    def table_problems(self) -> list[str]:
        """Not judged: of so many rows not every pair is compared (`tree/routing_table.py`)."""
        return []
