"""A live broker's links, one by one, and the scheduling of their input to its machine.

On a tree a full link holds back the input of the others; if links make cycles neighbours are always
read. A machine that holds may name those it still wants to hear.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import Hello
from shoal.broker.links.inbox import Debt
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.links.traffic import kept_without_introduction
from shoal.broker.wire import WireError
from shoal.runtime.driving.batches import MAX_BATCH
from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.links.peer_connections import PeerConnection
from shoal.runtime.links.quarantine import Quarantine
from shoal.runtime.node import Node

# A neighbour has sent its tables by then, in most networks.
KEPT_US = 10_000_000
# Processes of a neighbour that are remembered when another has come in their place.
FORMER = 8

_log = logging.getLogger(__name__)


class PeerLink:
    """One link and, when there is one, its connection."""

    def __init__(self, session: LinkSession, *, is_lasting: bool, now_us: int) -> None:
        self.session = session
        self.is_lasting = is_lasting
        # address of the other end, as far as the opener of the link knew it
        self.address = ""
        self.connection: PeerConnection | None = None
        self.quarantine = Quarantine()
        # the reason why there has been no connection for a while, if this end dials
        self.problem = ""
        self.dialling: asyncio.Task[None] | None = None
        self.since_us: int | None = None  # arrival of the oldest held message
        self.is_handing_on = False
        self.is_going_on = False  # true if held input is about to be handled
        self.bytes_in = self.bytes_out = self.connections = 0
        # When its connection began; None without one.
        self.up_us: int | None = None
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
        """Return whether it has ended, and is remembered for the other end."""
        return self.session.state is LinkSessionState.GONE

    @property
    def is_kept(self) -> bool:
        """Return whether the link is up or dialled; else it was opened and has ended."""
        if self.is_gone:
            return False
        return self.is_lasting or self.is_dialled or self.session.state is not LinkSessionState.IDLE

    @property
    def why_not(self) -> str:
        """Return why it is not up, where there is a reason."""
        if self.quarantine.reason and self.session.state is not LinkSessionState.UP:
            return f"in quarantine: {self.quarantine.reason}"
        if (
            self.problem
            or self.is_dialled
            or self.session.state in (LinkSessionState.UP, LinkSessionState.GONE)
        ):
            return self.problem
        so_far = "is not back" if self.connections else "has not yet"
        return f"{self.session.neighbour} connects to this broker, and {so_far}"

    def _why_kept(self, now_us: int) -> str:
        """Return why a link that is up keeps a guest's message, where that takes long."""
        kind, session = self.session.kept_kind, self.session
        if kind is None or kind.__module__.startswith("shoal."):
            return ""
        if self.up_us is None or now_us - self.up_us < KEPT_US:
            return ""
        return kept_without_introduction(session.broker, session.neighbour, kind)

    def is_lost_since(self, at_us: int) -> bool:
        """Return whether there has been no connection since then, or before."""
        return self.lost_us is not None and self.lost_us <= at_us and not self.is_gone

    def is_over(self, now_us: int) -> bool:
        """Return whether the link has ended, and no broker will ask about it or return for it."""
        if self.connection is not None:
            return False
        return self.session.may_be_forgotten(now_us) if self.is_gone else not self.is_kept

    def check(self, hello: Hello, now_us: int) -> None:
        """WireError while the other end is in quarantine, and comes too early.

        WireError, too, for a process if another process with its broker's name is linked. The two
        would take the link from each other for ever.
        """
        if self.quarantine.refuses(now_us):
            raise WireError(f"in quarantine: {self.quarantine.reason}")
        if self.session.state is LinkSessionState.UP and hello.session[0] in self._former:
            name = self.session.neighbour
            raise WireError(f"another process is {name}, and is linked: two brokers have its name")

    def on_link_up(self, hello: Hello, now_us: int) -> None:
        """Take the other end's hello; log if it is another process."""
        self.connections += 1
        self.quarantine.on_link_up(now_us)
        self.problem, self.lost_us, self.up_us = "", None, now_us
        incarnation = hello.session[0]
        extra = {"neighbour": hello.broker, "connections": self.connections}
        if self.incarnation not in (None, incarnation):
            _log.warning("broker restarted", extra=extra)
            self._former.append(self.incarnation)
        _log.info("link up", extra=extra)
        self.incarnation = incarnation

    def write(self) -> None:
        """Write pending messages, if there is a connection."""
        data = self.session.to_write()
        if data and self.connection is not None:
            self.bytes_out += len(data)
            self.connection.write(data)
        if self.is_gone and self.connection is not None:
            self.connection.close()

    def lost(self, now_us: int, why: str, refused: str = "") -> None:
        """Its connection has ended; `refused` is the reason, if input was malformed."""
        self.connection = self.since_us = None
        if self.quarantine.ended(now_us, refused):
            self.session.is_quarantined = True
            extra = {"neighbour": self.session.neighbour, "why": refused}
            _log.error("link in quarantine, refused again and again", extra=extra)
        if self.session.state is LinkSessionState.UP:
            self.lost_us, self.up_us = now_us, None
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
            "problem": self.why_not or self._why_kept(now_us),
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


class LinkScheduler:
    """Passes links' input to the machine, in time slices.

    `links` are all there are; `to_flush` is told which has something to say.
    """

    def __init__(
        self,
        node: Node,
        links: Callable[[], Iterable[PeerLink]],
        to_flush: Callable[[PeerLink], None],
        *,
        has_cycles: bool,
    ) -> None:
        self.is_stopping = False
        self._node = node
        self._links = links
        self._to_flush = to_flush
        self._has_cycles = has_cycles

    def handle_received(self, link: PeerLink) -> None:
        """Let the broker handle received messages, on a tree unless another link is full."""
        if self._node.is_behind or self._node.holds_back(link.session.neighbour):
            return
        others = () if self._has_cycles else self._links()
        if any(other.session.is_full for other in others if other is not link):
            return
        if link.is_handing_on:
            return  # later messages ask again; links keep their order
        link.is_handing_on = True
        try:
            self._handle_slice(link)
        finally:
            link.is_handing_on = False

    def _handle_slice(self, link: PeerLink) -> None:
        session, clock = link.session, self._node.clock
        end_us = clock.now_us() + TURN_US
        while messages := session.take_run(MAX_BATCH):
            owe = partial(self._owe, link, session.handled - len(messages))
            self._node.receive(session.neighbour, messages, link.since_us, owe)
            if self._node.is_behind:
                return  # the link resumes once it has caught up
            if session.has_come:
                self._node.deliver()
            if self._node.holds_back(session.neighbour):
                return
            if session.has_come and clock.now_us() >= end_us:
                self._resume_soon(link)
                return
        link.since_us = None

    def _owe(self, link: PeerLink, first: int, start: int, end: int) -> AckTracker:
        debt = link.session.owe(first + start, first + end)
        return AckTracker(partial(self._settle, link, debt), link.session.neighbour)

    def _resume_soon(self, link: PeerLink) -> None:
        """Continue after other tasks."""
        if not link.is_going_on:
            link.is_going_on = True
            asyncio.get_running_loop().call_soon(self._resume, link)

    def _resume(self, link: PeerLink) -> None:
        link.is_going_on = False
        if link.connection is not None and not self.is_stopping:
            self.handle_received(link)
            self.resume_held()
            self._to_flush(link)

    def _settle(self, link: PeerLink, debt: Debt) -> None:
        """All that came of some messages of a neighbour is settled."""
        self._node.recording.settle(partial(self._acknowledge_settled, link, debt))
        self._node.schedule_flush()

    def _acknowledge_settled(self, link: PeerLink, debt: Debt) -> None:
        if link.session.settle(debt):
            self._to_flush(link)

    def resume_held(self) -> None:
        """Handle input that was held while a link was full, if it is not any more."""
        if not self._node.is_holding:
            return
        full = any(link.session.is_full for link in self._links())
        self.handle_all()
        if not full:
            self._node.hold(any(link.session.is_full for link in self._links()))

    def handle_all(self) -> None:
        """Handle the input of all links, as far as possible."""
        for link in list(self._links()):
            if link.connection is not None:
                self.handle_received(link)
                self._to_flush(link)
