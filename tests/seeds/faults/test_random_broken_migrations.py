"""Publishers that time out and move back, over links that break, every message in the worst order.

As in `test_random_migrations` a seed decides the next message to arrive. Publishers also give up a
target that may be about to answer, links break, brokers restart with empty tables, and publishers
leave. If publishers only time out, nothing may be lost at all. SHOAL_SEEDS="7" replays a seed.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.machine import Broker
from shoal.broker.messages import Subscribe
from shoal.clients.messages import Relocate
from shoal.overlays.publisher_relocation.migration import TIMER
from tests.overlays.publisher_relocation.one_publisher import assert_nothing_is_left
from tests.seeds.chosen import chosen
from tests.seeds.networks.test_random_migrations import RandomMigrations

QUICK = range(30)
SOAK = range(3_000)


class Impatience(RandomMigrations):
    """Publishers that time out at any moment and move back."""

    def _disturb(self) -> None:
        moving = [name for name, row in self.publishers.items() if row.moving]
        if moving and self.random.random() < 0.3:
            self._turn_round(self.random.choice(moving))

    def _carry_something(self) -> bool:
        self._disturb()
        return super()._carry_something()

    def _turn_round(self, client: str) -> None:
        machine = self.publishers[client]
        attempt = machine._attempt
        assert attempt is not None
        self._hand_over(client, machine.woken(attempt.until_us))

    def _settle(self) -> None:
        """Run until nothing happens, even when timers fire."""
        while super()._carry_something() or self._fire() or self._wake():
            pass

    def _fire(self) -> bool:
        due = [each for each in self.stage.timers if each[1][0] == TIMER]
        for broker, key in due:
            self.stage.fire(broker, key)
        return bool(due)

    def _wake(self) -> bool:
        moving = [name for name, row in self.publishers.items() if row.moving]
        for client in moving:
            self._turn_round(client)
        return bool(moving)


class Breakage(Impatience):
    """Links that break and return, brokers that restart, publishers that leave."""

    def __init__(self, seed: int) -> None:
        self.down: list[tuple[str, str]] = []
        self.failing = False  # not during the setup
        super().__init__(seed, churn=True)
        self.failing = True

    def _disturb(self) -> None:
        super()._disturb()
        chance = self.random.random()
        if not self.failing:
            return
        up = [edge for edge in self.stage.edges if edge not in self.down]
        if chance < 0.02 and up:
            self._cut(self.random.choice(up))
        elif chance < 0.04 and self.down:
            self._mend(self.random.choice(self.down))
        elif chance < 0.045:
            self._restart(self.random.choice(list(self.stage.brokers)))
        elif chance < 0.048 and len(self.publishers) > 1:
            self._leave(self.random.choice(list(self.publishers)))

    def _cut(self, edge: tuple[str, str]) -> None:
        """The ends notice one after the other; their messages meanwhile are lost."""
        self.down.append(edge)
        ends = [edge, edge[::-1]]
        self.random.shuffle(ends)
        for way in ends:
            self.stage.links[way].clear()
        for here, there in ends:
            self.stage.handle(here, LinkChanged(there, LinkState.FAILED))
            self.stage.links[edge].clear()
            self.stage.links[edge[::-1]].clear()

    def _mend(self, edge: tuple[str, str]) -> None:
        self.down.remove(edge)
        self.stage.mend_link(*self.random.sample(edge, 2))

    def _restart(self, broker: str) -> None:
        """Restart with empty tables; its clients notice at once."""
        edges = [edge for edge in self.stage.edges if broker in edge and edge not in self.down]
        for edge in edges:
            self._cut(edge)
        self.stage.brokers[broker] = Broker(broker, (), self.stage.factory)
        self.stage.timers = {
            each: at_us for each, at_us in self.stage.timers.items() if each[0] != broker
        }
        self._hear()
        for client in self.publishers:
            self.words.pop((client, broker), None)
            answers = self.answers.pop((broker, client), ())
            if any(isinstance(message, Relocate) for message in answers):
                self.told.discard(client)
        for edge in edges:
            self._mend(edge)
        for interest, home in self.interests:
            if home == broker:
                self.stage.ask(broker, interest.client, Subscribe(interest))
        for client, machine in self.publishers.items():
            self._hand_over(client, machine.reconnected(broker, self.stage.now_us))

    def _leave(self, client: str) -> None:
        self._hand_over(client, self.publishers.pop(client).leave())
        self.advertised.pop(client)
        self.told.discard(client)

    def _settle(self) -> None:
        self.failing = False
        while self.down:
            self._mend(self.down[0])
        super()._settle()

    def _judge_refusals(self) -> list[str]:
        """Messages to a broker that has just lost its state, or a link, may be refused."""
        return []


def _run(network: type[Impatience], seeds: Iterable[int]) -> None:
    for seed in chosen(seeds):
        here = network(seed)
        problems = here.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        assert_nothing_is_left(here.stage)


@pytest.mark.parametrize("network", [Impatience, Breakage])
def test_failing_moves_lose_only_what_faults_excuse(network: type[Impatience]) -> None:
    _run(network, QUICK)


@pytest.mark.soak
@pytest.mark.parametrize("network", [Impatience, Breakage])
def test_many_failing_moves_lose_only_what_faults_excuse(network: type[Impatience]) -> None:
    _run(network, SOAK)
