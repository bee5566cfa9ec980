"""Random networks with faults at the moves of publishers, and judges that excuse only these.

A network runs twice. The first run, without faults, shows the times and places of moves. The second
breaks things at such times: the source, the target, a broker between them, a link of the path; or
the publisher leaves. Up to the first fault both runs are equal.
"""

from __future__ import annotations

from collections.abc import Sized
from random import Random

from shoal.clients.records import MigrationRecord
from shoal.overlays.system import Picture
from shoal.overlays.tree.oracle import table_problems
from shoal.simulation.judging.checkers import CheckerVerdict, check_deliveries
from shoal.simulation.judging.outages import Excuses, Outage, PublisherAttachments
from shoal.simulation.links.reliable import ReliableBroker
from shoal.simulation.nodes import DETECTION_US
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork
from tests.seeds.networks.trees import path

LENGTHS_US = (1, SECOND_US // 10, SECOND_US, 4 * SECOND_US, 35 * SECOND_US)
# Disconnected brokers return soon: a publisher that is held up for long advertises and publishes at
# once afterwards, and brokers that do not know the advertisement yet lose the publications.
SOON_US = LENGTHS_US[:3]


class FaultyNetwork:
    """One seed's network with faults; `run` gives the violations."""

    def __init__(
        self, seed: int, *, system: str, lossy: bool = False, patient: bool = False
    ) -> None:
        self.network = RandomNetwork(seed, system=system, lossy=lossy, patient=patient)
        self.world = self.network.world
        self.random = Random(f"faults/{seed}")
        self.lengths_us = SOON_US if patient else LENGTHS_US
        self.outages: list[Outage] = []
        self.gone: dict[str, int] = {}
        self.starts = [
            (client, self.world.publisher_broker(client)) for client in self.network.publishers
        ]

    # --- faults --------------------------------------------------------------------------------

    def break_anything(self, count: int) -> None:
        """Cuts and crashes at any time, each mended after a while; they may overlap."""
        for _ in range(count):
            at_us = self.random.randint(SETTLE_US, END_US)
            if self.random.random() < 0.5:
                self._break(at_us, *self.random.choice(self.network.links))
            else:
                self._break(at_us, self.random.choice(self.network.brokers))

    def break_moves(self, moves: list[MigrationRecord], count: int) -> None:
        """Faults on the path of a move, shortly before it, during it or just after it."""
        for move in self.random.sample(moves, min(count, len(moves))):
            way = path(self.network.links, move.source, move.target)
            spare_us = (move.resumed_us - move.paused_us) // 4
            at_us = self.random.randint(move.paused_us - spare_us, move.resumed_us + spare_us)
            match self.random.choice(["source", "target", "between", "link", "link", "leave"]):
                case "source":
                    self._break(at_us, way[0])
                case "target":
                    self._break(at_us, way[-1])
                case "between":
                    self._break(at_us, self.random.choice(way))
                case "link":
                    place = self.random.randrange(len(way) - 1)
                    self._break(at_us, way[place], way[place + 1])
                case "leave" if move.publisher not in self.gone:
                    self.gone[move.publisher] = at_us
                    self.world.leave(at_us, move.publisher)

    def _break(self, at_us: int, *parts: str) -> None:
        until_us = at_us + self.random.choice(self.lengths_us)
        if len(parts) == 2:
            self.world.cut(at_us, *parts)
            self.world.heal(until_us, *parts)
        else:
            self.world.crash(at_us, *parts)
            self.world.restart(until_us, *parts)
        # Up to a second to notice a failure, and another for the return.
        until_us += 2 * DETECTION_US
        self.outages.append(Outage(parts=parts, from_us=at_us, until_us=until_us))

    # --- judging ------------------------------------------------------------------------------

    def run(self) -> list[str]:
        self.world.run()
        self.verdict = self._judge_deliveries()
        problems = [] if self.verdict else [str(self.verdict)]
        return problems + self._judge_tables() + self._judge_remains()

    def _judge_deliveries(self) -> CheckerVerdict:
        network, trace = self.network, self.world.trace
        excuses = Excuses(
            network.links, self.outages, PublisherAttachments(self.starts, trace.records), SETTLE_US
        )
        homes = {interest.subscription.id: home for interest, home in network.interests}
        return check_deliveries(
            network.publications,
            [interest for interest, _ in network.interests],
            sorted(trace.deliveries, key=lambda delivery: delivery.delivered_us),
            SETTLE_US,
            handed={row.publication.key: row for row in trace.published},
            excused=lambda row, interest: excuses.excuse(
                row.publication.publisher, row.broker, row.at_us, homes[interest.subscription.id]
            ),
        )

    def _judge_tables(self) -> list[str]:
        network, world = self.network, self.world
        homes = [
            (row, world.publisher_broker(row.publisher))
            for row in network.kept_advertisements
            if row.publisher not in self.gone
        ]
        interests = [
            (interest.subscription, home)
            for interest, home in network.interests
            if interest.until_us is None
        ]
        strategies = {name: node.machine.strategy for name, node in world.brokers.items()}
        return table_problems(Picture(network.links, homes, interests), strategies)

    def _judge_remains(self) -> list[str]:
        """Every publisher has arrived and published everything, and no broker keeps a state of a
        move.
        """
        said = {row.publication.key for row in self.world.trace.published}
        problems = [
            f"never handed over: {row.key}"
            for row in self.network.publications
            if row.publisher not in self.gone and row.key not in said
        ]
        for name, node in self.world.brokers.items():
            machine = node.machine
            if isinstance(machine, ReliableBroker):
                machine = machine._broker
            migrations = getattr(machine._strategy, "migrations", None)  # type: ignore[attr-defined]
            if migrations is not None:
                problems += [
                    f"{name} remembers {what}: {rows}"
                    for what, rows in vars(migrations).items()
                    if isinstance(rows, Sized) and what != "_arrived" and rows
                ]
        return problems


def moves_without_faults(seed: int, *, system: str, lossy: bool = False) -> list[MigrationRecord]:
    network = RandomNetwork(seed, system=system, lossy=lossy)
    network.world.run()
    return [row for row in network.world.trace.records if isinstance(row, MigrationRecord)]
