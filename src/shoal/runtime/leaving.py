"""How a live broker leaves its network for good, with nothing lost that was acknowledged.

| stage | until |
| --- | --- |
| clients | all are sent elsewhere |
| sessions | other brokers have those that clients did not take along |
| overlay | the others know that it is gone; the machine has left, however its system does that |
| links | all have ended that the machine has not ended itself |

Then its process ends.  A broker that is killed meanwhile starts again as one that never began to
leave, and may be asked again.

A leave is refused while a neighbour is not connected, unless the operator says that it is dead
(`without`).  The operator takes a leave back at any time before the machine has left; a leave that
makes no progress for `STALL_S` is taken back by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from shoal.broker.effects import Leave, Stay
from shoal.broker.messages import Goodbye
from shoal.model import BrokerId
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.moving import Servers
from shoal.runtime.doors.mqtt_door import MqttDoor
from shoal.runtime.forgetting import Forgetting
from shoal.runtime.links.couriers import Couriers
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.node import Node

POLL_S = 0.05
# Clients that are sent away before others have their turn: some 10 ms.
SENT_AT_ONCE = 300
# Asked in vain, the machine is asked again: what keeps it may pass.
ASK_AGAIN_S = 2.0
# How long it is waited for what was retained meanwhile, before clients are let in again.
RETAINED_S = 5.0
# How long an obstacle may last that the system sees, until the leave is refused.
OBSTACLE_S = 5.0
# Without progress for so long a leave is taken back.
STALL_S = 600.0

# What an operator can do where a stage lasts.
_NEXT = {
    "clients": "wait: clients are sent away some at a time",
    "sessions": "wait, start a broker that takes clients, or take the leave back (--abort)",
    "overlay": "wait, or take the leave back (--abort)",
    "links": "wait: it has left, and cannot stay any more",
}

_log = logging.getLogger(__name__)


class Leaving:
    """The leaves of one broker; `left` is told when it has left.

    `servers` are where clients that follow can be sent; `never` says why no broker ever leaves;
    `let_in` takes clients in again, OSError where it cannot.
    """

    def __init__(
        self,
        node: Node,
        door: MqttDoor,
        links: PeerLinks,
        couriers: Couriers,
        directory: Directory,
        forgetting: Forgetting,
        servers: Servers,
        left: Callable[[], None],
        never: str = "",
        let_in: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.stage = ""
        # What became of the last leave, if it was taken back.
        self.outcome = ""
        # Why the machine cannot leave yet, as it says.
        self._problem = ""
        self._node = node
        self._door = door
        self._links = links
        self._couriers = couriers
        self._directory = directory
        self._forgetting = forgetting
        self._servers = servers
        self._left = left
        self._never = never
        self._let_in = let_in
        self._answer: asyncio.Future[str] | None = None
        self._has_left = False
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
        # What there was when something was seen to change last, and when that was.
        self._progress: tuple[object, ...] = ()
        self._progress_s = self._stage_s = 0.0
        self._without: set[BrokerId] = set()
        # Why no broker can join over this one while it stays.
        self._refused = ""
        node.asides.at_leave = self._answered

    # --- orders -------------------------------------------------------------------------------

    async def begin(self, without: Collection[BrokerId] = ()) -> str:
        """Leave, and treat these neighbours as dead; why not, if that cannot be.

        Of a leave that is under way, only treat these as dead.
        """
        if self._has_left:
            return ""  # its process is about to end
        # A broker that has just started may not know yet who could take its place.
        with suppress(TimeoutError):
            async with asyncio.timeout(OBSTACLE_S):
                while self._task is None and self._obstacles(without) == [self._obstacle]:
                    await asyncio.sleep(POLL_S)
        problems = self._obstacles(without) if self._task is None else self._alive(without)
        if problems:
            return "; ".join(problems)
        for each in without:
            if problem := await self._forgetting.forget(each):
                return problem
        self._without |= {*without}
        if self._task is None:  # another order may have begun the leave meanwhile
            self.outcome, self._has_left = "", False
            self._refused = self._links.no_joiners
            self._links.no_joiners = f"{self._node.id} leaves its network"
            self._task = asyncio.create_task(self._leave())
            self._watch()
        return ""

    def resume(self) -> None:
        """The broker was killed as its neighbours took its place: it goes on to leave."""
        self._links.no_joiners = f"{self._node.id} leaves its network"
        self._task = asyncio.create_task(self._leave())
        self._watch()

    async def abort(self, why: str = "by an operator") -> str:
        """Take the leave back; why that cannot be."""
        if self._task is None:
            return "it does not leave"
        has_told = self.stage in ("overlay", "links", "left")
        problem = await self._ask_to_stay() if has_told else ""
        if problem or self._has_left:
            return f"it is too late: {problem or 'it has left, and its last links end'}"
        await self.stop()
        if self._door.clients.federation is not None:
            self._door.clients.federation.evacuating.end()
        if has_told:
            self._couriers.stay()
            self._links.tell([self._directory.stay(self._node.clock.now_us())])
            self._door.come_back()
            with suppress(TimeoutError):
                await asyncio.wait_for(_until(lambda: self._door.is_told), RETAINED_S)
        self._links.no_joiners = self._refused
        self._go_to("")
        self.outcome = f"taken back {why}"
        self._node.schedule_flush()
        try:
            if self._let_in is not None:
                await self._let_in()
        except OSError as error:
            return f"it stays, but takes no clients: {error}"
        return ""

    async def plan(self, without: Collection[BrokerId] = ()) -> dict[str, Any]:
        """What a leave would do now, and what refuses it; nothing changes by asking."""
        clients = self._door.clients
        connected = follow = 0
        for number, client_id in enumerate(clients.sessions.client_ids(), 1):
            if not number % SENT_AT_ONCE:
                await asyncio.sleep(0)
            connection = clients.connection(client_id)
            if connection is not None:
                connected += 1
                follow += connection.terms is not None and connection.terms.follows
        away = set(self._links.away)
        return {
            "problems": self._obstacles(without),
            "clients": connected,
            "follow": follow,
            "sessions": len(clients.sessions),
            "takers": self.takers(),
            "neighbours": [
                {
                    "broker": row["neighbour"],
                    "connected": row["neighbour"] not in away,
                    "dead": row["neighbour"] in without,
                    "waiting_bytes": max(row["spooled_bytes"], row["buffered_bytes"]),
                }
                for row in self._links.status()
            ],
            "successor": self._node.machine.successor or "",
            "stage": self.stage,
        }

    def _obstacles(self, without: Collection[BrokerId]) -> list[str]:
        """Why it cannot leave now."""
        if self._never:
            return [self._never]
        if not self._links.neighbours:
            return ["it has no links, and is all there is of its network"]
        found = self._alive(without)
        if away := [each for each in self._links.away if each not in without]:
            names = ", ".join(away)
            verb = "is" if len(away) == 1 else "are"
            found.append(f"{names} {verb} not connected. Wait, or say {_without(away)}")
        if not self.takers() and len(self._door.clients.sessions):
            found.append("no other broker is known that takes clients")
        return [*found, self._obstacle] if self._obstacle else found

    @property
    def _obstacle(self) -> str:
        """What the machine's system has against it."""
        return self._node.machine.obstacle

    def _alive(self, without: Collection[BrokerId]) -> list[str]:
        """Why these cannot be treated as dead."""
        neighbours, away = self._links.neighbours, self._links.away
        strangers = [each for each in without if each not in neighbours]
        alive = [each for each in without if each in neighbours and each not in away]
        return [
            *(f"{each} is no neighbour of it" for each in strangers),
            *(f"{each} is connected, and not dead" for each in alive),
        ]

    # --- what it says about itself ------------------------------------------------------------

    @property
    def problem(self) -> str:
        """What it waits for, if that is known."""
        if self.stage == "sessions":
            count = len(self._door.clients.sessions)
            where = "" if self.takers() else ": no other broker takes clients"
            return f"{count:,} sessions are still here{where}"
        if self.stage not in ("overlay", "links"):
            return ""
        away = self._links.away
        if away:
            return f"no link to {', '.join(away)}, which may come back"
        return self._problem or self._obstacle

    @property
    def next_step(self) -> str:
        """What an operator can do about that."""
        away = self._links.away if self.stage in ("overlay", "links") else ()
        if away:
            return f"start {', '.join(away)}, or say {_without(away)}"
        return _NEXT.get(self.stage, "")

    def status(self) -> dict[str, Any]:
        """What `shoal status` shows of it."""
        now_s = asyncio.get_running_loop().time()
        return {
            "stage": self.stage,
            "problem": self.problem,
            "since_s": round(now_s - self._stage_s, 3) if self.stage else 0.0,
            "next": self.next_step,
            "without": sorted(self._without) if self.stage else [],
            "outcome": self.outcome,
        }

    # --- steps --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Go no further."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    def _watch(self) -> None:
        """Take the leave back if it makes no progress."""
        loop = asyncio.get_running_loop()
        sessions, links = len(self._door.clients.sessions), tuple(self._links.neighbours)
        progress = (self.stage, sessions, links)
        if progress != self._progress:
            self._progress, self._progress_s = progress, loop.time()
        if loop.time() - self._progress_s > STALL_S and not self._has_left:
            self._progress_s = loop.time()
            problem = self.problem
            extra = {"stage": self.stage, "problem": problem}
            _log.error("the leave makes no progress, and is taken back", extra=extra)
            words = f"after {STALL_S:g} s without progress" + (f": {problem}" if problem else "")
            self._taking_back = asyncio.create_task(self.abort(words))
        self._watching = loop.call_later(min(1.0, STALL_S), self._watch)

    async def _ask_to_stay(self) -> str:
        """Have the machine take the leave back; why it cannot."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def answered(problem: str) -> None:
            if not answer.done():
                answer.set_result(problem)

        self._node.order(Stay(), answered)
        return await answer

    async def _leave(self) -> None:
        self._go_to("clients")
        await self._send_away(self.takers())
        self._go_to("sessions")
        if self._door.clients.federation is not None:
            now_us = self._node.clock.now_us()
            self._door.clients.federation.evacuating.begin(self.takers, now_us)
            self._door.carry_out(self._door.clients.take_effects())
            self._node.schedule_flush()
        await _until(lambda: not len(self._door.clients.sessions))
        self._go_to("overlay")
        self._couriers.leave()
        if self._door.clients.door is not None:
            self._node.request(self._door.clients.door.client, Goodbye())
        # While there are links to say it over: the machine ends them.
        self._links.tell([self._directory.leave(self._node.clock.now_us())])
        self._node.schedule_flush()
        while True:
            self._answer = asyncio.get_running_loop().create_future()
            self._node.bring(Leave())
            self._problem = await self._answer
            if not self._problem:
                break
            _log.warning("it cannot leave yet", extra={"problem": self._problem})
            await asyncio.sleep(ASK_AGAIN_S)
        self._go_to("links")
        await self._end_links()
        self._node.flush()
        self._go_to("left")
        self._left()

    async def _end_links(self) -> None:
        """Those that there are, and those that come meanwhile."""
        ended = set[BrokerId]()
        while neighbours := {*self._links.neighbours}:
            for each in sorted(neighbours - ended):
                self._links.end(each)
            ended = neighbours
            self._node.schedule_flush()
            await asyncio.sleep(POLL_S)

    async def _send_away(self, takers: Sequence[BrokerId]) -> None:
        """Take nobody in any more, and send every client elsewhere, some at a time."""
        door, now_us, reason = self._door, self._node.clock.now_us(), "the broker leaves"
        door.stop_listening()
        for number, client_id in enumerate(door.clients.sessions.client_ids(), 1):
            if not number % SENT_AT_ONCE:
                door.carry_out(door.clients.take_effects())
                self._node.schedule_flush()
                await asyncio.sleep(0)
                now_us = self._node.clock.now_us()
            connection = door.clients.connection(client_id)
            if connection is None:
                continue
            kind = connection.credentials.listener
            near = [self._servers.get(name, {}) for name in takers]
            servers = [listeners[kind] for listeners in near if kind in listeners]
            server = servers[number % len(servers)] if servers else None
            if server is not None and connection.terms is not None and connection.terms.follows:
                door.carry_out(connection.redirect(server, now_us, reason))
            else:
                connection.disconnect(ReasonCode.SERVER_MOVED, reason, now_us, server)
        for stranger in door.connections:
            stranger.disconnect(ReasonCode.SERVER_MOVED, reason, now_us)
        door.carry_out(door.clients.take_effects())
        self._node.schedule_flush()

    def _go_to(self, stage: str) -> None:
        self.stage, self._problem = stage, ""
        self._stage_s = asyncio.get_running_loop().time()
        _log.info("leaving", extra={"stage": stage or "taken back"})

    def _answered(self, problem: str) -> None:
        """What the machine says."""
        self._has_left = not problem
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(problem)

    def takers(self) -> list[BrokerId]:
        """Brokers that take clients, neighbours first."""
        near = self._links.neighbours
        places = self._directory.places
        others = [where for where in places if where.doors and where.name != self._node.id]
        return [each.name for each in sorted(others, key=lambda each: each.name not in near)]


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(POLL_S)


def _without(away: Collection[BrokerId]) -> str:
    """The options by which a broker leaves without these.

    >>> _without(["B3", "B7"])
    '--without B3 --without B7'
    """
    return " ".join(f"--without {each}" for each in away)
