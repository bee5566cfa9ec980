"""Join of a new broker to a running network: over one link, to a member that admits it.

| stage | until |
| --- | --- |
| left | an operator starts it with --join: it has left, and its folder says so |
| asking | a member takes it in: it asks every broker that it knows, in turn, again and again |
| linking | its link to that member has come up for the first time |
| answering | another member has answered it through the system, and reported retained messages |

The broker is not ready in any stage, and lets no client in.  Killed in the first two, it joins when
it starts again, also without being told to; killed in the third, it waits again for an answer.  The
link lasts, and the member takes it up from a broker that has the network's name and, with TLS, a
certificate made out to its own.  All else the new broker hears over that link.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from shoal.broker.links.controls import Hello
from shoal.broker.wire import WireError
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_connections import EndedError
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.links.probing import Probes
from shoal.runtime.storage.overlay_file import OverlayFile

# Between two rounds of questions; brokers that start together are there in a moment.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
# A member that takes a broker in has its link up in a moment; after this long it has gone.
FIRST_LINK_S = 15.0
# For so long a broker may be without a link while its system changes links.
ALONE_S = 4.0
_POLL_S = 0.02

_log = logging.getLogger(__name__)


class JoinAttempt(NamedTuple):
    """A member over which a broker can join the network, and where it listens for others."""

    broker: BrokerId
    address: Address

    def __str__(self) -> str:
        return f"{self.broker} at {self.address}"


def _always() -> bool:
    return True


class JoinAgainError(Exception):
    """The member that took a broker in has gone before their link came up."""


class NetworkJoining:
    """Join protocol of one broker; without `stage` it is a member, or founds a network.

    `joins` are members that an operator has named, `given` the broker's neighbours by the network
    file, which `joins` replace.
    """

    def __init__(
        self,
        broker: BrokerId,
        given: Sequence[BrokerId],
        joins: Sequence[JoinAttempt],
        overlay: OverlayFile,
        directory: Directory,
        clock: Clock,
    ) -> None:
        is_new = bool(joins) and not (overlay.links or overlay.ended)
        is_asking = is_new or overlay.joins is not None
        self.stage = "asking" if is_asking else "" if overlay.is_member else "answering"
        if overlay.has_left and not is_asking:
            self.stage = "left"
        # The reasons why each member of the last attempt did not admit the broker.
        self.problems: dict[JoinAttempt, str] = {}
        self._broker = broker
        self._given = given
        self._joins = joins
        self._overlay = overlay
        self._directory = directory
        self._clock = clock
        self._since_us = clock.now_us()
        # Only the pauses between rounds: brokers that join together do not ask in step.
        self._random = Random()

    @property
    def is_asking(self) -> bool:
        """Return whether no member has taken the broker in yet."""
        return self.stage == "asking"

    # --- steps --------------------------------------------------------------------------------

    def begin_again(self) -> None:
        """All links of a running broker have ended: it is to be taken in once more."""
        self.stage, self._since_us = "asking", self._clock.now_us()

    def end(self) -> None:
        """It is a member, as its state is still that of one."""
        self._overlay.becomes_member()
        self.stage = ""

    async def find(self, probes: Probes, is_alone: Callable[[], bool] = _always) -> BrokerId:
        """Ask until a member takes the broker in; note the link to it, if it is still alone."""
        if self._joins or self._overlay.joins is None:
            self._overlay.begins_to_join({each.broker: str(each.address) for each in self._joins})
        pause_s = FIRST_PAUSE_S
        while True:
            for join in list(dict.fromkeys(self._known())):
                problem = await probes.why_not_taken(join.broker, join.address)
                if not problem and is_alone():
                    self._take(join)
                    return join.broker
                self._note(join, problem)
            await asyncio.sleep(pause_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _known(self) -> Iterator[JoinAttempt]:
        """Every address at which a member may be; that of an earlier attempt first."""
        overlay = self._overlay
        for name, row in overlay.links.items():
            if row.address:
                yield JoinAttempt(name, read_address(row.address))
        yield from self._joins
        for name, text in (overlay.joins or {}).items():
            yield JoinAttempt(name, read_address(text))
        for name, address in sorted(self._directory.addresses.items()):
            if name != self._broker:
                yield JoinAttempt(name, address)

    def _note(self, join: JoinAttempt, problem: str) -> None:
        if self.problems.get(join) != problem:
            extra = {"name_of_broker": join.broker, "address": str(join.address)}
            _log.warning("not taken in", extra=extra | {"problem": problem})
        self.problems[join] = problem

    def _take(self, join: JoinAttempt) -> None:
        _log.info("joins", extra={"over": join.broker, "address": str(join.address)})
        # This address has answered, whatever the network file says.
        self._directory.addresses[join.broker] = join.address
        row = self._overlay.links.get(join.broker)
        if row is None:
            opened_us = self._overlay.stamp(join.broker, self._clock.now_us())
            self._overlay.joins_over(join.broker, opened_us, str(join.address), self._given)
        self.stage, self._since_us = "linking", self._clock.now_us()

    async def linked(self, sponsor: BrokerId, away: Callable[[], Collection[BrokerId]]) -> None:
        """Wait for the first link; JoinAgainError if it does not come up."""
        try:
            async with asyncio.timeout(FIRST_LINK_S):
                while sponsor in away():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise JoinAgainError(f"the link to {sponsor} does not come up") from None
        self._overlay.has_joined()
        self.problems.clear()
        self.stage, self._since_us = "answering", self._clock.now_us()

    def has_link(self) -> None:
        """Another broker, or the system of this one, has opened a link while it asked."""
        self._overlay.has_joined()
        self.problems.clear()

    async def answered(
        self, is_told: Callable[[], bool], neighbours: Callable[[], Collection[BrokerId]]
    ) -> None:
        """Wait until a member has answered through the system, and has reported retained
        messages.

        JoinAgainError when it has had no link for so long that the system opens none: the member
        that took it in is gone.
        """
        loop = asyncio.get_running_loop()
        linked_s = loop.time()
        while not is_told():
            if neighbours():
                linked_s = loop.time()
            elif loop.time() - linked_s > ALONE_S:
                self._overlay.begins_to_join(
                    {each.broker: str(each.address) for each in self._joins}
                )
                raise JoinAgainError("all its links have ended")
            await asyncio.sleep(_POLL_S)
        self._overlay.becomes_member()
        self.stage = ""

    # --- status -------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Return the reason for waiting as text; empty for a member."""
        match self.stage:
            case "asking":
                asked = "; ".join(f"{join}: {problem}" for join, problem in self.problems.items())
                return f"a member that takes it in ({asked or 'no broker has answered yet'})"
            case "linking":
                return "its first link"
            case "left":
                return f"membership: {self._broker} has left the network"
            case "answering":
                others = ", ".join(sorted(set(self._directory.addresses) - {self._broker}))
                return f"an answer through the network from one of {others}"
        return ""

    def status(self) -> dict[str, Any]:
        """Return the row in `shoal status`."""
        advice = {
            "asking": "start one of these, or start this broker again with another --join",
            "linking": f"it asks again if the link is not up within {FIRST_LINK_S:g} s",
            "left": "to have it join again, start it with --join",
            "answering": "it asks again and again; see why these brokers refuse",
        }
        since_us = self._clock.now_us() - self._since_us if self.stage else 0
        return {
            "stage": self.stage,
            "problem": self.problem,
            "since_s": round(since_us / 1_000_000, 3),
            "next": advice.get(self.stage, ""),
            "tried": [
                {"broker": join.broker, "address": str(join.address), "problem": problem}
                for join, problem in self.problems.items()
            ],
        }


def check_joiner(broker: BrokerId, no_joiners: str, *, is_connected: bool) -> None:
    """WireError when a new broker of that name cannot join over this one."""
    if no_joiners:
        raise WireError(no_joiners)
    if is_connected:
        raise WireError(f"another broker {broker!r} is connected")


def take_up(
    hello: Hello, broker: BrokerId, overlay: OverlayFile, settings: PeerSettings, no_joiners: str
) -> int | None:
    """Return when the link was opened that a broker offers to which there is none; None: it does
    not last.

    EndedError when it means a link that has ended, WireError when `broker` takes it for a stranger.
    """
    neighbour, opened_us = hello.broker, hello.opened_us
    if hello.ends or (opened_us is not None and overlay.is_over(neighbour, opened_us)):
        raise EndedError(f"the link to broker {neighbour!r} has ended")
    is_known = not settings.no_joiners and neighbour in settings.addresses
    if opened_us and no_joiners and not is_known:
        raise WireError(no_joiners)
    if opened_us:
        return opened_us
    if opened_us is None and neighbour in settings.addresses:
        return None
    raise WireError(f"{broker} has no link to broker {neighbour!r}")
