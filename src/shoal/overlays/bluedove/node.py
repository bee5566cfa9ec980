"""State shared by the parts of one broker: its links, the member table, the known dispatchers.

Any node of a cluster may send to any other: the first message opens a link, and waits until it is
up. Messages of a broker that is both dispatcher and matcher to itself go through `inbox`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from shoal.broker.effects import Effect, LinkReady, OpenLink, Remember, Send, Started
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext
from shoal.matching.segments import Dimension
from shoal.model import BrokerId
from shoal.overlays.bluedove.absences import Absences
from shoal.overlays.bluedove.cluster.members import Member, MemberTable, Status
from shoal.overlays.bluedove.cluster.planner import initial_segments
from shoal.overlays.bluedove.messages import GossipNews
from shoal.overlays.bluedove.parameters import BlueDoveParameters

# The most messages that wait for a link; a publication that waits too long is sent elsewhere.
MAX_WAITING = 100_000
# A link that is neither up nor refused after this time is opened again.
OPENING_US = 3_000_000
# Key of the fact on disk, if all brokers are dispatchers: their names.
DISPATCHERS = "dispatchers"


class BlueDoveNode:
    """One broker of a cluster."""

    def __init__(self, context: BrokerContext, parameters: BlueDoveParameters) -> None:
        self.broker = context.broker
        self.random = context.random
        self.parameters = parameters
        self.dimensions = parameters.dimensions
        self.inbox: deque[Message] = deque()
        self.linked = dict.fromkeys(sorted(context.neighbours))
        # brokers whose link was refused or broke, and is not up again
        self.lost: set[BrokerId] = set()
        self._waiting: dict[BrokerId, tuple[int, list[Message]]] = {}
        around = sorted({*context.neighbours, *context.expected, context.broker})
        self.expected = parameters.matchers or tuple(around)
        self.dispatchers = dict.fromkeys(parameters.dispatchers or around)
        if parameters.all_do_both:
            self.dispatchers.setdefault(context.broker)
        # Those of the broker's first start, or its last `Remember`.
        self._remembered = sorted(self.dispatchers)
        self.absences = Absences(parameters.failure_us)
        own = self.broker if parameters.role(self.broker).matches else None
        self.table = MemberTable(len(self.dimensions), own)
        # A broker that joins is in no first partition, and its parameters may not be the others'.
        self.first_members: tuple[Member, ...] = ()
        if context.is_founder:
            self.first_members = _first_members(
                self.dimensions, self.expected, replicated=parameters.replicated
            )

    def start(self, started: Started, now_us: int) -> None:
        """The broker starts; dispatchers that were there before are waited for."""
        known = started.facts.get(DISPATCHERS, ())
        self.dispatchers.update(dict.fromkeys(known))
        self._remembered = sorted(known or self.dispatchers)
        self.table.merge(self.first_members, now_us)
        former = [name for name in started.former if name in self.dispatchers]
        self.absences.expect(former, now_us + started.give_up_us)

    def send(self, to: BrokerId, message: Message, now_us: int, out: list[Effect]) -> None:
        """Send, now or when the link is up; nothing comes of it if the link does not come up."""
        if to in self.linked:
            out.append(Send(to, message))
        elif to == self.broker:
            self.inbox.append(message)
        elif to in self._waiting:
            waiting = self._waiting[to][1]
            if len(waiting) < MAX_WAITING:
                waiting.append(message)
        else:
            self._waiting[to] = now_us, [message]
            out.append(OpenLink(to, self.address(to)))

    def open(self, to: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Bring a link up before there is something to send."""
        if to not in self.linked and to != self.broker and to not in self._waiting:
            self._waiting[to] = now_us, []
            out.append(OpenLink(to, self.address(to)))

    def address(self, broker: BrokerId) -> str:
        member = self.table.entry(broker)
        return "" if member is None else member.address

    def learn(self, members: Iterable[Member], now_us: int, out: list[Effect]) -> None:
        """Merge newer entries.

        Restarted matchers get their earlier entry, which they may not know.
        """
        members = self.table.without_known(members)
        if not members:
            return
        earlier = self.table.replaced(members)
        changed = self.table.merge(members, now_us)
        for member in earlier:
            self.send(member.broker, GossipNews((member,)), now_us, out)
        if self.parameters.all_do_both and changed:
            self._meet(map(self.table.members.__getitem__, changed), now_us, out)

    def _meet(self, members: Iterable[Member], now_us: int, out: list[Effect]) -> None:
        """Matchers that are dispatchers, too: fetch their subscriptions from now on.

        A restarted broker waits for those that have not left.
        """
        for member in members:
            name, has_left = member.broker, member.status is Status.LEFT
            is_given_up = self.absences.is_given_up(name)
            if has_left and is_given_up:
                self.dispatchers.pop(name, None)
            is_dead = member.status is Status.DEAD and is_given_up
            if not (has_left or is_dead or name in self.dispatchers):
                self.dispatchers[name] = None
                self.open(name, now_us, out)
        self._remember(out)

    def _remember(self, out: list[Effect]) -> None:
        known = sorted(name for name in self.dispatchers if not self._has_left(name))
        if known != self._remembered:
            self._remembered = known
            out.append(Remember({DISPATCHERS: known}))

    def _has_left(self, broker: BrokerId) -> bool:
        member = self.table.entry(broker)
        return member is not None and member.status is Status.LEFT

    def dismiss(self, dispatcher: BrokerId, out: list[Effect]) -> None:
        """The link to a dispatcher has ended for good: no link is opened to it any more."""
        self.absences.left(dispatcher)
        self.dispatchers.pop(dispatcher)
        if self.parameters.all_do_both:
            self._remember(out)

    def link(self, neighbour: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        """A link came up, or went down, or did not come up."""
        self.linked.pop(neighbour, None)
        _, waiting = self._waiting.pop(neighbour, (0, []))
        if up:
            self.linked[neighbour] = None
            self.lost.discard(neighbour)
            self.absences.connected(neighbour)
            if self.parameters.all_do_both or neighbour in self.parameters.dispatchers:
                self.dispatchers.setdefault(neighbour)
            out.append(LinkReady(neighbour))
            out.extend(Send(neighbour, message) for message in waiting)
        else:
            self.lost.add(neighbour)
            if neighbour in self.dispatchers:
                self.absences.disconnected(neighbour, now_us)

    def tick(self, now_us: int, out: list[Effect]) -> None:
        """Open links again that were neither opened nor refused."""
        for broker, (since_us, waiting) in list(self._waiting.items()):
            if now_us - since_us > OPENING_US:
                self._waiting[broker] = now_us, waiting
                out.append(OpenLink(broker, self.address(broker)))


@lru_cache(4)
def _first_members(
    dimensions: tuple[Dimension, ...], matchers: tuple[BrokerId, ...], *, replicated: bool
) -> tuple[Member, ...]:
    """The entries of those that are expected; every node of a simulated cluster has the same."""
    first = initial_segments(dimensions, matchers, replicated=replicated)
    return tuple(
        Member(broker=name, generation=0, version=0, segments=segments)
        for name, segments in first.items()
    )
