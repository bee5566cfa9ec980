"""An entry's publications on their way: kept until they have arrived at all who want them.

A publisher's wait in a line.  The first of them go to their root together; what goes over another
root waits until all before it has arrived, so that nothing is overtaken.  Where those that wait
go over several roots, all go at once, and their homes let them wait for their turn (`turns.py`).
Where order is kept by topic, a line is of one topic, and so of one root.  Homes say what has
arrived.  In a new view all that is left is sent again, in its order; homes know what they have had.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, Protocol

from shoal.broker.effects import Effect, Key, Settled, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.messages import Arrived, Bound
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.turns import Turns

# Publications in one message; more travel in several.
PER_MESSAGE = 512
# Publications of one publisher that wait at homes for their turn.
WINDOW = 1_024

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
    """`sent` is under way, over `root` or, if `turns`, in turn; `waiting` comes behind that.

    In turn, the last `same` of them went over `root`.
    """

    __slots__ = ("root", "same", "sent", "turns", "waiting")

    def __init__(self) -> None:
        self.root: BrokerId = ""
        self.same = 0
        self.sent: dict[Number, _Pending] = {}
        self.turns: Turns | None = None
        self.waiting: deque[_Pending] = deque()


class Batch(NamedTuple):
    """What goes to one root: `again` if it may have arrived in an earlier view."""

    root: BrokerId
    publications: tuple[RoutedPublication, ...]
    again: bool
    in_turn: bool = False


class TakesTurns(Protocol):
    """How homes let publications wait for their turn."""

    @property
    def take_turns(self) -> bool:
        """Whether all homes are known."""

    def say_turn(
        self, home: BrokerId, publisher: ClientId, numbers: tuple[int, ...], out: list[Effect]
    ) -> None:
        """Tell a home which publications are next."""


class Outbox:
    """At one broker.

    `topic` is the attribute that names it; with `is_by_topic` order is kept by topic only.
    `root_of` says which broker is responsible for a topic now, "" if nobody can be; `send` takes
    publications there.  Without `homes` nothing waits at homes: there is one root for all.
    """

    def __init__(
        self,
        topic: str,
        is_by_topic: bool,
        root_of: Callable[[str | None], BrokerId],
        send: Callable[[Batch, list[Effect]], None],
        homes: TakesTurns | None = None,
    ) -> None:
        self._topic = topic
        self._is_by_topic = is_by_topic
        self._root_of = root_of
        self._send = send
        self._homes = homes
        self._requests = 0
        self._lines: dict[Line, _Line] = {}
        self._pending: dict[Number, _Pending] = {}
        self._due: OrderedDict[Line, None] = OrderedDict()
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
            self._pending[number_of(routed)] = pending
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
            line.turns = None
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
            if not message.total:
                self._found(pending.line, [number[1]], (), out)
            if len(pending.homes) >= message.total:
                self._done(number, pending, out)
        self._send_due(out)

    def bound(self, message: Bound, out: list[Effect]) -> None:
        """A root says where publications go that wait there for their turn."""
        for homes, numbers in ((each.homes, each.numbers) for each in message.found):
            for publisher, some in groupby(numbers, itemgetter(0)):
                self._found((publisher, None), [number for _, number in some], homes, out)
        self._send_due(out)

    def _found(
        self,
        name: Line,
        numbers: Iterable[int],
        homes: tuple[BrokerId, ...],
        out: list[Effect],
    ) -> None:
        line = self._lines.get(name)
        if line is None or line.turns is None or self._homes is None:
            return
        line.turns.found(numbers, homes)
        # What arrives here by that lets more go, whose turn must not be said meanwhile.
        was_sending, self._is_sending = self._is_sending, True
        for home, due in line.turns.due().items():
            self._homes.say_turn(home, name[0], tuple(due), out)
        self._is_sending = was_sending

    def _done(self, number: Number, pending: _Pending, out: list[Effect]) -> None:
        del self._pending[number]
        line = self._lines[pending.line]
        del line.sent[number]
        if not line.sent or line.turns is not None:
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
            name, _ = self._due.popitem(last=False)
            line = self._lines.get(name)
            if line is None:
                continue
            while batches := self._next_batches(line):
                for batch in batches:
                    self._send(batch, out)
            if not line.waiting and not line.sent:
                del self._lines[name]
        self._is_sending = False

    def _next_batches(self, line: _Line) -> list[Batch]:
        """The next of a line that may go, by root; none if they have to wait."""
        if not line.sent:
            line.turns = Turns() if self._goes_in_turn(line) else None
            line.same = 0
        if line.turns is not None:
            return self._next_in_turn(line, line.turns)
        batch = self._next_over_one_root(line)
        return _batches([(line.root, each) for each in batch]) if batch else []

    def _next_over_one_root(self, line: _Line) -> list[_Pending]:
        batch: list[_Pending] = []
        while line.waiting and len(batch) < PER_MESSAGE:
            pending = line.waiting[0]
            root = self._root_of(pending.key)
            if not root or (line.sent and root != line.root):
                break
            if batch and pending.has_been_sent != batch[0].has_been_sent:
                break
            line.root = root
            line.sent[number_of(pending.routed)] = pending
            batch.append(line.waiting.popleft())
        return batch

    def _goes_in_turn(self, line: _Line) -> bool:
        """Whether those that wait go over several roots, and their homes can let them wait."""
        if self._homes is None or not self._homes.take_turns:
            return False
        return len({self._root_of(each.key) for each in islice(line.waiting, WINDOW)}) > 1

    def _next_in_turn(self, line: _Line, turns: Turns) -> list[Batch]:
        """So many that homes have room for; those over one root alone need not take turns."""
        batch: list[tuple[BrokerId, _Pending]] = []
        while line.waiting and len(line.sent) < WINDOW and line.same < WINDOW:
            pending = line.waiting[0]
            root = self._root_of(pending.key)
            if not root:
                break
            line.waiting.popleft()
            line.same = line.same + 1 if root == line.root else 1
            line.root = root
            line.sent[number_of(pending.routed)] = pending
            batch.append((root, pending))
        turns.sent(each.routed.message_id.number for _, each in batch)
        return _batches(batch, in_turn=True)


def _batches(pending: Iterable[tuple[BrokerId, _Pending]], *, in_turn: bool = False) -> list[Batch]:
    """By root, and apart what has been sent before."""
    found: dict[tuple[BrokerId, bool], list[RoutedPublication]] = {}
    for root, each in pending:
        found.setdefault((root, each.has_been_sent), []).append(each.routed)
        each.has_been_sent = True
    return [
        Batch(root, tuple(publications[start : start + PER_MESSAGE]), again, in_turn)
        for (root, again), publications in found.items()
        for start in range(0, len(publications), PER_MESSAGE)
    ]


def number_of(routed: RoutedPublication) -> Number:
    """What a publication is known by at its entry."""
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


def alike(
    homes: Iterable[tuple[RoutedPublication, tuple[BrokerId, ...]]],
) -> list[tuple[list[RoutedPublication], tuple[BrokerId, ...]]]:
    """All publications that go to the same homes, together."""
    found: dict[tuple[BrokerId, ...], list[RoutedPublication]] = {}
    for routed, targets in homes:
        found.setdefault(targets, []).append(routed)
    return [(publications, targets) for targets, publications in found.items()]
