"""The decider of an exchange returns after the other brokers have changed links.

They took the exchange for aborted. Whatever they have exchanged since, and whatever the clocks say,
the links end as one tree that all know.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from shoal.broker.effects import TimerFired
from shoal.overlays.tree.oracle import check_tables, expected_tables
from tests.examples import at_length, one_in
from tests.forced_exchanges import BEGIN
from tests.overlays.self_organising.link_reconfiguration.test_link_reconfiguration import Cycle
from tests.seeds.faults.random_exchanges import is_tree
from tests.seeds.networks.random_network import SECOND_US

# No message is faster.
STEP_US = 100

# Exchanges by the others meanwhile: a cycle, by the numbers of its brokers, and the link to remove.
Other = tuple[tuple[int, ...], int]


def others(links: int) -> Iterator[tuple[Other, ...]]:
    """None; each exchange of brokers that are linked without the first one; and one more."""
    yield ()
    for first in range(1, links - 1):
        for last in range(first + 2, links + 1):
            cycle = tuple(range(first, last + 1))
            for remove in range(len(cycle) - 1):
                one = cycle, remove
                yield (one,)
                yield one, ((*cycle[remove::-1], *cycle[:remove:-1]), len(cycle) - 2)


CASES = [
    (links, remove, meanwhile)
    for links in (2, 3, 4)
    for remove in range(links)
    for meanwhile in others(links)
]
AHEAD_S = pytest.mark.parametrize(
    "ahead_s",
    [pytest.param(0, marks=pytest.mark.soak), 20],
    ids=["equal clocks", "its clock is ahead"],
)


class LateDecision:
    """An exchange whose commit reaches only some of the cycle's brokers for a while."""

    def __init__(self, links: int, remove: int, ahead_s: int, seed: int = 1) -> None:
        self.network = Cycle(links, seed, clocks_us={"B0": ahead_s * SECOND_US})
        self.world = self.network.world
        self.cycle = self.network.cycle
        self.remove = remove
        self._cuts: list[tuple[str, str]] = []

    @property
    def knowing(self) -> list[str]:
        verdicts = {
            name: self.network.strategy(name).overlay.memory.decisions for name in self.cycle
        }
        return [name for name, known in verdicts.items() if any(each.is_done for each in known)]

    def decide(self, count: int = 1) -> int:
        """Run until so many brokers know the decision; return the time."""
        now_us = self.world.queue.now_us
        self.network.exchange(self.remove, until_us=now_us)
        while len(self.knowing) < count:
            now_us += STEP_US
            self.world.run(until_us=now_us)
        return now_us

    def exchange(self, count: int) -> int:
        """The same, with these brokers cut off from the others."""
        now_us = self.decide(count)
        knowing = self.knowing
        for ends in pairwise((*self.cycle, self.cycle[0])):
            if len({*ends} & {*knowing}) == 1:
                self._cuts.append(ends)
                self.world.cut(now_us, *ends)
        return now_us

    def change(self, meanwhile: tuple[Other, ...]) -> None:
        """From 15 s on the others exchange links."""
        for number, (cycle, goes) in enumerate(meanwhile, start=3):
            names = [f"B{each}" for each in cycle]
            at_us, key = 5 * number * SECOND_US, (BEGIN, str(goes), *names)
            self.world.queue.push(at_us, self.world.brokers[names[-1]].bring, TimerFired(key))
            self.world.run(until_us=at_us + 4 * SECOND_US)

    def meet(self) -> None:
        """At 30 s all are connected again; then judge."""
        for ends in self._cuts:
            self.world.heal(30 * SECOND_US, *ends)
        self.world.run(until_us=60 * SECOND_US)
        network, links = self.network, self.world.links
        assert is_tree([*self.world.brokers], links), links
        expected = expected_tables(links, network.advertised, network.interests)
        tables = {name: network.strategy(name).tables for name in self.world.brokers}
        assert not check_tables(expected, tables)


@pytest.mark.parametrize(("links", "remove", "meanwhile"), one_in(4, CASES))
@AHEAD_S
def test_a_returning_decider_leaves_one_tree(
    links: int, remove: int, meanwhile: tuple[Other, ...], ahead_s: int
) -> None:
    news = LateDecision(links, remove, ahead_s)
    news.world.crash(news.exchange(1), "B0")
    news.world.run(until_us=14 * SECOND_US)
    # A broker that sees the old link end needs no message.
    assert not remove or news.knowing == ["B0"]
    news.change(meanwhile)
    news.world.restart(30 * SECOND_US, "B0")
    news.meet()


# How many know it by then, each in turn; all of them in the soak.
KNOWN = [(*case, 1 + number % 3) for number, case in enumerate(CASES)]
ALL_KNOWN = [
    (*case, 1 + (number + more) % 3) for number, case in enumerate(CASES) for more in (1, 2)
]


@pytest.mark.parametrize(
    ("links", "remove", "meanwhile", "count"), [*one_in(4, KNOWN), *at_length(ALL_KNOWN)]
)
@AHEAD_S
def test_cut_off_participants_with_the_decision_leave_one_tree(
    links: int, remove: int, meanwhile: tuple[Other, ...], count: int, ahead_s: int
) -> None:
    news = LateDecision(links, remove, ahead_s)
    news.exchange(count)
    news.change(meanwhile)
    news.meet()


@pytest.mark.parametrize(
    ("links", "remove", "seed"),
    [(6, 1, 2), (6, 2, 2), (6, 3, 2), (5, 3, 4), (5, 4, 4), (6, 3, 5)],
)
def test_a_subscription_over_the_new_link_does_not_hide_its_clients_own(
    links: int, remove: int, seed: int
) -> None:
    """The new link brought a subscription that had been sent over the old one, back to its client's
    broker.

    It depends on the delays of messages, so on the seed.
    """
    news = LateDecision(links, remove, 0, seed)
    at_us = news.decide()
    news.world.crash(at_us, "B0")
    news.world.run(until_us=at_us + 12 * SECOND_US)
    news.world.restart(at_us + 13 * SECOND_US, "B0")
    news.meet()
