"""How a live broker leaves its network for good, with nothing lost that was acknowledged.

| stage | until |
| --- | --- |
| clients | all are sent elsewhere |
| sessions | other brokers have those that clients did not take along |
| overlay | the others know that it is gone; the machine has left, however its system does that |
| links | all have ended that the machine has not ended itself |

Then its process ends.  A broker that is killed meanwhile starts again as one that never began to
leave, and may be asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from shoal.broker.effects import Leave
from shoal.broker.messages import Goodbye
from shoal.model import BrokerId
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.moving import Servers
from shoal.runtime.doors.mqtt_door import MqttDoor
from shoal.runtime.links.couriers import Couriers
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.node import Node

POLL_S = 0.05
# Clients that are sent away before others have their turn: some 10 ms.
SENT_AT_ONCE = 300
# Asked in vain, the machine is asked again: what keeps it may pass.
ASK_AGAIN_S = 2.0

_log = logging.getLogger(__name__)


class Leaving:
    """The one time that a broker leaves; `left` is told when it has.

    `servers` are where clients that follow can be sent; `never` says why no broker ever leaves.
    """

    def __init__(
        self,
        node: Node,
        door: MqttDoor,
        links: PeerLinks,
        couriers: Couriers,
        directory: Directory,
        servers: Servers,
        left: Callable[[], None],
        never: str = "",
    ) -> None:
        self.stage = ""
        # Why the machine cannot leave yet, as it says.
        self._problem = ""
        self._node = node
        self._door = door
        self._links = links
        self._couriers = couriers
        self._directory = directory
        self._servers = servers
        self._left = left
        self._never = never
        self._answer: asyncio.Future[str] | None = None
        self._task: asyncio.Task[None] | None = None
        node.asides.at_leave = self._answered

    @property
    def problem(self) -> str:
        """What it waits for, if that is known."""
        if self._problem or self.stage not in ("overlay", "links"):
            return self._problem
        away = self._links.away
        return f"no link to {', '.join(away)}, which may come back" if away else ""

    def begin(self) -> str:
        """Leave; why not, if that cannot be."""
        if self._task is not None:
            return ""
        if self._never:
            return self._never
        if not self._links.neighbours:
            return "it has no links, and is all there is of its network"
        if not self.takers() and len(self._door.clients.sessions):
            return "no other broker is known that takes clients"
        self._task = asyncio.create_task(self._leave())
        return ""

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

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
        self.stage = stage
        _log.info("leaving", extra={"stage": stage})

    def _answered(self, problem: str) -> None:
        """What the machine says."""
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
