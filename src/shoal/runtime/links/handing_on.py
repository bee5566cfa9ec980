"""A live broker's links, one by one, and when what came over them is handed to its machine.

On a tree a link that is full holds back what comes over the others; where links make cycles
neighbours are always read.  A machine that holds may name those it still wants to hear.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from shoal.broker.custody import Custody
from shoal.broker.links.controls import Hello
from shoal.broker.links.inbox import Debt
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import State
from shoal.broker.wire import WireError
from shoal.runtime.driving.batches import MAX_BATCH
from shoal.runtime.driving.weighing import TURN_US
from shoal.runtime.links.peer_connections import PeerConnection
from shoal.runtime.links.quarantine import Quarantine
from shoal.runtime.node import Node

# Processes of a neighbour that are remembered when another has come in their place.
FORMER = 8

_log = logging.getLogger(__name__)


class Link:
    """One link and, when there is one, its connection."""

    def __init__(self, session: LinkSession, *, is_lasting: bool, now_us: int) -> None:
        self.session = session
        self.is_lasting = is_lasting
        # Where the other end is, as far as whoever opened the link knew.
        self.address = ""
        self.connection: PeerConnection | None = None
        self.quarantine = Quarantine()
        # Why there has been none for a while, if this end connects.
        self.problem = ""
        self.dialling: asyncio.Task[None] | None = None
        self.since_us: int | None = None  # when the oldest of what it holds back came
        self.is_handing_on = False
        self.is_going_on = False  # whether what it holds back is about to be handed on
        self.bytes_in = self.bytes_out = self.connections = 0
        # When its last connection ended, or it began without one; None while it is up.
        self.lost_us: int | None = now_us
        # Of the process at the other end, once it was there.
        self.incarnation: int | None = None
        # Of those that were there before it.
        self._former: deque[int] = deque(maxlen=FORMER)

    @property
    def is_dialled(self) -> bool:
        return self.dialling is not None and not self.dialling.done()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, and is remembered for the other end."""
        return self.session.state is State.GONE

    @property
    def is_kept(self) -> bool:
        """Whether it is there, or somebody sees to it; else it is one that was opened and ended."""
        if self.is_gone:
            return False
        return self.is_lasting or self.is_dialled or self.session.state is not State.IDLE

    @property
    def why_not(self) -> str:
        """Why it is not up, where there is a reason."""
        if self.quarantine.reason and self.session.state is not State.UP:
            return f"in quarantine: {self.quarantine.reason}"
        if self.problem or self.is_dialled or self.session.state in (State.UP, State.GONE):
            return self.problem
        so_far = "is not back" if self.connections else "has not yet"
        return f"{self.session.neighbour} connects to this broker, and {so_far}"

    def is_lost_since(self, at_us: int) -> bool:
        """Whether there has been no connection since then, or before."""
        return self.lost_us is not None and self.lost_us <= at_us and not self.is_gone

    def is_over(self, now_us: int) -> bool:
        """Whether it is no more, and nobody will ask about it, or comes back for it."""
        if self.connection is not None:
            return False
        return self.session.may_be_forgotten(now_us) if self.is_gone else not self.is_kept

    def check(self, hello: Hello, now_us: int) -> None:
        """WireError while the other end is in quarantine, and comes too early.

        WireError, too, for a process in whose place another is linked: two have one broker's name.
        They would take the link from each other for ever.
        """
        if self.quarantine.refuses(now_us):
            raise WireError(f"in quarantine: {self.quarantine.reason}")
        if self.session.state is State.UP and hello.session[0] in self._former:
            name = self.session.neighbour
            raise WireError(f"another process is {name}, and is linked: two brokers have its name")

    def came_up(self, hello: Hello, now_us: int) -> None:
        """The other end has said hello; the log says whether it is another process by now."""
        self.connections += 1
        self.quarantine.came_up(now_us)
        self.problem, self.lost_us = "", None
        incarnation = hello.session[0]
        extra = {"neighbour": hello.broker, "connections": self.connections}
        if self.incarnation not in (None, incarnation):
            _log.warning("broker restarted", extra=extra)
            self._former.append(self.incarnation)
        _log.info("link up", extra=extra)
        self.incarnation = incarnation

    def write(self) -> None:
        """Write what there is to say, if there is a connection."""
        data = self.session.to_write()
        if data and self.connection is not None:
            self.bytes_out += len(data)
            self.connection.write(data)
        if self.is_gone and self.connection is not None:
            self.connection.close()

    def lost(self, now_us: int, why: str, refused: str = "") -> None:
        """Its connection has ended; `refused` says why, where what came over it made no sense."""
        self.connection = self.since_us = None
        if self.quarantine.ended(now_us, refused):
            self.session.is_quarantined = True
            extra = {"neighbour": self.session.neighbour, "why": refused}
            _log.error("link in quarantine, refused again and again", extra=extra)
        if self.session.state is State.UP:
            self.lost_us = now_us
            extra = {"neighbour": self.session.neighbour, "why": why}
            _log.warning("link down", extra=extra | {"connections": self.connections})
        self.session.lost(now_us)

    def tick(self, now_us: int) -> None:
        """To be called about every second."""
        if self.quarantine.is_over(now_us):
            self.session.is_quarantined = False
            _log.warning("quarantine over", extra={"neighbour": self.session.neighbour})

    def status(self, spooled_bytes: int, now_us: int) -> dict[str, Any]:
        """For people and metrics."""
        session = self.session
        away_us = 0 if self.lost_us is None else now_us - self.lost_us
        return {
            "neighbour": session.neighbour,
            "state": session.state.value,
            "problem": self.why_not,
            "quarantined": self.quarantine.reason,
            "away_us": away_us,
            "is_lasting": self.is_lasting,
            "is_full": session.is_full,
            "buffered_bytes": session.buffered_bytes,
            "spooled_bytes": spooled_bytes,
            "neighbour_stores": session.neighbour_stores,
            "delay_us": session.delay_us,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "connections": self.connections,
        }


class HandingOn:
    """Hands what came over links to the machine, in turns.

    `links` are all there are; `to_flush` is told which has something to say.
    """

    def __init__(
        self,
        node: Node,
        links: Callable[[], Iterable[Link]],
        to_flush: Callable[[Link], None],
        *,
        has_cycles: bool,
    ) -> None:
        self.is_stopping = False
        self._node = node
        self._links = links
        self._to_flush = to_flush
        self._has_cycles = has_cycles

    def hand_on(self, link: Link) -> None:
        """Let the broker handle what came, on a tree unless another link is full."""
        if self._node.is_behind or self._node.holds_back(link.session.neighbour):
            return
        others = () if self._has_cycles else self._links()
        if any(other.session.is_full for other in others if other is not link):
            return
        if link.is_handing_on:
            return  # what comes up meanwhile asks again; links keep their order
        link.is_handing_on = True
        try:
            self._hand_on_for_a_turn(link)
        finally:
            link.is_handing_on = False

    def _hand_on_for_a_turn(self, link: Link) -> None:
        session, clock = link.session, self._node.clock
        end_us = clock.now_us() + TURN_US
        while messages := session.take_run(MAX_BATCH):
            owe = partial(self._owe, link, session.handled - len(messages))
            self._node.receive(session.neighbour, messages, link.since_us, owe)
            if self._node.is_behind:
                return  # who goes on when it has caught up
            if session.has_come:
                self._node.deliver()
            if self._node.holds_back(session.neighbour):
                return
            if session.has_come and clock.now_us() >= end_us:
                self._go_on_soon(link)
                return
        link.since_us = None

    def _owe(self, link: Link, first: int, start: int, end: int) -> Custody:
        debt = link.session.owe(first + start, first + end)
        return Custody(partial(self._settle, link, debt), link.session.neighbour)

    def _go_on_soon(self, link: Link) -> None:
        """Hand on the rest when others have had their turn."""
        if not link.is_going_on:
            link.is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on, link)

    def _go_on(self, link: Link) -> None:
        link.is_going_on = False
        if link.connection is not None and not self.is_stopping:
            self.hand_on(link)
            self.see_to_room()
            self._to_flush(link)

    def _settle(self, link: Link, debt: Debt) -> None:
        """All that came of some messages of a neighbour is settled."""
        self._node.recording.settle(partial(self._tell_settled, link, debt))
        self._node.schedule_flush()

    def _tell_settled(self, link: Link, debt: Debt) -> None:
        if link.session.settle(debt):
            self._to_flush(link)

    def see_to_room(self) -> None:
        """Hand on what was held back while a link was full, if it is not any more."""
        if not self._node.is_holding:
            return
        full = any(link.session.is_full for link in self._links())
        self.hand_on_all()
        if not full:
            self._node.hold(any(link.session.is_full for link in self._links()))

    def hand_on_all(self) -> None:
        """Hand on what can be, of all links."""
        for link in list(self._links()):
            if link.connection is not None:
                self.hand_on(link)
                self._to_flush(link)
