"""Removal of a dead broker: an operator declares it dead.

The system of this broker takes the dead broker's place, where it can (`Dead`), or drops the link;
then all brokers learn that the dead broker is gone, and which broker has its place. If the dead
broker comes back, its neighbours tell it that their links have ended, and it joins again
(`links/membership.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from shoal.broker.effects import Dead
from shoal.model import BrokerId
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.node import Node

# Retries go on this long while something blocks, for example held rows of a publisher.
PATIENCE_S = 40.0
# Limit of one attempt: a link change commits or aborts by then.
ATTEMPT_S = 8.0
AGAIN_S = 1.0
POLL_S = 0.05

_log = logging.getLogger(__name__)


class Forgetting:
    """One broker's."""

    def __init__(self, node: Node, links: PeerLinks, directory: Directory) -> None:
        self._node = node
        self._links = links
        self._directory = directory
        self._task: asyncio.Task[str] | None = None
        # The broker that is, or was last, to be forgotten here, and the outcome.
        self._dead: BrokerId = ""
        self._problem = ""

    def begin(self, dead: BrokerId, others: Collection[BrokerId] = ()) -> str:
        """Declare a broker dead that these others were linked to, too; why that cannot begin."""
        if dead == self._node.id:
            return f"{dead} answers, and is not dead"
        if self._is_under_way and dead != self._dead:
            return f"it is about to forget {self._dead}"
        if not self._is_under_way:
            self._dead, self._problem = dead, ""
            self._task = asyncio.create_task(self.forget(dead, others))
        return ""

    @property
    def _is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def status(self) -> dict[str, Any]:
        """Return the row in `shoal status`, which `shoal forget` polls."""
        return {
            "broker": self._dead,
            "is_under_way": self._is_under_way,
            "problem": self._problem,
        }

    async def stop(self) -> None:
        """Go no further."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def forget(self, dead: BrokerId, others: Collection[BrokerId] = ()) -> str:
        """The same, until it is done; why it is not."""
        self._problem = await self._take_its_place(dead, others)
        if self._problem:
            return f"{dead} cannot be forgotten: {self._problem}"
        _log.warning("declared dead", extra={"name_of_broker": dead})
        now_us = self._node.clock.now_us()
        self._links.tell([self._directory.declare_dead(dead, self._node.id, now_us)])
        self._node.schedule_flush()
        return ""

    async def _take_its_place(self, dead: BrokerId, others: Collection[BrokerId]) -> str:
        """Try until it is done, as long as something is only in the way."""
        loop = asyncio.get_running_loop()
        deadline_s, problem = loop.time() + PATIENCE_S, ""
        while self._has_link(dead):
            if self._links.is_connected(dead):
                return "it is connected; have it leave instead"
            if loop.time() > deadline_s:
                return problem or "its neighbours do not agree in time"
            problem = await self._node.order(Dead(dead, tuple(sorted(others))))
            if not problem:
                await self._wait_without(dead)
                problem = self._node.machine.obstacle
            if self._has_link(dead):
                await asyncio.sleep(AGAIN_S)
        return ""

    def _has_link(self, dead: BrokerId) -> bool:
        return dead in self._links.neighbours

    async def _wait_without(self, dead: BrokerId) -> None:
        """Until the link to the dead broker has gone, or long enough."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + ATTEMPT_S
        while self._has_link(dead) and loop.time() < until_s:
            await asyncio.sleep(POLL_S)
