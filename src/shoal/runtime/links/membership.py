"""Keeps a running broker a member of its network.

Links carry the news of brokers that have joined, left or died (`directory.py`). A broker with a
link that is down may miss them: its neighbour may have been declared dead, or this broker itself,
and no other neighbour may know of it. So it asks other brokers, over a connection of its own.

| links | action |
| --- | --- |
| one is down for `ASK_S` | asks the brokers that it knows in turn, one each `ASK_S` |
| its other end is dead, or has left | it ends (`PeerLinks`); the system links to the successor |
| there is none, not even one that is down | not ready, holds publications |
| the last one has ended for good | joins again |

A link that does not last ends with its connection, and the system opens it again (BlueDove). A
broker that has no other links and is cut off does not join again: a network of which all brokers
are killed while they ask to join would have no member when it starts again.

A broker that knows no other broker is the whole network.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.model import BrokerId
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.joining import ALONE_S, JoinAgainError, NetworkJoining
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.probing import Probes
from shoal.runtime.node import Node

LOOK_S = 1.0
ASK_S = 5.0

_log = logging.getLogger(__name__)


class NetworkMembership:
    """One broker's; `is_leaving` says whether it is about to leave."""

    def __init__(
        self,
        node: Node,
        links: PeerLinks,
        directory: Directory,
        joining: NetworkJoining,
        probes: Probes,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._node = node
        self._links = links
        self._directory = directory
        self._joining = joining
        self._probes = probes
        self._is_leaving = is_leaving
        # The broker that was asked last.
        self._asked: BrokerId = ""
        self._tasks: list[asyncio.Task[None]] = []
        node.at_flush(Phase.LINKS, self._hold_if_unlinked)

    @property
    def problem(self) -> str:
        """Return why the broker is no member as text: it has no link; empty without a problem."""
        if self._links.neighbours:
            return ""
        others = self._others()
        return f"a link to one of {', '.join(others)}" if others else ""

    def _others(self) -> list[BrokerId]:
        return sorted(each.name for each in self._directory.places if each.name != self._node.id)

    def _hold_if_unlinked(self) -> None:
        self._node.hold(bool(self.problem), "no link")

    def start(self) -> None:
        """Ask other brokers from now on while a link is down."""
        self._tasks.append(asyncio.create_task(self._ask_while_links_are_down()))

    def rejoin(self) -> None:
        """Join again from now on when all links have ended."""
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- asking -------------------------------------------------------------------------------

    async def _ask_while_links_are_down(self) -> None:
        """While a link is down, ask other brokers which ones there are."""
        while True:
            await asyncio.sleep(ASK_S)
            away = self._links.away
            others = [each for each in self._others() if each not in away]
            if away and others:
                self._asked = next((each for each in others if each > self._asked), others[0])
                self._links.learn(await self._probes.brokers_known_to(self._asked))

    # --- joining again ------------------------------------------------------------------------

    @property
    def _is_alone(self) -> bool:
        is_cut_off = self._links.have_ended and bool(self.problem)
        return is_cut_off and not self._is_leaving()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._is_alone:
                await asyncio.sleep(ALONE_S)
            while self._is_alone:
                await self._join()

    async def _join(self) -> None:
        _log.warning("all links have ended: joins again")
        self._joining.begin_again()
        if sponsor := await self._find():
            self._links.start_link(sponsor)
            try:
                await self._joining.linked(sponsor, lambda: self._links.away)
            except JoinAgainError as error:
                _log.warning("not linked", extra={"problem": str(error)})
        else:
            self._joining.has_link()
        self._joining.end()

    async def _find(self) -> BrokerId | None:
        """Return a member that takes this broker in; None once another broker has opened a link."""
        find = self._joining.find(self._probes, lambda: self._is_alone)
        finding = asyncio.create_task(find)
        try:
            while self._is_alone and not finding.done():
                await asyncio.wait([finding], timeout=LOOK_S)
            return finding.result() if finding.done() else None
        finally:
            finding.cancel()
