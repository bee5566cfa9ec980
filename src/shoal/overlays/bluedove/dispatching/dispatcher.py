"""The dispatcher: what clients ask goes in here, and what comes for them comes out.

It keeps its member table by what matchers announce and by pulling one from a random matcher now
and then.  Until it has heard from every expected matcher that is there, it welcomes none: one that
started again must not take what others serve.  The first dispatcher (by name) that is there lets
joiners in and, where that is asked for, decides how many matchers there are.
"""

from __future__ import annotations

from shoal.broker.custody import is_assured
from shoal.broker.effects import Effect, Notify, Record, SetTimer
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import ProtocolError, unexpected
from shoal.model import BrokerId, ClientId, MessageId, Publication
from shoal.overlays.bluedove.cluster.members import Status
from shoal.overlays.bluedove.cluster.planner import Controller, Scale, donors
from shoal.overlays.bluedove.dispatching.home import Home
from shoal.overlays.bluedove.dispatching.outbox import Outbox
from shoal.overlays.bluedove.messages import (
    Answer,
    Donors,
    Fetch,
    Hello,
    Join,
    Leave,
    LoadReport,
    MailboxOpened,
    Matched,
    News,
    NotServed,
    OpenMailbox,
    Poll,
    Pull,
    Receipt,
    Results,
    Stored,
    Welcome,
    in_messages,
)
from shoal.overlays.bluedove.node import Node
from shoal.overlays.bluedove.records import ScaleRecord

# Joiners ask every round of gossip; one that has not asked for so many is not ready any more.
ROUNDS_READY = 3
# Publications that are kept; past it, when matchers are far behind or none is there, publishers are
# refused, so that what was accepted is never dropped.  Matchers' queues hold no more than this for
# each dispatcher.
MAX_KEPT = 1_000_000
# A table is not pulled more often than this, however much is missing.
LEAST_PULL_US = 500_000


class Dispatcher:
    """What one dispatcher does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.home = Home(node)
        self.outbox = Outbox(node)
        # The number of each client's next publication, unless the time is higher by then; and the
        # highest of clients that have left: one of them may come again at once.
        self._numbers: dict[ClientId, int] = {}
        self._unused_number = 0
        self._untold = dict.fromkeys(name for name in node.expected if name != node.broker)
        self._greeting: dict[BrokerId, None] = {}
        self._pulled_us = 0
        self._ready_us: dict[BrokerId, int] = {}
        self._admitted: set[BrokerId] = set()
        parameters = node.parameters
        self._controller = Controller(parameters.elasticity) if parameters.elastic else None

    def start(self, now_us: int, out: list[Effect]) -> None:
        node = self._node
        for matcher in self._untold:
            node.send(matcher, Pull(), now_us, out)
        for dispatcher in node.dispatchers:
            node.open(dispatcher, now_us, out)
        self._pulled_us = now_us
        out.append(SetTimer(("tick",), now_us + node.parameters.tick_us))

    # --- clients ------------------------------------------------------------------------------

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                is_full = len(self.outbox) + len(publications) > MAX_KEPT
                # Of those that somebody waits for there are no more than clients may have open.
                if is_full and not is_assured(request):
                    raise ProtocolError(f"{self._node.broker} keeps {MAX_KEPT} publications")
                self.outbox.send(self._accept(client, publications, now_us, out), now_us, out)
            case Subscribe(subscription):
                self.home.subscribe(client, subscription, now_us, out)
            case Unsubscribe(subscription_id):
                self.home.unsubscribe(client, subscription_id, now_us, out)
            case Goodbye():
                self._unused_number = max(self._unused_number, self._numbers.pop(client, 0))
                self.home.leave(client, now_us, out)
            case Advertise() | Unadvertise():
                pass  # nothing is routed by them here
            case OpenMailbox():
                out.append(Notify(client, MailboxOpened(self.home.mailboxes.open(client))))
            case Poll(mailbox, most):
                out.extend(self.home.mailboxes.poll(client, mailbox, most))
            case _:
                raise unexpected(request, f"client {client}")

    def _accept(
        self,
        client: ClientId,
        publications: tuple[Publication, ...],
        now_us: int,
        out: list[Effect],
    ) -> list[RoutedPublication]:
        """Number a client's publications; another's are refused one by one.

        Numbers start at the time, so that a dispatcher that comes back never gives one again.
        """
        number = max(self._numbers.get(client, self._unused_number), now_us)
        accepted = []
        for publication in publications:
            if publication.publisher != client:
                owner = publication.publisher
                reason = f"publication {publication.sequence} belongs to {owner}, not to {client}"
                out.append(Notify(client, Rejected(reason)))
                continue
            message_id = MessageId(self._node.broker, client, number)
            accepted.append(RoutedPublication(publication, message_id))
            number += 1
        self._numbers[client] = number
        return accepted

    # --- messages -----------------------------------------------------------------------------

    def receive(self, sender: BrokerId, message: Message, now_us: int, out: list[Effect]) -> bool:
        """Whether the message is one for dispatchers."""
        self.outbox.heard(sender, now_us)
        match message:
            case Matched(found):
                self.home.matched(found, now_us, out)
            case Results(results):
                self.outbox.matched(sender, results, now_us, out)
            case Answer():
                self.outbox.answered(message, out)
            case Receipt(message_ids):
                self.outbox.receipt(sender, message_ids, out)
            case NotServed(message_ids, member):
                self._node.learn((member,), now_us, out)
                self.outbox.not_served(sender, message_ids, now_us, out)
            case LoadReport():
                self.outbox.load_reported(sender, message, now_us)
            case Stored():
                self.home.stored(sender, message, out)
            case Fetch(dimension, segment, number, True):
                rows = self.home.fetch(message)
                for part in in_messages(dimension, segment, rows, number):
                    self._node.send(sender, part, now_us, out)
            case Hello():
                self._greeting[sender] = None
                self._greet(now_us, out)
            case Join(dimensions):
                self._joining(sender, dimensions, now_us, out)
            case _:
                return False
        return True

    def news(self, sender: BrokerId, message: News, now_us: int, out: list[Effect]) -> None:
        """A table that was pulled, or what a matcher announces."""
        self._node.learn(message.members, now_us, out)
        self._told(sender, now_us, out)

    # --- starting and joining -----------------------------------------------------------------

    def _told(self, matcher: BrokerId, now_us: int, out: list[Effect]) -> None:
        """This expected matcher has said what it knows, or is not there."""
        self._untold.pop(matcher, None)
        self._greet(now_us, out)

    def _greet(self, now_us: int, out: list[Effect]) -> None:
        """Answer the matchers that start, once all is known that there is to know."""
        if self._untold or not self._greeting:
            return
        members = tuple(self._node.table.members.values())
        for matcher in self._greeting:
            known = self._node.table.members.get(matcher)
            is_first = known is not None and known.generation == 0 and known.status is Status.ALIVE
            self._node.send(matcher, Welcome(is_first, members), now_us, out)
        self._greeting.clear()

    def _joining(
        self, joiner: BrokerId, dimensions: tuple[int, ...], now_us: int, out: list[Effect]
    ) -> None:
        """Let a joiner in, at once or when one is needed."""
        if not self._is_first():
            return
        if self._controller is not None and joiner not in self._admitted and self._has_enough():
            self._ready_us[joiner] = now_us
            return
        self._admit(joiner, dimensions, now_us, out)

    def _has_enough(self) -> bool:
        """At least one matcher serves; another is a matter of load."""
        return any(any(member.segments) for member in self._node.table.serving())

    def _admit(
        self, joiner: BrokerId, dimensions: tuple[int, ...], now_us: int, out: list[Effect]
    ) -> None:
        table = self._node.table
        wanted = [number for number in dimensions if 0 <= number < len(self._node.dimensions)]
        found = donors(table, self.outbox.loads, wanted, joiner)
        self._node.send(joiner, Donors(found, tuple(table.members.values())), now_us, out)

    def _is_first(self) -> bool:
        """Whether this dispatcher is the first that is there."""
        there = (name for name in self._node.dispatchers if name not in self._node.lost)
        return min(there, default=self._node.broker) == self._node.broker

    def _scale(self, now_us: int, out: list[Effect]) -> None:
        """Add or remove a matcher when the controller says so."""
        if self._controller is None or not self._is_first():
            return
        node, known = self._node, self.outbox.utilisations
        serving = {
            member.broker: known[member.broker]
            for member in node.table.serving()
            if any(member.segments) and member.broker in known and member.broker not in node.lost
        }
        decision = self._controller.decide(serving, now_us)
        if decision is None:
            return
        matcher = None
        if decision is Scale.ADD:
            recent_us = now_us - ROUNDS_READY * node.parameters.gossip_interval_us
            ready = sorted(name for name, at_us in self._ready_us.items() if at_us >= recent_us)
            if ready:
                matcher = ready[0]
                del self._ready_us[matcher]
                self._admitted.add(matcher)
                self._admit(matcher, tuple(range(len(node.dimensions))), now_us, out)
        else:
            matcher = min(serving, key=lambda name: (serving[name], name))
            self._admitted.discard(matcher)
            node.send(matcher, Leave(stay_ready=True), now_us, out)
        record = ScaleRecord(
            dispatcher=node.broker, action=decision.value, matcher=matcher, at_us=now_us
        )
        out.append(Record(record))

    # --- time and links -----------------------------------------------------------------------

    def tick(self, now_us: int, out: list[Effect]) -> None:
        """Send again what is overdue, and pull a table when it is time or something is missing."""
        node = self._node
        out.append(SetTimer(("tick",), now_us + node.parameters.tick_us))
        is_missing = self.home.tick(now_us, out)
        is_missing = self.outbox.tick(now_us, out) or is_missing
        age_us = now_us - self._pulled_us
        if age_us >= node.parameters.pull_interval_us or (is_missing and age_us >= LEAST_PULL_US):
            self._pull(now_us, out)
        self._scale(now_us, out)

    def _pull(self, now_us: int, out: list[Effect]) -> None:
        node = self._node
        self._pulled_us = now_us
        serving = [member.broker for member in node.table.serving()]
        there = [name for name in serving or sorted(node.expected) if name not in node.lost]
        others = [name for name in there or node.expected if name != node.broker]
        if others:
            node.send(node.random.choice(others), Pull(), now_us, out)
        for dispatcher in node.dispatchers:
            if dispatcher in node.lost:  # whoever lives goes on being a home
                node.open(dispatcher, now_us, out)

    def link(self, broker: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        if up:
            self.outbox.link_up(broker, now_us, out)
            return
        self._greeting.pop(broker, None)
        self.outbox.link_down(broker, now_us, out)
        self._told(broker, now_us, out)

    def given_up(self, broker: BrokerId, out: list[Effect]) -> None:
        """A dispatcher has been away for too long."""
        self.outbox.given_up(broker, out)
