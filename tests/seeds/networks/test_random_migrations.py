"""Many publishers move at once over one tree, every message in the worst order.

Links have no speed: a seed decides the next message to arrive, publishers' messages included. So a
marker may come long after its update, and a publication after everything else of its migration.
SHOAL_SEEDS="7" replays a seed.
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random

import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import Advertise, Message, Publish, Subscribe, Unadvertise
from shoal.clients.messages import Relocate
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker
from shoal.matching import matches
from shoal.model import Advertisement, BrokerId, Publication, Subscription
from tests.broker.transcript import Stage, advertisement, publication, subscription
from tests.overlays.publisher_relocation.one_publisher import assert_nothing_is_left, send_away
from tests.overlays.publisher_relocation.test_migration import in_the_papers_order, without_marker
from tests.seeds.chosen import chosen
from tests.seeds.networks.trees import path
from tests.systems import calm, covering

QUICK = range(60)
STEPS = 250


class RandomMigrations:
    """One seed's network, publishers and subscribers; `run` gives the violations.

    With `churn` publishers also change their advertisements. Subscriptions take a while to follow,
    so deliveries may be missed, and only the rest is judged.
    """

    def __init__(self, seed: int, *, churn: bool = False) -> None:
        self.churn = churn
        self.random = random = Random(f"migrations/{seed}")
        names = [f"B{number}" for number in range(random.randint(2, 7))]
        edges = [(names[random.randrange(n)], names[n]) for n in range(1, len(names))]
        parameters = covering("grape", calm("grape")) if seed % 2 else calm("grape")
        self.stage = Stage(edges, "grape", parameters)
        self.paths = {
            (source, target): path(edges, source, target) for source in names for target in names
        }
        self.publishers: dict[str, Publisher] = {}
        self.advertised: dict[str, list[Advertisement]] = {}
        # Each publisher's messages to each broker, and each broker's to it.
        self.words: dict[tuple[str, BrokerId], deque[Message]] = {}
        self.answers: dict[tuple[BrokerId, str], deque[Message]] = {}
        self.heard = 0
        self.told: set[str] = set()
        self.interests: list[tuple[Subscription, BrokerId]] = []
        self.published: list[Publication] = []
        for number in range(random.randint(1, 4)):
            self._add_publisher(f"P{number}", random.choice(names))
        for number in range(random.randint(1, 6)):
            self._add_subscriber(f"C{number}", random.choice(names))
        self._settle()

    def _add_publisher(self, client: str, broker: BrokerId) -> None:
        self.publishers[client] = Publisher(client, broker)
        texts = self.random.sample(["x < 6", "x > 3", "x = 5 OR x = 9", "x >= 0"], 2)
        rows = [advertisement(f"{client}.{n}", text, client) for n, text in enumerate(texts)]
        self.advertised[client] = rows
        for row in rows:
            self._say(client, Advertise(row))

    def _add_subscriber(self, client: str, broker: BrokerId) -> None:
        low = self.random.randrange(8)
        text = self.random.choice([f"x > {low}", f"x = {low}", f"x BETWEEN {low} AND {low + 2}"])
        interest = subscription(f"{client}.s", text, client)
        self.interests.append((interest, broker))
        self.stage.ask(broker, client, Subscribe(interest))

    # --- possible steps -------------------------------------------------------------------------

    def run(self) -> list[str]:
        for step in range(STEPS):
            client = self.random.choice(list(self.publishers))
            chance = self.random.random()
            if chance < 0.15:
                self._publish(client, step)
            elif chance < 0.20:
                self._relocate(client)
            elif chance < 0.24 and self.churn:
                self._change_mind(client, step)
            elif chance < 0.21 and len(self.advertised[client]) > 1:
                self._say(client, Unadvertise(self.advertised[client].pop().id))
            else:
                self._carry_something()
        self._settle()
        return self._judge()

    def _publish(self, client: str, sequence: int) -> None:
        row = publication(sequence, client, x=self.random.randrange(10))
        if any(matches(promise.filter, row.attributes) for promise in self.advertised[client]):
            self.published.append(row)
            self._say(client, Publish((row,)))

    def _change_mind(self, client: str, step: int) -> None:
        """Withdraw an advertisement, replace it under the same name, or make a new one."""
        rows = self.advertised[client]
        chance = self.random.random()
        if rows and chance < 0.5:
            self._say(client, Unadvertise(rows.pop().id))
            return
        name = rows.pop().id if rows and chance < 0.75 else f"{client}.new{step}"
        rows.append(advertisement(name, f"x < {self.random.randrange(1, 12)}", client))
        self._say(client, Advertise(rows[-1]))

    def _relocate(self, client: str) -> None:
        """Move a publisher, as its broker would after GRAPE's decision."""
        machine = self.publishers[client]
        if machine.moving or client in self.told:
            return
        targets = [way for way in self.paths if way[0] == machine.broker != way[1]]
        self.told.add(client)
        send_away(self.stage, client, self.paths[self.random.choice(targets)])

    def _say(self, client: str, request: Message) -> None:
        self._hand_over(client, self.publishers[client].request(request, self.stage.now_us))

    def _hand_over(self, client: str, effects: list[PublisherEffect]) -> None:
        for effect in effects:
            if isinstance(effect, ToBroker):
                self.words.setdefault((client, effect.broker), deque()).append(effect.request)

    def _carry_something(self) -> bool:
        stage = self.stage
        self._hear()
        channels = [
            *((stage.links, way) for way, queue in stage.links.items() if queue),
            *((self.words, way) for way, queue in self.words.items() if queue),
            *((self.answers, way) for way, queue in self.answers.items() if queue),
        ]
        if not channels:
            return False
        kind, way = self.random.choice(channels)
        if kind is stage.links:
            stage.carry(*way)
        elif kind is self.words:
            stage.handle(way[1], Requested(way[0], self.words[way].popleft()))
        else:
            broker, client = way
            message = self.answers[way].popleft()
            if client not in self.publishers:
                return True  # it has left
            if isinstance(message, Relocate):
                self.told.discard(client)
            effects = self.publishers[client].notified(broker, message, stage.now_us)
            self._hand_over(client, effects)
        return True

    def _hear(self) -> None:
        for broker, client, message in self.stage.notified[self.heard :]:
            self.answers.setdefault((broker, client), deque()).append(message)
        self.heard = len(self.stage.notified)

    def _settle(self) -> None:
        while self._carry_something():
            pass

    # --- judging ------------------------------------------------------------------------------

    def _judge_refusals(self) -> list[str]:
        return [f"refused: {reason}" for reason in self.stage.refusals()]

    def _judge(self) -> list[str]:
        stage = self.stage
        problems = self._judge_refusals()
        homes = [
            (row, self.publishers[client].broker)
            for client, rows in self.advertised.items()
            for row in rows
        ]
        problems += stage.problems(homes, self.interests)
        got = Counter(
            (effect.routed.publication.key, name)
            for _, effect in stage.deliveries
            for name in effect.subscriptions
        )
        want = Counter(
            (row.key, interest.id)
            for row in self.published
            for interest, _ in self.interests
            if matches(interest.filter, row.attributes)
        )
        if not self.churn:
            problems += [f"lost: {key}" for key in want - got]
        problems += [f"too many: {key}" for key in got - want]
        newest: dict[tuple[str, str], int] = {}
        for _, effect in stage.deliveries:
            publisher, sequence = effect.routed.publication.key
            if newest.get((effect.client, publisher), -1) > sequence:
                problems.append(f"out of order: {publisher}/{sequence} to {effect.client}")
            newest[effect.client, publisher] = sequence
        problems += [
            f"{name} is still moving" for name, row in self.publishers.items() if row.moving
        ]
        return problems


def test_publishers_that_move_at_once_lose_nothing() -> None:
    for seed in chosen(QUICK):
        network = RandomMigrations(seed)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        assert_nothing_is_left(network.stage)


def test_publishers_that_change_advertisements_on_the_way_leave_no_rows() -> None:
    for seed in chosen(QUICK):
        network = RandomMigrations(seed, churn=True)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        assert_nothing_is_left(network.stage)


@pytest.mark.parametrize("mutate", [without_marker, in_the_papers_order])
def test_the_judges_notice_a_broken_migration(mutate, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    problems = [problem for seed in range(20) for problem in RandomMigrations(seed).run()]
    assert any(problem.startswith("lost") for problem in problems)
