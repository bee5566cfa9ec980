"""Brokers leave random trees in which others are down, and links break meanwhile.

A leave waits for neighbours that are down, so all have left in the end.

Twenty seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.effects import Effect, EndLink, Input, Leave, Send
from shoal.broker.strategy import StrategyFactory
from shoal.overlays.coordination.messages import ChangeMessage
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.surroundings import Machine
from shoal.simulation.world import World
from tests.seeds.chosen import chosen
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

QUICK = range(20)
SOAK = range(1_000)
# Long after all are back.
END_US = 9 * 60 * SECOND_US
LENGTHS_US = (1, SECOND_US // 10, SECOND_US, 5 * SECOND_US)


Links = list[tuple[str, str]]


def systems() -> dict[str, StrategyFactory]:
    found = {"tree": strategy_factory("tree"), "grape": strategy_factory("grape")}
    for mode in Mode:
        parameters = SelfOrganisingParameters(mode=mode, interval_us=SECOND_US)
        found[f"self_organising {mode.value}"] = strategy_factory("self_organising", parameters)
    return found


def leave(world: World, now_us: int, name: str) -> None:
    world.brokers[name].bring(now_us, Leave())


def is_tree(links: Links, brokers: set[str]) -> bool:
    reached = {min(brokers)}
    for _ in brokers:
        reached |= {end for link in links if reached & {*link} for end in link}
    return reached == brokers and len(links) == len(brokers) - 1


class Absences:
    """One seed's network; `faults` lists the faults with their times."""

    def __init__(self, seed: int, system: str) -> None:
        random = self._random = Random(f"absences/{seed}")
        names = self._names = [f"N{number}" for number in range(random.randint(4, 8))]
        links = [
            tuple(sorted((names[random.randrange(number)], names[number])))
            for number in range(1, len(names))
        ]
        self.world = World(links, systems()[system], SeededUnderlay(seed), seed=seed)  # type: ignore[arg-type]
        away = random.sample(names, random.choice((1, 1, 2)))
        for name in away:
            at_us = random.randint(15, 40) * SECOND_US
            self._take_away(name, at_us, at_us + random.randint(20, 160) * SECOND_US)
        others = [name for name in names if name not in away]
        self._leaving_brokers = random.sample(others, random.randint(1, max(1, len(others) - 1)))
        for name in self._leaving_brokers:
            at_us = random.randint(20, 120) * SECOND_US
            self.world.queue.push(at_us, partial(leave, self.world), name)
        # The remaining brokers that are up may be killed, once each.
        self._mortal = {*others} - {*self._leaving_brokers}
        self._left, self._share = random.randint(1, 3), random.choice((0.03, 0.1, 0.3))
        self.faults: list[str] = []
        for name in names:
            self._watch(self.world.brokers[name])

    def _take_away(self, name: str, at_us: int, until_us: int) -> None:
        """Kill a broker, or cut it off from all others."""
        if self._random.random() < 0.5:
            self.world.crash(at_us, name)
            self.world.restart(until_us, name)
            return
        for other in self._names:
            if other != name:
                self.world.cut(at_us, name, other)
                self.world.heal(until_us, name, other)

    def _watch(self, node: BrokerNode) -> None:
        """Break something at a broker when, or shortly after, it sends a message about a leave."""
        handle = node._handle

        def watched(input: Input, now_us: int) -> list[Effect]:
            out = handle(input, now_us)
            for effect in out:
                is_about = isinstance(effect, EndLink) or (
                    isinstance(effect, Send) and isinstance(effect.message, ChangeMessage)
                )
                if is_about and self._left and self._random.random() < self._share:
                    self._break(node.id, effect.neighbour, now_us)  # type: ignore[union-attr]
            return out

        node._handle = watched

    def _break(self, one: str, other: str, now_us: int) -> None:
        self._left -= 1
        at_us = now_us + self._random.choice((0, 0, 1_000, 20_000))
        until_us = at_us + self._random.choice(LENGTHS_US)
        victim = self._random.choice(["", one, other])
        if not victim:
            self.world.cut(at_us, one, other)
            self.world.heal(until_us, one, other)
        elif victim in self._mortal:
            self._mortal.discard(victim)
            self.world.crash(at_us, victim)
            self.world.restart(until_us, victim)
        else:
            return
        self.faults.append(f"{victim or (one, other)} from {at_us} to {until_us} us")

    def problems(self) -> list[str]:
        """Violations at the end."""
        self.world.run(END_US)
        there = {*self._names} - {*self.world.departures}
        found = [] if is_tree(list(self.world.links), there) else [f"no tree: {self.world.links}"]
        found += [f"{name} stays" for name in self._leaving_brokers if name in there]
        machines: list[Machine] = [self.world.brokers[name].machine for name in sorted(there)]
        return found + [f"{each.id} waits" for each in machines if not each.strategy.is_ready]


def _run(seeds: range, system: str) -> None:
    broken = 0
    for seed in chosen(seeds):
        network = Absences(seed, system)
        problems = network.problems()
        assert not problems, f"SHOAL_SEEDS={seed}: {network.faults}: {problems}"
        broken += bool(network.faults)
    assert broken


@pytest.mark.parametrize("system", ["tree", "self_organising exchange"])
def test_leaves_beside_absent_brokers_leave_one_tree(system: str) -> None:
    _run(QUICK, system)


@pytest.mark.parametrize("seed", [495, 1207])
def test_regression_seeds_leave_one_tree(seed: int) -> None:
    """A broker without neighbours; a leave that begins again for ever."""
    assert Absences(seed, "self_organising exchange").problems() == []


@pytest.mark.soak
@pytest.mark.parametrize("system", systems())
def test_leaves_beside_absent_brokers_leave_one_tree_in_many_networks(system: str) -> None:
    _run(SOAK, system)
