"""Random networks of brokers that exchange links all the time, with faults at exchanges.

A network runs twice, as in `random_faults`. The first run, without faults, shows the times and
places of exchanges, and must lose nothing. The second breaks things on the cycles at such times,
and may lose only publications over the fault, in any of the trees of that time.
"""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import msgspec

from shoal.broker.effects import TimerFired
from shoal.clients.records import MigrationRecord
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.self_organising.link_reconfiguration.states import ReconfigurationState
from shoal.overlays.self_organising.moves.moving_publishers import MovingPublishers
from shoal.overlays.system import Picture
from shoal.overlays.tree.oracle import next_hops, table_problems
from shoal.simulation.judging.checkers import CheckerVerdict, TimedSubscription, check_deliveries
from shoal.simulation.links.reliable import ReliableBroker
from shoal.simulation.nodes import DETECTION_US, BrokerNode
from shoal.simulation.trace import Published
from tests.forced_exchanges import BEGIN, SYSTEM, WITH_MOVES, Exchanged, Forced
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork
from tests.seeds.networks.trees import path

Links = frozenset[tuple[BrokerId, BrokerId]]
LENGTHS_US = (1, SECOND_US // 10, SECOND_US, 4 * SECOND_US, 15 * SECOND_US)
# The interval of looks at the links.
LOOK_US = SECOND_US // 10
# A broker quiesced for longer waits for a disconnected one: its held input is under way.
HELD_US = 2 * SECOND_US


class RandomExchanges:
    """One seed's network; `run` gives the violations."""

    def __init__(
        self,
        seed: int,
        *,
        lossy: bool = False,
        patient: bool = False,
        moves: bool = False,
        clocks: bool = False,
        interval_us: int = 400_000,
    ) -> None:
        """With `moves` publishers move, too; with `clocks` brokers' clocks differ."""
        system = WITH_MOVES if moves else SYSTEM
        with patch.dict(SYSTEMS, {system.name: system}):
            self.network = RandomNetwork(
                seed,
                system=system.name,
                lossy=lossy,
                patient=patient,
                interval_us=interval_us,
                clocks=clocks,
            )
        self.world = self.network.world
        self.random = random = Random(f"exchanges/{seed}")
        # Faults have their own random generator, so that both runs are equal up to the first.
        self.faults = Random(f"faults of exchanges/{seed}")
        self.outages: list[tuple[int, int, tuple[str, ...]]] = []
        self.trees: list[tuple[int, Links]] = []
        # Quiesced brokers with their start times; and how long brokers were quiesced.
        self._holding: dict[BrokerId, int] = {}
        self._held: list[tuple[int, int, tuple[str, ...]]] = []
        at_us = SETTLE_US
        while at_us < END_US:
            self.world.queue.push(at_us, self._exchange, random.random())
            at_us += random.randint(1, 2 * SECOND_US)
        for at_us in range(0, END_US + 40 * SECOND_US, LOOK_US):
            self.world.queue.push(at_us, self._look, None)

    @property
    def exchanged(self) -> list[Exchanged]:
        """All exchanges, in the world's time; records have their broker's clock."""
        clocks_us = self.network.clocks_us
        return [
            msgspec.structs.replace(
                row,
                begun_us=row.begun_us - clocks_us[row.exchange.cycle[-1]],
                done_us=row.done_us - clocks_us[row.exchange.cycle[-1]],
            )
            for row in self.world.trace.records
            if isinstance(row, Exchanged)
        ]

    @property
    def moves(self) -> int:
        """The number of moves of publishers."""
        return sum(isinstance(row, MigrationRecord) for row in self.world.trace.records)

    def _look(self, now_us: int, _: None) -> None:
        links = frozenset(self.world.links)
        if not self.trees or self.trees[-1][1] != links:
            self.trees.append((now_us, links))
        for name, node in self.world.brokers.items():
            if _holds(node):
                self._holding.setdefault(name, now_us)
            elif (since_us := self._holding.pop(name, now_us)) < now_us - HELD_US:
                self._held.append((since_us, now_us, (name,)))

    def _exchange(self, now_us: int, drawn: float) -> None:
        """A random broker decides on the exchange of a link."""
        random, links = Random(drawn), self.world.links
        if len(self.network.brokers) < 3 or not is_tree(self.network.brokers, links):
            return
        cycle = path(links, *random.sample(self.network.brokers, 2))
        if len(cycle) > 2:
            key = (BEGIN, str(random.randrange(len(cycle) - 1)), *cycle)
            self.world.brokers[cycle[-1]].bring(now_us, TimerFired(key))

    # --- faults --------------------------------------------------------------------------------

    def break_exchanges(self, exchanged: list[Exchanged], count: int) -> None:
        """Faults on the cycle of an exchange, shortly before it, during it or just after it."""
        for row in self.faults.sample(exchanged, min(count, len(exchanged))):
            cycle = row.exchange.cycle
            spare_us = (row.done_us - row.begun_us) // 4
            at_us = self.faults.randint(row.begun_us - spare_us, row.done_us + spare_us)
            if self.faults.random() < 0.5:
                self._break(at_us, self.faults.choice(cycle))
            else:
                place = self.faults.randrange(len(cycle))
                self._break(at_us, cycle[place - 1], cycle[place])

    def break_anything(self, count: int) -> None:
        """Cuts and crashes at any time, each mended after a while; they may overlap."""
        for _ in range(count):
            at_us = self.faults.randint(SETTLE_US, END_US)
            if self.faults.random() < 0.5 and len(self.network.brokers) > 1:
                self._break(at_us, *self.faults.sample(self.network.brokers, 2))
            else:
                self._break(at_us, self.faults.choice(self.network.brokers))

    def _break(self, at_us: int, *parts: str) -> None:
        until_us = at_us + self.faults.choice(LENGTHS_US)
        if len(parts) == 2:
            self.world.cut(at_us, *parts)
            self.world.heal(until_us, *parts)
        else:
            self.world.crash(at_us, *parts)
            self.world.restart(until_us, *parts)
        self.outages.append((at_us, until_us + 2 * DETECTION_US, parts))

    # --- judging ------------------------------------------------------------------------------

    def run(self) -> list[str]:
        self.world.run()
        self._look(self.world.queue.now_us, None)
        self.verdict = self._judge_deliveries()
        problems = [] if self.verdict else [str(self.verdict)]
        if not self.outages:
            problems += [f"refused: {refusal}" for refusal in self.world.trace.refused]
        return problems + self._judge_tree()

    def _judge_deliveries(self) -> CheckerVerdict:
        network, trace = self.network, self.world.trace
        homes = {interest.subscription.id: home for interest, home in network.interests}

        def excused(row: Published, interest: TimedSubscription) -> bool:
            return self._excuse(row.broker, row.at_us, homes[interest.subscription.id])

        def check(settle_us: int) -> CheckerVerdict:
            return check_deliveries(
                network.publications,
                [interest for interest, _ in network.interests],
                sorted(trace.deliveries, key=lambda delivery: delivery.delivered_us),
                settle_us,
                handed={row.publication.key: row for row in trace.published},
                excused=excused,
            )

        verdict, held = check(SETTLE_US), [end - start for start, end, _ in self._held]
        if not (held and verdict.phantoms):
            return verdict
        # Publications and unsubscribes may be held, too, over lossy links without any fault.
        phantoms = check(SETTLE_US + max(held)).phantoms
        return msgspec.structs.replace(verdict, phantoms=phantoms)

    def _excuse(self, source: BrokerId, at_us: int, target: BrokerId) -> bool:
        """Whether something on the way failed then, in one of the trees of that time."""
        from_us, until_us = at_us - SETTLE_US, at_us + SETTLE_US
        broken = [
            parts
            for start, end, parts in (*self.outages, *self._held)
            if start < until_us and end > from_us
        ]
        if not broken:
            return False
        for place, (start_us, links) in enumerate(self.trees):
            ends = self.trees[place + 1 :][:1]
            if start_us < until_us and (not ends or ends[0][0] > from_us):
                if not is_tree(self.network.brokers, links):
                    return True
                way = path(sorted(links), source, target)
                steps = [{*way[place : place + 2]} for place in range(len(way) - 1)]
                for parts in broken:
                    if {*parts} in steps or (len(parts) == 1 and parts[0] in way):
                        return True
        return False

    def _judge_tree(self) -> list[str]:
        """One tree that every broker knows, with the oracle's tables."""
        network, world = self.network, self.world
        links = sorted(world.links)
        if not is_tree(network.brokers, links):
            return [f"no tree at the end: {links}"]
        problems = []
        neighbours: dict[str, list[str]] = {name: [] for name in network.brokers}
        for left, right in links:
            neighbours[left].append(right)
            neighbours[right].append(left)
        strategies: dict[str, Forced] = {
            name: node.machine.strategy
            for name, node in world.brokers.items()  # type: ignore[misc]
        }
        for name, strategy in strategies.items():
            overlay = strategy.overlay
            problems += [
                f"{name} has {what} {sorted(found)}, not {sorted(neighbours[name])}"
                for what, found in (
                    ("neighbours", overlay.tree.propagation.neighbours),
                    ("links", [*world.brokers[name].links]),
                    ("standings", [*overlay.memory.neighbours]),
                )
                if sorted(found) != sorted(neighbours[name])
            ]
            if isinstance(strategy.routing, MovingPublishers) and strategy.routing.is_moving:
                problems.append(f"a publisher still moves through {name}")
            if overlay.contradiction:
                problems.append(overlay.contradiction)
            if overlay._ring.state is not ReconfigurationState.FREE or _holds(world.brokers[name]):
                problems.append(f"{name} is {overlay._ring.state}")
        homes = [
            (row, world.publisher_broker(row.publisher)) for row in network.kept_advertisements
        ]
        interests = [
            (interest.subscription, home)
            for interest, home in network.interests
            if interest.until_us is None
        ]
        return problems + table_problems(Picture(links, homes, interests), strategies)


def _holds(node: BrokerNode) -> bool:
    """Whether it holds input back, itself or in reliable links."""
    machine = node.machine
    return node._holding is not None or (isinstance(machine, ReliableBroker) and machine.is_holding)


def is_tree(brokers: list[str], links: list[tuple[str, str]] | Links) -> bool:
    """Not while a broker still asks for a link to one that has left."""
    neighbours: dict[str, list[str]] = {name: [] for name in brokers}
    if not {end for ends in links for end in ends} <= neighbours.keys():
        return False
    for left, right in links:
        neighbours[left].append(right)
        neighbours[right].append(left)
    return len(links) == len(brokers) - 1 and len(next_hops(brokers[0], neighbours)) == len(brokers)
