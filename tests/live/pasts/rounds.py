"""Late subscribers of a network of processes, under kills and moves; and their judge.

The judge is outside: it knows what publishers sent and had acknowledged, and what subscribers got.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.chaos import packets
from tests.chaos.client import Client, Publisher, Subscriber
from tests.chaos.history import Done, Event, GivenUp, Got, Sent, Taken
from tests.chaos.schedule import PublisherPlan, SubscriberPlan
from tests.live.processes import Processes, up

# Retain Handling 1: the past only if the subscription is new.
_ONCE = 0x10
RATE = 40.0
# Until everything has come, once publishers have ended.
REST_S = 90.0


class LateSubscriber(Subscriber):
    """Asks for the past once; `begin_s` is the time it asks for, 0 for the earliest."""

    begin_s = 0.0

    def entered(self, present: bool) -> None:
        if not present:
            self._unreleased.clear()
            self.is_granted = False
        if not self.is_granted:
            at = datetime.fromtimestamp(self.begin_s, UTC).isoformat()
            asked = [("$from", at if self.begin_s else "earliest")]
            asked += [("$where", f"x >= {self.plan.least}")] if self.plan.least else []
            self.write(packets.subscribe(1, "chaos/#", self.plan.qos | _ONCE, asked))


class Round:
    """One network with publishers and late subscribers."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self.processes = processes
        self.random = random = Random(seed)
        self.events: list[Event] = []
        self.brokers: Sequence[str] = [each.name for each in processes.network.brokers]
        self.publishers = [
            Publisher(
                self,
                PublisherPlan(f"p{n}", name, 1 if n == 2 else 2, RATE, 15.0, advertises=n == 2),
                seed,
            )
            for n, name in enumerate(self.brokers)
        ]
        self.lates = [
            LateSubscriber(
                self,
                SubscriberPlan(
                    f"late{n}", random.choice(self.brokers), 2, least=n * 30, roams=True
                ),
                seed,
            )
            for n in range(2)
        ]

    # --- the world of its clients -------------------------------------------------------------

    def now(self) -> float:
        return time.time()

    def record(self, event: Event) -> None:
        self.events.append(event)

    def address(self, broker: str) -> tuple[str, int]:
        host, _, port = self.processes.address(broker).rpartition(":")
        return host, int(port)

    def broker_at(self, address: str) -> str:
        return next(name for name in self.brokers if self.processes.address(name) == address)

    # --- a run --------------------------------------------------------------------------------

    async def run(self) -> None:
        random = self.random
        await self.processes.whole()
        tasks = [asyncio.create_task(each.run()) for each in self.publishers]
        try:
            await asyncio.sleep(2)
            self.lates[0].begin_s = self.now() if random.random() < 0.5 else 0.0
            await self._disturb(random.randint(0, 2), self.publishers)
            await asyncio.sleep(2)
            tasks += [asyncio.create_task(each.run()) for each in self.lates]
            await asyncio.sleep(random.random())
            await self._disturb(random.randint(3, 6), [*self.lates, *self.lates, *self.publishers])
            for publisher in self.publishers:
                publisher.is_finished = True
            await self._rest()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _disturb(self, times: int, movers: Sequence[Client]) -> None:
        """Kill brokers, and have clients go elsewhere."""
        random = self.random
        for _ in range(times):
            if random.random() < 0.4:
                await self.processes.whole()
                await self.processes.kill(random.choice(self.brokers))
            else:
                mover = random.choice(movers)
                mover.go(random.choice(self.brokers), says_so=False)
                if isinstance(mover, LateSubscriber) and random.random() < 0.3:
                    mover.stall(1)
            await asyncio.sleep(random.uniform(0.1, 1.5))

    async def _rest(self) -> None:
        ends_s = self.now() + REST_S
        while self.now() < ends_s:
            await asyncio.sleep(0.5)
            if not any(each.open for each in self.publishers) and not self.missing():
                break
        await asyncio.sleep(1)  # for repetitions that still come

    # --- the judge ----------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """What an acknowledged publication lacks."""
        found = []
        for late in self.lates:
            got = {(each.publisher, each.number) for each in self.got(late)}
            lacking = sorted(self._owed(late) - got)
            if lacking:
                found.append(f"{late.name} lacks {len(lacking)}: {lacking[:5]}")
        return found

    def problems(self) -> list[str]:
        """What is missing, came twice, or out of order."""
        found = self.missing()
        for late in self.lates:
            got = self.got(late)
            qos = {each.name: each.plan.qos for each in self.publishers}
            counts = Counter((each.publisher, each.number) for each in got)
            twice = [each for each, count in counts.items() if count > 1 and qos[each[0]] == 2]
            if twice:
                found.append(f"{late.name} got twice {twice[:5]}")
            # A publisher of QoS 1 that comes back publishes again.
            for publisher in self.publishers:
                numbers = [each.number for each in got if each.publisher == publisher.name]
                if publisher.plan.qos == 2 and numbers != sorted(numbers):
                    found.append(f"{late.name} got {publisher.name} out of order")
        return found

    def got(self, late: LateSubscriber) -> list[Got]:
        return [each for each in self.events if isinstance(each, Got) and each.client == late.name]

    def _owed(self, late: LateSubscriber) -> set[tuple[str, int]]:
        """Publications that were acknowledged, and sent after the begin."""
        done = {
            (each.client, each.number) for each in self.events if isinstance(each, Done | Taken)
        }
        return {
            (each.client, each.number)
            for each in self.events
            if isinstance(each, Sent)
            and each.x >= late.plan.least
            and each.at_s > late.begin_s
            and not each.again
            and (each.client, each.number) in done
        }

    @property
    def counts(self) -> str:
        """What happened, for the reader of a run."""
        sent = sum(isinstance(each, Sent) and not each.again for each in self.events)
        got = sum(isinstance(each, Got) for each in self.events)
        given_up = sum(isinstance(each, GivenUp) for each in self.events)
        return f"{sent} sent, {got} got, {given_up} given up"


def play(seed: int, folder: Path) -> Round:
    """Play a round; AssertionError if the judge finds a problem."""
    with up(folder, "--brokers", "3", "--log") as processes:
        played = Round(processes, seed)
        asyncio.run(played.run())
    problems = played.problems()
    assert all(played.got(late) for late in played.lates), played.counts
    assert not problems, (seed, played.counts, problems)
    return played
