"""When publications may use a link: as soon as the broker at its other end can route them.

A live broker starts without links. A publication that reached it before its links were there would
find no way onward, and be lost though it is acknowledged. So a starting broker waits for its
expected neighbours. It accepts no client's publication meanwhile (`is_ready`), and each neighbour
holds back its own until the broker sends `ReadyToRoute`. A former neighbour is awaited as long as
one that disconnects; another one, which may not have been started yet, for `WAIT_US`.

No two brokers wait for each other: a broker needs its links to be up, not to be admitted.
"""

from __future__ import annotations

from collections.abc import Collection

from shoal.broker.effects import Effect, LinkReady, LinkState, Send, SetTimer, Started, TimerKey
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId

TIMER: TimerKey = ("link admission",)
WAIT_US = 10_000_000


class ReadyToRoute(Message, frozen=True):
    """The sender has its links: publications may come."""

    introduces = True


class LinkAdmission:
    """The links of one broker; it is ready when no expected neighbour is awaited any more."""

    def __init__(self, context: BrokerContext) -> None:
        self._awaited = dict.fromkeys(context.expected)
        self._linked = dict.fromkeys(context.neighbours)
        self._former: Collection[BrokerId] = ()
        self._give_up_at_us = 0

    @property
    def is_ready(self) -> bool:
        return not self._awaited

    @property
    def awaited(self) -> Collection[BrokerId]:
        return list(self._awaited)

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """Bound the wait; pass the timer `TIMER` to `timer`."""
        self._former = started.former
        self._give_up_at_us = now_us + started.give_up_us
        if self._awaited:
            out.append(SetTimer(TIMER, now_us + min(WAIT_US, started.give_up_us)))

    def link(self, neighbour: BrokerId, state: LinkState, out: list[Effect]) -> None:
        """A link came up, failed or ended; after it came up its other end knows nothing."""
        self._linked.pop(neighbour, None)
        if state is LinkState.UP:
            self._linked[neighbour] = None
            if self.is_ready:
                out.append(Send(neighbour, ReadyToRoute()))
        self.dismiss(neighbour, out)

    def receive(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """The neighbour has sent `ReadyToRoute`."""
        out.append(LinkReady(neighbour))

    def dismiss(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """The neighbour is linked, or is not to come; announce readiness if it was the last one."""
        if neighbour in self._awaited:
            del self._awaited[neighbour]
            self._announce(out)

    def timer(self, now_us: int, out: list[Effect]) -> None:
        """Give up those whose time has come."""
        is_over = now_us >= self._give_up_at_us
        for broker in list(self._awaited):
            if is_over or broker not in self._former:
                self.dismiss(broker, out)
        if self._awaited:
            out.append(SetTimer(TIMER, self._give_up_at_us))

    def _announce(self, out: list[Effect]) -> None:
        if self.is_ready:
            out += [Send(each, ReadyToRoute()) for each in self._linked]
