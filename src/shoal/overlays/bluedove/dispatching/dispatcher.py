"""The dispatcher: front end of clients' requests, and of deliveries to them.

It keeps its member table from matchers' announcements and by pulling one from a random matcher now
and then. Until it has heard from every expected matcher that is there, it admits none: a restarted
one must not take segments that others serve. The first connected dispatcher (by name) admits
joiners and, if that is configured, decides on the number of matchers (`scaling.py`).
"""

from __future__ import annotations

from shoal.broker.ack_tracker import is_assured
from shoal.broker.effects import Effect, Notify, SetTimer
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
from shoal.overlays.bluedove.cluster.planner import donors
from shoal.overlays.bluedove.dispatching.home import SubscriberEdge
from shoal.overlays.bluedove.dispatching.outbox import DispatchOutbox
from shoal.overlays.bluedove.dispatching.scaling import Scaling
from shoal.overlays.bluedove.messages import (
    Donors,
    Fetch,
    GossipNews,
    JoinAnswer,
    JoinCluster,
    LoadReport,
    MailboxOpened,
    MatchAnswer,
    Matched,
    MatcherStays,
    MatchResults,
    MemberHello,
    NotServed,
    OpenMailbox,
    Poll,
    Pull,
    Receipt,
    Stored,
    in_messages,
)
from shoal.overlays.bluedove.node import BlueDoveNode

# The most kept publications; beyond it, when matchers are far behind or absent, publishers are
# refused, so that no accepted one is dropped. Matchers' queues hold no more than this for each
# dispatcher.
MAX_KEPT = 1_000_000
# A table is not pulled more often than this, however much is missing.
LEAST_PULL_US = 500_000


class Dispatcher:
    """The inputs of one dispatcher."""

    def __init__(self, node: BlueDoveNode) -> None:
        self._node = node
        self.home = SubscriberEdge(node)
        self.outbox = DispatchOutbox(node)
        # The number of each client's next publication, unless the time is higher by then; and the
        # highest of former clients: one of them may connect again at once.
        self._numbers: dict[ClientId, int] = {}
        self._unused_number = 0
        self._untold = dict.fromkeys(name for name in node.expected if name != node.broker)
        self._greeting: dict[BrokerId, None] = {}
        self._pulled_us = 0
        # Decides on the number of matchers, if that is configured.
        self.scaling = (
            Scaling(node, self.outbox.utilisations, self._admit_wholly)
            if node.parameters.elastic
            else None
        )

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
                # The number of assured ones is bounded by clients' receive maximum.
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
        """Number a client's publications; those of other publishers are refused one by one.

        Numbers start at the time, so that a restarted dispatcher never reuses one.
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
        """Handle a message; False if it is none for dispatchers."""
        self.outbox.on_news(sender, now_us)
        match message:
            case Matched(found):
                self.home.matched(found, now_us, out)
            case MatchResults(results):
                self.outbox.matched(sender, results, now_us, out)
            case MatchAnswer():
                self.outbox.on_answer(message, now_us, out)
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
            case MemberHello():
                self._greeting[sender] = None
                self._greet(now_us, out)
            case MatcherStays(reason):
                if self.scaling is not None:
                    self.scaling.stays(sender, reason)
            case JoinCluster(dimensions):
                self._joining(sender, dimensions, now_us, out)
            case _:
                return False
        return True

    def news(self, sender: BrokerId, message: GossipNews, now_us: int, out: list[Effect]) -> None:
        """A pulled table, or a matcher's announcement."""
        self._node.learn(message.members, now_us, out)
        self._on_table(sender, now_us, out)

    # --- starting and joining -----------------------------------------------------------------

    def _on_table(self, matcher: BrokerId, now_us: int, out: list[Effect]) -> None:
        """This expected matcher has sent its table, or is not there."""
        self._untold.pop(matcher, None)
        self._greet(now_us, out)

    def _greet(self, now_us: int, out: list[Effect]) -> None:
        """Answer the starting matchers, once the table is complete."""
        if self._untold or not self._greeting:
            return
        members = tuple(self._node.table.members.values())
        for matcher in self._greeting:
            known = self._node.table.members.get(matcher)
            is_first = known is not None and known.generation == 0 and known.status is Status.ALIVE
            self._node.send(matcher, JoinAnswer(is_first, members), now_us, out)
        self._greeting.clear()

    def _joining(
        self, joiner: BrokerId, dimensions: tuple[int, ...], now_us: int, out: list[Effect]
    ) -> None:
        """Admit a joiner, at once or when one is needed."""
        scaling = self.scaling
        if not self.is_first and not (scaling is not None and scaling.is_awaited(joiner)):
            return
        if scaling is None or scaling.admits(joiner, now_us):
            self._admit(joiner, dimensions, now_us, out)

    def _admit_wholly(self, joiner: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._admit(joiner, tuple(range(len(self._node.dimensions))), now_us, out)

    def _admit(
        self, joiner: BrokerId, dimensions: tuple[int, ...], now_us: int, out: list[Effect]
    ) -> None:
        table = self._node.table
        wanted = [number for number in dimensions if 0 <= number < len(self._node.dimensions)]
        found = donors(table, self.outbox.loads, wanted, joiner)
        self._node.send(joiner, Donors(found, tuple(table.members.values())), now_us, out)

    @property
    def is_first(self) -> bool:
        """Whether this dispatcher is the first connected one."""
        there = (name for name in self._node.dispatchers if name not in self._node.lost)
        return min(there, default=self._node.broker) == self._node.broker

    # --- time and links -----------------------------------------------------------------------

    def tick(self, now_us: int, out: list[Effect]) -> None:
        """Retransmit overdue publications, and pull a table if it is time or something is
        missing.
        """
        node = self._node
        out.append(SetTimer(("tick",), now_us + node.parameters.tick_us))
        is_missing = self.home.tick(now_us, out)
        is_missing = self.outbox.tick(now_us, out) or is_missing
        age_us = now_us - self._pulled_us
        if age_us >= node.parameters.pull_interval_us or (is_missing and age_us >= LEAST_PULL_US):
            self._pull(now_us, out)
        if self.scaling is not None:
            self.scaling.tick(now_us, out, is_first=self.is_first)

    def _pull(self, now_us: int, out: list[Effect]) -> None:
        node = self._node
        self._pulled_us = now_us
        serving = [member.broker for member in node.table.serving()]
        there = [name for name in serving or sorted(node.expected) if name not in node.lost]
        others = [name for name in there or node.expected if name != node.broker]
        if others:
            node.send(node.random.choice(others), Pull(), now_us, out)
        for dispatcher in node.dispatchers:
            if dispatcher in node.lost:  # a live dispatcher keeps its subscribers
                node.open(dispatcher, now_us, out)

    def link(self, broker: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        if up:
            self.outbox.link_up(broker, now_us, out)
            return
        self._greeting.pop(broker, None)
        self.outbox.link_down(broker, now_us, out)
        self._on_table(broker, now_us, out)

    def given_up(self, broker: BrokerId, out: list[Effect]) -> None:
        """A dispatcher is declared dead."""
        self.outbox.given_up(broker, out)
