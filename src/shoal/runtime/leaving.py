"""A live broker's leave for good, without loss of acknowledged publications.

| stage | until |
| --- | --- |
| clients | all are redirected to other brokers |
| sessions | other brokers have the sessions that clients did not take along |
| overlay | the other brokers know of the leave; the machine has left by its system's protocol |
| links | all links that the machine has not ended itself have ended |

Then its process ends. A broker that is killed meanwhile restarts as if it had not begun to leave,
and an operator may order the leave again.

A leave is refused while a neighbour is disconnected, unless the operator declares it dead
(`without`). The operator can cancel a leave until the machine has left; a leave without progress
for `STALL_S` is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from shoal.broker.effects import Leave, LeaveRefused, Stay
from shoal.broker.messages import Goodbye
from shoal.model import BrokerId
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.moving import Servers
from shoal.mqtt.sessions.sessions import Sessions
from shoal.runtime.forgetting import Forgetting
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.forwarding_channels import ForwardingChannels
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.node import Node

POLL_S = 0.05
# Clients that are sent away before others have their turn: some 10 ms.
SENT_AT_ONCE = 300
# Interval of retries of a refused leave: the obstacle may pass.
ASK_AGAIN_S = 2.0
# Time to wait for retained messages after a cancelled leave, before clients are admitted again.
RETAINED_S = 5.0
# An obstacle of the system may last this long before the leave is refused.
OBSTACLE_S = 5.0
# Without progress for so long a leave is taken back.
STALL_S = 600.0

# Advice for an operator when a stage lasts.
_NEXT = {
    "clients": "wait: clients are sent away some at a time",
    "sessions": "wait, start a broker that takes clients, delete the sessions "
    "(shoal sessions delete), or take the leave back (--abort)",
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
        front_end: MqttFrontEnd,
        links: PeerLinks,
        forwarding_channels: ForwardingChannels,
        directory: Directory,
        forgetting: Forgetting,
        servers: Servers,
        left: Callable[[], None],
        never: str = "",
        let_in: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.stage = ""
        # outcome of the last leave, if it was cancelled
        self.outcome = ""
        # the machine's reason why it cannot leave yet
        self._problem = ""
        self._node = node
        self._front_end = front_end
        self._links = links
        self._forwarding_channels = forwarding_channels
        self._directory = directory
        self._forgetting = forgetting
        self._servers = servers
        self._left = left
        self._never = never
        self._let_in = let_in
        # Queries of Spark whose rows wait here, in a batch that is being committed.
        self.commits: Callable[[], Sequence[str]] = tuple
        self._answer: asyncio.Future[str] | None = None
        self._has_left = False
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
        # the state at the last observed progress, and its time
        self._progress: tuple[object, ...] = ()
        self._progress_s = self._stage_s = 0.0
        self._without: set[BrokerId] = set()
        node.asides.at_leave = self._answered

    # --- orders -------------------------------------------------------------------------------

    async def begin(self, without: Collection[BrokerId] = ()) -> str:
        """Leave, and treat these neighbours as dead; return the reasons to refuse.

        Of a leave that is under way, only treat these as dead.
        """
        if self._has_left:
            return ""  # its process is about to end
        # A broker that has just started may not know yet which broker could succeed it.
        with suppress(TimeoutError):
            async with asyncio.timeout(OBSTACLE_S):
                while self._task is None and self._obstacles(without) == [self._obstacle]:
                    await asyncio.sleep(POLL_S)
        problems = self._obstacles(without) if self._task is None else self._why_not_dead(without)
        if problems:
            return "; ".join(problems)
        for each in without:
            if problem := await self._forgetting.forget(each):
                return problem
        self._without |= {*without}
        if self._task is None:  # another order may have begun the leave meanwhile
            self.outcome, self._has_left = "", False
            self._links.no_joiners["leave"] = f"{self._node.id} leaves its network"
            self._task = asyncio.create_task(self._leave())
            self._watch()
        return ""

    def follow(self, leaves: bool) -> None:
        """The system of this broker orders a leave, or takes it back; a refusal goes to it."""
        self._following = asyncio.ensure_future(self._follow(leaves))

    async def _follow(self, leaves: bool) -> None:
        if leaves and self.stage:
            return  # the order is repeated until the broker has left
        problem = await (self.begin() if leaves else self.abort("by its system"))
        if problem:
            _log.warning("an order of its system is refused", extra={"problem": problem})
            if leaves:
                self._node.bring(LeaveRefused(problem))

    def resume(self) -> None:
        """The broker was killed as its neighbours took its place: it goes on to leave."""
        self._links.no_joiners["leave"] = f"{self._node.id} leaves its network"
        self._task = asyncio.create_task(self._leave())
        self._watch()

    async def abort(self, why: str = "by an operator") -> str:
        """Cancel the leave; return why it is too late, or an empty string."""
        if self._task is None:
            return "it does not leave"
        has_told = self.stage in ("overlay", "links", "left")
        problem = await self._node.order(Stay()) if has_told else ""
        if problem or self._has_left:
            return f"it is too late: {problem or 'it has left, and its last links end'}"
        await self.stop()
        if self._front_end.clients.federation is not None:
            self._front_end.clients.federation.evacuating.end()
        if has_told:
            self._forwarding_channels.stay()
            self._links.tell([self._directory.stay(self._node.clock.now_us())])
            self._front_end.come_back()
            with suppress(TimeoutError):
                await asyncio.wait_for(_until(lambda: self._front_end.is_told), RETAINED_S)
        self._links.no_joiners["leave"] = ""
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
        """Return the steps of a leave and the reasons that refuse it, without a change."""
        clients = self._front_end.clients
        connected = follow = 0
        for number, client_id in enumerate(clients.sessions.client_ids(), 1):
            if not number % SENT_AT_ONCE:
                await asyncio.sleep(0)
            connection = clients.connection(client_id)
            if connection is not None:
                connected += 1
                follow += connection.terms is not None and connection.terms.follows
        away = set(self._links.lost)
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
            "readers": self.readers_behind(),
            "stage": self.stage,
        }

    def readers_behind(self) -> dict[str, int]:
        """Named readers of this broker's log, and how many records each has not done with."""
        log = self._front_end.log
        if log is None:
            return {}
        return {
            each.name: log.log.next - each.offset for each in log.log.readers if not each.is_lost
        }

    def _obstacles(self, without: Collection[BrokerId]) -> list[str]:
        """Return why it cannot leave now."""
        if self._never:
            return [self._never]
        if not self._links.neighbours:
            return ["it has no links, and is all there is of its network"]
        found = self._why_not_dead(without)
        if away := [each for each in self._links.lost if each not in without]:
            names = ", ".join(away)
            verb = "is" if len(away) == 1 else "are"
            found.append(f"{names} {verb} not connected. Wait, or say {_without(away)}")
        found += [
            f"it has rows of a batch that query {query} commits. Wait, or drop them: "
            f"shoal log unstage NETWORK {query}"
            for query in self.commits()
        ]
        if not self.takers() and len(self._front_end.clients.sessions):
            found.append("no other broker is known that takes clients")
        return [*found, self._obstacle] if self._obstacle else found

    @property
    def _obstacle(self) -> str:
        """Return the objection of the machine's system."""
        return self._node.machine.obstacle

    def _why_not_dead(self, without: Collection[BrokerId]) -> list[str]:
        """Return why these cannot be treated as dead."""
        neighbours, away = self._links.neighbours, self._links.lost
        strangers = [each for each in without if each not in neighbours]
        alive = [each for each in without if each in neighbours and each not in away]
        return [
            *(f"{each} is no neighbour of it" for each in strangers),
            *(f"{each} is connected, and not dead" for each in alive),
        ]

    # --- status -------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Return the reason for waiting, if it is known."""
        if self.stage not in ("sessions", "overlay", "links"):
            return ""
        lost = ", ".join(self._links.lost)
        lacks = f"no link to {lost}, which may come back" if lost else ""
        if self.stage == "sessions":
            here = _here(self._front_end.clients.sessions)
            if not self.takers():
                return f"{here}: no other broker takes clients"
            return f"{here}; {lacks}" if lost else here
        return lacks or self._problem or self._obstacle

    @property
    def next_step(self) -> str:
        """Return advice for the operator about that."""
        if self.stage in ("sessions", "overlay", "links") and (lost := self._links.lost):
            return f"start {', '.join(lost)}, or say {_without(lost)}"
        return _NEXT.get(self.stage, "")

    def status(self) -> dict[str, Any]:
        """Return the row in `shoal status`."""
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
        sessions, links = len(self._front_end.clients.sessions), tuple(self._links.neighbours)
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

    async def _leave(self) -> None:
        self._go_to("clients")
        await self._send_away(self.takers())
        self._go_to("sessions")
        if self._front_end.clients.federation is not None:
            now_us = self._node.clock.now_us()
            self._front_end.clients.federation.evacuating.begin(self.takers, now_us)
            self._front_end.carry_out(self._front_end.clients.take_effects())
            self._node.schedule_flush()
        await _until(lambda: not len(self._front_end.clients.sessions))
        self._go_to("overlay")
        self._forwarding_channels.leave()
        if self._front_end.clients.front_end is not None:
            self._node.request(self._front_end.clients.front_end.client, Goodbye())
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
        """Stop accepting clients, and redirect all clients to other brokers, a few at a time."""
        front_end, now_us, reason = self._front_end, self._node.clock.now_us(), "the broker leaves"
        front_end.stop_listening()
        for number, client_id in enumerate(front_end.clients.sessions.client_ids(), 1):
            if not number % SENT_AT_ONCE:
                front_end.carry_out(front_end.clients.take_effects())
                self._node.schedule_flush()
                await asyncio.sleep(0)
                now_us = self._node.clock.now_us()
            connection = front_end.clients.connection(client_id)
            if connection is None:
                continue
            kind = connection.credentials.listener
            near = [self._servers.get(name, {}) for name in takers]
            servers = [listeners[kind] for listeners in near if kind in listeners]
            server = servers[number % len(servers)] if servers else None
            if server is not None and connection.terms is not None and connection.terms.follows:
                front_end.carry_out(connection.redirect(server, now_us, reason))
            else:
                connection.disconnect(ReasonCode.SERVER_MOVED, reason, now_us, server)
        for stranger in front_end.connections:
            stranger.disconnect(ReasonCode.SERVER_MOVED, reason, now_us)
        front_end.carry_out(front_end.clients.take_effects())
        self._node.schedule_flush()

    def _go_to(self, stage: str) -> None:
        self.stage, self._problem = stage, ""
        self._stage_s = asyncio.get_running_loop().time()
        _log.info("leaving", extra={"stage": stage or "taken back"})

    def _answered(self, problem: str) -> None:
        """Take the machine's answer."""
        self._has_left = not problem
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(problem)

    def takers(self) -> list[BrokerId]:
        """Brokers that take clients, neighbours first."""
        near = self._links.neighbours
        places = self._directory.places
        others = [where for where in places if where.front_ends and where.name != self._node.id]
        return [each.name for each in sorted(others, key=lambda each: each.name not in near)]


def _here(sessions: Sessions) -> str:
    """Return how many sessions are still here, and where the first of them goes.

    >>> from types import SimpleNamespace
    >>> first = SimpleNamespace(client_id="dashboard", going=("B2", 7), source="")
    >>> _here([first])
    '1 session is still here (dashboard, on its way to B2)'
    >>> _here([first, first])
    '2 sessions are still here (the first: dashboard, on its way to B2)'
    >>> first.source = "B3"  # which is down
    >>> _here([first])
    '1 session is still here (dashboard, on its way to B2; more may come from B3)'
    """
    count = len(sessions)
    words = "1 session is" if count == 1 else f"{count:,} sessions are"
    session = next(iter(sessions), None)
    if session is None:
        return f"{words} still here"
    goes = f", on its way to {session.going[0]}" if session.going is not None else ""
    if goes and session.source:
        goes += f"; more may come from {session.source}"
    first = "" if count == 1 else "the first: "
    return f"{words} still here ({first}{session.client_id}{goes})"


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(POLL_S)


def _without(away: Collection[BrokerId]) -> str:
    """The options by which a broker leaves without these.

    >>> _without(["B3", "B7"])
    '--without B3 --without B7'
    """
    return " ".join(f"--without {each}" for each in away)
