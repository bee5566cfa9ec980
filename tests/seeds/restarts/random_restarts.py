"""Random restarts of a BlueDove cluster, in memory: one broker, two, or all, back in any order.

Every broker dispatches and matches. Its clients' subscriptions and deliveries are on disk and
survive a kill; all else is lost. Links are as over sockets: neighbours notice a death only when the
broker is back, and some of its earlier messages may still arrive. A settled publication must have
been delivered at that moment to every subscription granted before it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import (
    Effect,
    LinkChanged,
    LinkState,
    OpenLink,
    Received,
    Requested,
    Send,
    Started,
)
from shoal.broker.messages import Message, Publish, Subscribe
from shoal.matching.semantics import matches
from shoal.model import Publication, Subscription
from tests.broker.transcript import subscription
from tests.overlays.bluedove.cluster import TWO, Cluster, parameters


class Restarts(Cluster):
    """Brokers that are killed and restarted, and the check of their promises."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"restarts/{seed}")
        names = " ".join(f"B{number}" for number in range(1, random.randint(3, 4) + 1))
        # Requested links, and ends whose other end is dead.
        self.opening: list[tuple[str, str]] = []
        self.away: set[tuple[str, str]] = set()
        # By name: subscriptions at each broker, and the granted ones.
        self.homes: dict[str, tuple[str, Subscription]] = {}
        self.granted: dict[str, Subscription] = {}
        self.numbers: dict[str, int] = {}
        self.required = self.killed = self.settled = 0
        super().__init__(
            parameters(
                names,
                names,
                dimensions=TWO[: random.randint(1, 2)],
                gossip_interval_us=500_000,
                pull_interval_us=2_000_000,
                answer_timeout_us=1_000_000,
                failure_us=4_000_000,
            )
        )
        self.names = names.split()
        self.run(2)

    # --- links --------------------------------------------------------------------------------

    def _carry_out(self, name: str, effect: Effect, ack_tracker: AckTracker | None) -> None:
        match effect:
            case OpenLink(other):
                self.opening.append((name, other))
            case Send(other, _) if other not in self.nodes:
                pass
            case _:
                super()._carry_out(name, effect, ack_tracker)

    def _open(self, name: str, other: str) -> None:
        if name not in self.nodes:
            return
        if other not in self.nodes:
            self.handle(name, LinkChanged(other, LinkState.FAILED))
            return
        if (name, other) in self.links and not {(name, other), (other, name)} & self.away:
            return
        self.begin_session(name, other)

    def begin_session(self, one: str, other: str) -> None:
        """A link comes up; if it was up, its content is lost."""
        ends = {(one, other), (other, one)}
        linked, self.away = ends & self.links, self.away - ends
        self.links -= ends
        self.under_way = deque(row for row in self.under_way if row[:2] not in ends)
        for name, to in sorted(linked):
            self.handle(name, LinkChanged(to, LinkState.FAILED))
        self.links |= ends
        for name, to in ((one, other), (other, one)):
            self.handle(name, LinkChanged(to, LinkState.UP))

    def _arrive(self, source: str, target: str, message: Message) -> None:
        if target in self.nodes:
            self.handle(target, Received(source, message))

    def settle(self) -> None:
        while self.under_way or self.opening or self._work():
            if self.opening:
                self._open(*self.opening.pop(0))
            else:
                super().settle()

    def step(self, random: Random) -> None:
        if self.opening and random.random() < 0.3:
            self._open(*self.opening.pop(random.randrange(len(self.opening))))
        else:
            super().step(random)

    # --- events -------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        self.killed += 1
        del self.nodes[name]
        self.timers = {place: at for place, at in self.timers.items() if place[0] != name}
        self.unsettled = {place: each for place, each in self.unsettled.items() if place[0] != name}
        self.opening = [row for row in self.opening if row[0] != name]
        others = {source for source, target in self.links if target == name}
        self.away |= {(other, name) for other in others}
        self.away = {end for end in self.away if end[0] != name}
        self.links = {end for end in self.links if end[0] != name}
        # So many of its first messages are on their way to each neighbour.
        arrives = {other: self.random.choice((0, 1, 5, 1_000)) for other in self.names}
        kept = []
        for row in self.under_way:
            if row[0] == name:
                arrives[row[1]] -= 1
            if row[1] != name and (row[0] != name or arrives[row[1]] >= 0):
                kept.append(row)
        self.under_way = deque(kept)

    def restart(self, name: str) -> None:
        self.now_us += 10_000  # no process starts within the moment in which it died
        self.add(name)
        former = tuple(other for other in self.names if other != name)
        self.handle(name, Started(former))
        for home, wanted in self.homes.values():
            if home == name:
                self._ask_for(home, wanted)

    def subscribe(self) -> None:
        home = self.random.choice(list(self.nodes))
        low = self.random.randrange(-100, 900)
        name = f"s{len(self.homes)}"
        text = self.random.choice(
            (f"x >= {low}", f"x >= {low} AND x < {low + 200}", f"y < {low}", "x IS NULL")
        )
        wanted = subscription(name, text, f"C of {home}")
        self.homes[name] = home, wanted
        self._ask_for(home, wanted)

    def _ask_for(self, home: str, wanted: Subscription) -> None:
        ack_tracker = AckTracker(partial(self.granted.__setitem__, wanted.id, wanted))
        self.handle(home, Requested(wanted.client, Subscribe(wanted)), ack_tracker)

    def publish_at(self, broker: str) -> None:
        """Publish one or several, by a publisher of that broker."""
        publisher = f"P of {broker}"
        made = []
        for _ in range(self.random.randint(1, 3)):
            number = self.numbers[publisher] = self.numbers.get(publisher, 0) + 1
            attributes = {key: self.random.randrange(1_000) for key in "xy"}
            if self.random.random() < 0.1:
                del attributes["x"]
            made.append(
                Publication(
                    publisher=publisher,
                    sequence=number,
                    published_us=self.now_us,
                    attributes=attributes,
                    assured=True,
                )
            )
        owed = [
            (publication.key, name)
            for publication in made
            for name, wanted in self.granted.items()
            if matches(wanted.filter, publication.attributes)
        ]
        ack_tracker = AckTracker(partial(self._published, self.nodes[broker], broker, owed))
        self.handle(broker, Requested(publisher, Publish(tuple(made))), ack_tracker)

    def _published(
        self, node: object, broker: str, owed: list[tuple[tuple[str, int], str]]
    ) -> None:
        if self.nodes.get(broker) is not node:
            return  # the settlement of a dead broker
        self.settled += 1
        self.required += len(owed)
        delivered = {
            (each.routed.publication.key, name)
            for _, each in self.deliveries
            for name in each.subscriptions
        }
        missing = [row for row in owed if row not in delivered]
        assert not missing, missing

    # --- judging ------------------------------------------------------------------------------

    def check_order(self) -> None:
        """Each subscription received each publisher's publications in order, repetitions aside."""
        got: dict[tuple[str, str], dict[int, None]] = {}
        for _, each in self.deliveries:
            publisher, number = each.routed.publication.key
            for name in each.subscriptions:
                got.setdefault((name, publisher), {})[number] = None
        for pair, numbers in got.items():
            assert list(numbers) == sorted(numbers), pair

    def check_segments(self) -> None:
        """Every place is served by a matcher that claims it."""
        for name in self.names:
            strategy = self.strategies[name]
            assert strategy.matcher is not None
            assert not strategy.matcher.unready, name
            for dimension in range(len(self.parameters.dimensions)):
                assert not strategy.node.table.holes(dimension), name


def play(seed: int) -> Restarts:
    """Play a random cluster; AssertionError if a promise is broken."""
    cluster = Restarts(seed)
    random = cluster.random
    for _ in range(6):
        cluster.subscribe()
        cluster.run(random.choice((0, 0.2)))
    cluster.run(2)
    due: list[tuple[int, str]] = []
    for step in range(random.randint(200, 700)):
        match random.choices(
            ("publish", "subscribe", "step", "run", "kill", "kill two", "kill all", "flap"),
            (12, 1 * (len(cluster.homes) < 14), 60, 12, 0.6, 0.4, 0.25, 0.5),
        )[0]:
            case "publish" if cluster.nodes:
                cluster.publish_at(random.choice(list(cluster.nodes)))
            case "subscribe" if cluster.nodes:
                cluster.subscribe()
            case "step":
                cluster.step(random)
            case "run":
                cluster.run(random.choice((0.05, 0.3, 1.0)))
            case "flap" if len(cluster.nodes) > 1:
                cluster.begin_session(*random.sample(list(cluster.nodes), 2))
            case ("kill" | "kill two" | "kill all") as how:
                count = {"kill": 1, "kill two": 2, "kill all": len(cluster.names)}[how]
                for name in random.sample(cluster.names, count):
                    if name in cluster.nodes:
                        cluster.kill(name)
                        due.append((step + random.choice((0, 1, 10, 60, 150)), name))
                        for _ in range(random.choice((0, 0, 3, 10))):
                            cluster.step(random)
        for row in [row for row in due if row[0] <= step]:
            due.remove(row)
            cluster.restart(row[1])
    for name in cluster.names:
        if name not in cluster.nodes:
            cluster.restart(name)
            cluster.run(random.choice((0.1, 2, 8)))
    cluster.run(80)
    assert not cluster.unsettled, list(cluster.unsettled)
    cluster.check_segments()
    cluster.check_order()
    return cluster
