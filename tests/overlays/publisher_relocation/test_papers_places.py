"""Where publishers of random trees end: at the broker that the paper's rules name.

The rules are computed here from all subscriptions at once: algorithms 2 and 3 of GRAPE for every
candidate, and POP's walk to the closest broker. Brokers have the answers of their traces only.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World
from tests.examples import at_length

SECOND_US = 1_000_000
# Publications of a publisher are of these kinds in turn; a session traces each kind as often.
KINDS = 5
SESSION = 4 * KINDS
INTERVAL_US = SECOND_US // 20
PARAMETERS: dict[str, msgspec.Struct] = {
    "grape": GrapeParameters(
        trace_session_length=SESSION,
        priority=Priority.LOAD,
        weight=100,
        least_gain_percent=0,
        most_busy_percent=100,
    ),
    "pop": PopParameters(
        threshold=20,
        window_publications=10,
        trace_window_us=2 * SECOND_US,
        least_gain_percent=0,
        most_busy_percent=100,
    ),
}


class PapersTree:
    """A tree with publishers and subscribers; `wants` has the broker and kinds of each of these."""

    def __init__(self, seed: int, system: str) -> None:
        self.random = random = Random(f"papers places/{system}/{seed}")
        self.system = system
        self.names = names = [f"B{number:02}" for number in range(random.randint(2, 16))]
        links = [(name, random.choice(names[:at])) for at, name in enumerate(names) if at]
        self.near: dict[str, set[str]] = {name: set() for name in names}
        for left, right in links:
            self.near[left].add(right)
            self.near[right].add(left)
        factory = strategy_factory(system, PARAMETERS[system])
        self.world = World(links, factory, ConstantUnderlay(random.choice([300, 5_000])))
        # POP averages what single publications found, so all of a publisher are alike.
        self.kinds = KINDS if system == "grape" else 1
        self.now_us = SECOND_US
        self.homes: dict[str, str] = {}
        self.wants: dict[str, list[tuple[str, set[int]]]] = {}

    def add_publisher(self, name: str) -> None:
        home = self.homes[name] = self.random.choice(self.names)
        self.world.add_publisher(name, home, home)
        promise = parse(f"publisher = '{name}'")
        self.world.advertise(self.now_us, Advertisement(id=name, publisher=name, filter=promise))
        self.wants[name] = []
        for number in range(self.random.randint(1, 7)):
            self._add_subscriber(name, f"S{number} of {name}")

    def _add_subscriber(self, publisher: str, name: str) -> None:
        random = self.random
        kinds = set(random.sample(range(self.kinds), random.randint(1, self.kinds)))
        broker = random.choice(self.names)
        self.wants[publisher].append((broker, kinds))
        self.world.add_subscriber(name, broker)
        any_of = " or ".join(f"kind = {kind}" for kind in sorted(kinds))
        filter = parse(f"publisher = '{publisher}' and ({any_of})")
        wish = Subscription(id=name, client=name, filter=filter)
        self.world.subscribe(self.now_us + SECOND_US, broker, wish)

    def publish(self, rounds: int) -> int:
        """Publish so many of each publisher; the number of deliveries that are required."""
        self.now_us += 4 * SECOND_US
        for number in range(rounds):
            for name in self.homes:
                kind = number % self.kinds
                sent = Publication(
                    publisher=name,
                    sequence=number,
                    published_us=self.now_us,
                    attributes={"publisher": name, "kind": kind},
                )
                self.world.request(self.now_us, name, Publish((sent,)))
            self.now_us += INTERVAL_US
        self.world.run(self.now_us + 5 * SECOND_US)
        each = rounds // self.kinds
        return sum(each * len(kinds) for wants in self.wants.values() for _, kinds in wants)

    # --- the paper's rules ------------------------------------------------------------------------

    def expected(self, publisher: str) -> set[str]:
        """The brokers where a publisher may end: of equal ones either."""
        return self._lightest(publisher) if self.system == "grape" else {self._closest(publisher)}

    def _path(self, start: str, end: str, before: str | None = None) -> list[str]:
        """The brokers from one to another; empty if `before` is between."""
        if start == end:
            return [start]
        ways = (self._path(near, end, start) for near in self.near[start] if near != before)
        return next(([start, *way] for way in ways if way), [])

    def _lightest(self, publisher: str) -> set[str]:
        """GRAPE for load alone, 4.2: of the brokers that answered, and the present one."""
        home, wants = self.homes[publisher], self.wants[publisher]
        candidates = {home}.union(*(self._path(home, broker) for broker, _ in wants))
        rates = {root: sum(self._handling(root, wants)) for root in candidates}
        return {root for root, rate in rates.items() if rate == min(rates.values())}

    def _handling(self, root: str, wants: list[tuple[str, set[int]]]) -> Iterator[int]:
        """For each kind: how many brokers handle it with the publisher at `root`."""
        for kind in range(self.kinds):
            paths = (self._path(root, broker) for broker, kinds in wants if kind in kinds)
            yield len(set[str]().union(*paths))

    def _closest(self, publisher: str) -> str:
        """POP, 3.2: on to the neighbour with more subscribers than everywhere else."""
        at, before = self.homes[publisher], None
        homes = [broker for broker, _ in self.wants[publisher]]
        while True:
            behind = {
                near: sum(bool(self._path(near, home, at)) for home in homes)
                for near in self.near[at]
                if near != before
            }
            more = [near for near, count in behind.items() if count > len(homes) - count]
            if not more:
                return at
            at, before = more[0], at


def _play(seed: int, system: str) -> int:
    """The number of publishers that moved."""
    tree = PapersTree(seed, system)
    for number in range(tree.random.randint(1, 3)):
        tree.add_publisher(f"P{number}")
    required = tree.publish(10 * SESSION if system == "grape" else 150)
    deliveries = [(each.client, each.publication) for each in tree.world.trace.deliveries]
    assert len(deliveries) == required
    ends = {name: tree.world.publisher_broker(name) for name in tree.homes}
    for name, end in ends.items():
        assert end in tree.expected(name), f"seed {seed}: {name} from {tree.homes[name]}"
    return sum(ends[name] != home for name, home in tree.homes.items())


@pytest.mark.parametrize("system", PARAMETERS)
@pytest.mark.parametrize("seeds", [range(6), *at_length([range(6, 200)])])
def test_publishers_end_where_the_paper_says(seeds: range, system: str) -> None:
    assert sum(_play(seed, system) for seed in seeds) > 0
