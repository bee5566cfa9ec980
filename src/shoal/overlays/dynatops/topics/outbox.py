"""An entry's publications on their way: kept until they have arrived at all who want them.

A publisher's wait in a line.  The first of them go to their root together; what goes over another
root waits until all before it has arrived, so that nothing is overtaken (where order is kept by
topic, a line is of one topic, and so of one root).  Homes say what has arrived.  In a new view all
that is left is sent again, in its order; homes know what they have had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from shoal.broker.effects import Effect, Key, Settled, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.messages import Arrived
from shoal.overlays.dynatops.topics.keys import key_of

# Publications in one message; more travel in several.
PER_MESSAGE = 512

Line = tuple[ClientId, str | None]
Number = tuple[ClientId, int]


class _Request:
    """What a client has published together; `left` have not arrived."""

    __slots__ = ("key", "left")

    def __init__(self, key: Key, left: int) -> None:
        self.key = key
        self.left = left


class _Pending:
    """A publication on its way; `homes` have it, in this view."""

    __slots__ = ("has_been_sent", "homes", "key", "line", "request", "routed")

    def __init__(
        self, routed: RoutedPublication, key: str | None, line: Line, request: _Request
    ) -> None:
        self.routed = routed
        self.key = key
        self.line = line
        self.request = request
        self.homes: set[BrokerId] = set()
        self.has_been_sent = False


class _Line:
    """`sent` is under way over `root`; `waiting` comes behind that."""

    __slots__ = ("root", "sent", "waiting")

    def __init__(self) -> None:
        self.root: BrokerId = ""
        self.sent: dict[Number, _Pending] = {}
        self.waiting: deque[_Pending] = deque()


class Outbox:
    """At one broker.

    `topic` is the attribute that names it; with `is_by_topic` order is kept by topic only.
    `root_of` says which broker is responsible for a topic now, "" if nobody can be; `send` takes
    publications to such a broker, which is the same for all of them.
    """

    def __init__(
        self,
        topic: str,
        is_by_topic: bool,
        root_of: Callable[[str | None], BrokerId],
        send: Callable[[BrokerId, tuple[RoutedPublication, ...], bool, list[Effect]], None],
    ) -> None:
        self._topic = topic
        self._is_by_topic = is_by_topic
        self._root_of = root_of
        self._send = send
        self._requests = 0
        self._lines: dict[Line, _Line] = {}
        self._pending: dict[Number, _Pending] = {}
        self._due: dict[Line, None] = {}
        self._is_sending = False

    def __len__(self) -> int:
        return len(self._pending)

    def publish(self, publications: tuple[RoutedPublication, ...], out: list[Effect]) -> None:
        """Take publications in, in their publisher's order; they are settled together."""
        if not publications:
            return
        self._requests += 1
        request = _Request(("publications", str(self._requests)), len(publications))
        out.append(Unsettled(request.key))
        for routed in publications:
            key = key_of(routed.publication.attributes, self._topic)
            line = (routed.message_id.publisher, key if self._is_by_topic else None)
            pending = _Pending(routed, key, line, request)
            self._pending[_number(routed)] = pending
            self._lines.setdefault(line, _Line()).waiting.append(pending)
            self._due[line] = None
        self._send_due(out)

    def begin(
        self, again: Callable[[RoutedPublication], RoutedPublication], out: list[Effect]
    ) -> None:
        """In a new view: send all that is left."""
        for name, line in self._lines.items():
            for pending in line.sent.values():
                pending.routed = again(pending.routed)
                pending.homes.clear()
            line.waiting.extendleft(reversed(line.sent.values()))
            line.sent.clear()
            self._due[name] = None
        self._send_due(out)

    def look(self, out: list[Effect]) -> None:
        """What could not be sent may be now."""
        self._due.update(dict.fromkeys(self._lines))
        self._send_due(out)

    def arrived(self, message: Arrived, out: list[Effect]) -> None:
        """Publications have arrived at a home, or nobody wants them."""
        for number in message.numbers:
            pending = self._pending.get(number)
            if pending is None:
                continue
            if message.total:
                pending.homes.add(message.home)
            if len(pending.homes) >= message.total:
                self._done(number, pending, out)
        self._send_due(out)

    def _done(self, number: Number, pending: _Pending, out: list[Effect]) -> None:
        del self._pending[number]
        line = self._lines[pending.line]
        del line.sent[number]
        if not line.sent:
            self._due[pending.line] = None
        pending.request.left -= 1
        if not pending.request.left:
            out.append(Settled(pending.request.key))

    # --- sending ------------------------------------------------------------------------------

    def _send_due(self, out: list[Effect]) -> None:
        """Send what may go now; what arrives at once lets more go."""
        if self._is_sending:
            return
        self._is_sending = True
        while self._due:
            name = next(iter(self._due))
            del self._due[name]
            line = self._lines.get(name)
            if line is None:
                continue
            while batch := self._next_batch(line):
                publications = tuple(each.routed for each in batch)
                self._send(line.root, publications, batch[0].has_been_sent, out)
                for each in batch:
                    each.has_been_sent = True
            if not line.waiting and not line.sent:
                del self._lines[name]
        self._is_sending = False

    def _next_batch(self, line: _Line) -> list[_Pending]:
        """The next of a line that go to one root, none if they have to wait."""
        batch: list[_Pending] = []
        while line.waiting and len(batch) < PER_MESSAGE:
            pending = line.waiting[0]
            root = self._root_of(pending.key)
            if not root or (line.sent and root != line.root):
                break
            if batch and pending.has_been_sent != batch[0].has_been_sent:
                break
            line.root = root
            line.sent[_number(pending.routed)] = pending
            batch.append(line.waiting.popleft())
        return batch


def _number(routed: RoutedPublication) -> Number:
    return routed.message_id.publisher, routed.message_id.number


def runs(
    homes: Iterable[tuple[RoutedPublication, tuple[BrokerId, ...]]],
) -> list[tuple[list[RoutedPublication], tuple[BrokerId, ...]]]:
    """Publications that follow each other and go to the same homes, together.

    Nothing changes places: what goes to one home stays in its order.
    """
    found: list[tuple[list[RoutedPublication], tuple[BrokerId, ...]]] = []
    for routed, targets in homes:
        if found and found[-1][1] == targets:
            found[-1][0].append(routed)
        else:
            found.append(([routed], targets))
    return found
