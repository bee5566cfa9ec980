"""Plays a plan: starts brokers and clients, applies faults, waits for rest, and calls the judge.

The folder of a failed run is kept: `plan.txt`, `violations.txt`, `history.jsonl`, each broker's
log, and the brokers' files.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tests.chaos.client import Client, Publisher, Subscriber
from tests.chaos.history import (
    Calm,
    Event,
    Got,
    Published,
    Sent,
    Silent,
    Taken,
    write_history,
)
from tests.chaos.judge import Violation, judge, missing
from tests.chaos.network import Brokers
from tests.chaos.schedule import Action, Plan

# Processes take a second or two to load their code, longer when all start at once under load.
START_S = 60.0
# Membership of a group takes half a second to reach all brokers, so groups subscribe first.
GROUPS_S = 0.7
# After all brokers run: bounds on the time until all are ready, and until nothing is owed.
READY_S = 40.0
REST_S = 40.0
# Publishers continue for so long after the last fault.
AFTER_S = 1.0
PING_S = 5.0
# Brokers are measured at rest for so long; duplicates arrive within it, too.
MEASURE_S = 2.0
POLL_S = 0.25
HOG = "import sys, time\nend = time.time() + float(sys.argv[1])\nwhile time.time() < end: pass"


class Outcome(msgspec.Struct, frozen=True):
    """The result of a run. `rest_s` is the time from the end of faults to rest."""

    plan: Plan
    violations: list[Violation]
    sent: int
    taken: int
    got: int
    rest_s: float
    folder: Path

    def __str__(self) -> str:
        plan = self.plan
        verdict = f"{len(self.violations)} VIOLATIONS" if self.violations else "good"
        lines = [
            f"{plan.system} seed {plan.seed}: {verdict}; {self.sent} published, {self.taken} "
            f"acknowledged, {self.got} delivered, {len(plan.actions)} actions, at rest after "
            f"{self.rest_s:.1f} s"
        ]
        if self.violations:
            lines += [str(plan), *(f"  {each}" for each in self.violations), f"  {self.folder}"]
        return "\n".join(lines)


class Run:
    """One run in its own folder; the `World` of its clients."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.history: list[Event] = []
        self._zero_s = time.monotonic()
        self._processes = Brokers(plan, folder, self.record, self.now)
        self.publishers = [Publisher(self, each, plan.seed) for each in plan.publishers]
        self.subscribers = [Subscriber(self, each, plan.seed) for each in plan.subscribers]
        self._clients: dict[str, Client] = {
            each.name: each for each in (*self.publishers, *self.subscribers)
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._hogs: list[subprocess.Popen[bytes]] = []
        self._rest_s = 0.0

    # --- the interface of clients -------------------------------------------------------------

    @property
    def brokers(self) -> Sequence[str]:
        return self._processes.staying

    def now(self) -> float:
        return time.monotonic() - self._zero_s

    def record(self, event: Event) -> None:
        self.history.append(event)

    def address(self, broker: str) -> tuple[str, int]:
        return self._processes.address(broker)

    def broker_at(self, address: str) -> str:
        return self._processes.broker_at(address)

    # --- one run ------------------------------------------------------------------------------

    async def play(self) -> Outcome:
        """Start, apply the faults, wait for rest, and judge."""
        try:
            if await self._begins():
                for action in self.plan.actions:
                    await asyncio.sleep(action.at_s - self.now())
                    self._do(action)
                await asyncio.sleep(self.plan.seconds - self.now())
                await self._rest()
            for task in self._tasks:
                task.cancel()
            await self._processes.close()
        finally:
            for task in self._tasks:
                task.cancel()
            for hog in self._hogs:
                hog.kill()
                hog.wait()
            self._processes.kill_all()
        return self._outcome()

    async def _begins(self) -> bool:
        """Wait until all clients are connected and subscribed; time 0 is then."""
        try:
            async with asyncio.timeout(START_S):
                await self._processes.lay_cables()
                for broker in self.brokers:
                    await self._processes.start(broker)
                await _until(lambda: not self._processes.unready)
                self._tasks += [asyncio.create_task(each.run()) for each in self.subscribers]
                await _until(lambda: all(each.is_granted for each in self.subscribers))
        except TimeoutError:
            for broker in self._processes.unready or self.brokers:
                self.record(Silent(at_s=self.now(), client="anybody", broker=broker))
            return False
        await asyncio.sleep(GROUPS_S)
        late_s = self.now()
        self._zero_s += late_s
        self.history = [
            msgspec.structs.replace(event, at_s=event.at_s - late_s) for event in self.history
        ]
        self._tasks += [asyncio.create_task(each.run()) for each in self.publishers]
        return True

    def _do(self, action: Action) -> None:
        whom = action.whom
        if whom.startswith("@"):
            client = self._clients[whom[1:]]
            whom = client.at or client.broker
        match action.kind:
            case "kill":
                self._processes.end(whom)
                self._later(action.value, whom)
            case "end":
                self._processes.end(whom)
            case "stop":
                self._processes.end(whom, signal.SIGTERM)
            case "start":
                self._later(0.0, whom)
            case "join":
                self._tasks.append(asyncio.create_task(self._processes.join(whom, action.where)))
            case "order leave":
                self._tasks.append(asyncio.create_task(self._processes.leave(whom)))
            case "pause":
                self._processes.pause(whom)
            case "resume":
                self._processes.resume(whom)
            case "slow disk":
                self._processes.set_disk(whom, action.value)
            case "full disk":
                self._processes.set_disk(whom, is_full=True)
            case "good disk":
                self._processes.set_disk(whom)
            case "cut" | "hang" | "slow cable" | "mend":
                self._processes.spoil_cable(action.kind, whom, action.where, action.value)
            case "clock":
                self._processes.set_clock(whom, action.value)
            case "hog":
                command = (sys.executable, "-c", HOG, str(action.value))
                self._hogs.append(subprocess.Popen(command))
            case "move" | "jump":
                self._clients[whom].go(action.where, says_so=action.kind == "move")
            case "vanish":
                self._clients[whom].vanish(action.where)
            case "look in":
                self._clients[whom].look_in(action.where, action.value)
            case "leave":
                self._clients[whom].leave(action.value)
            case "stall":
                self._clients[whom].stall(action.value)
            case kind:
                raise ValueError(f"nobody knows how to {kind}")

    def _later(self, wait_s: float, broker: str) -> None:
        async def start() -> None:
            await asyncio.sleep(wait_s)
            await self._processes.start(broker)

        self._tasks.append(asyncio.create_task(start()))

    async def _rest(self) -> None:
        """End all faults and wait for rest, with a bound; the judge reports the rest."""
        for hog in self._hogs:
            hog.kill()
        await self._processes.heal()
        self.record(Calm(at_s=self.now()))
        calm_s = self.now()
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                while self._processes.unready or not await self._processes.are_ready():
                    await asyncio.sleep(POLL_S)
        for broker in self._processes.unready:
            words = await self._processes.describe(broker)
            self.record(Silent(at_s=self.now(), client=words, broker=broker))
        await asyncio.sleep(AFTER_S)
        for publisher in self.publishers:
            publisher.is_finished = True
        self.record(Published(at_s=self.now()))
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_S):
                while not self._is_at_rest:
                    await asyncio.sleep(POLL_S)
        self._rest_s = self.now() - calm_s
        await asyncio.gather(*(each.ping(PING_S) for each in self._clients.values()))
        await self._processes.measure(MEASURE_S)

    @property
    def _is_at_rest(self) -> bool:
        return (
            all(each.is_in for each in self._clients.values())
            and not any(each.open for each in self.publishers)
            and not missing(self.plan, self.history)
        )

    def _outcome(self) -> Outcome:
        violations = judge(self.plan, self.history)
        if violations:
            write_history(self.folder / "history.jsonl", self.history)
            _write(self.folder / "plan.txt", [self.plan])
            _write(self.folder / "violations.txt", violations)
        else:
            shutil.rmtree(self.folder)
        return Outcome(
            plan=self.plan,
            violations=violations,
            sent=sum(isinstance(event, Sent) and not event.again for event in self.history),
            taken=_count(self.history, Taken),
            got=_count(self.history, Got),
            rest_s=self._rest_s,
            folder=self.folder,
        )


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def _count(history: Iterable[Event], kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in history)


def _write(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
