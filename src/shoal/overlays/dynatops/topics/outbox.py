"""Outbox of an entry: publications in transit, kept until all homes have acknowledged them.

A publisher's publications wait in a line. The first run with one root is sent together; those over
another root wait until all before them have arrived, so that none is overtaken. If the waiting ones
go over several roots and homes can order them, all are sent at once (`turns.py`). With order by
topic, a line is of one topic, and so of one root. Homes acknowledge arrivals. In a new view all
that is left is retransmitted, in its order; homes have deduplication windows.
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
from shoal.overlays.dynatops.messages import EntryBound, PublicationArrived
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.turns import PublisherTurns
from shoal.overlays.dynatops.view import Age

# Publications in one message; more travel in several.
PER_MESSAGE = 512
# The most publications of one publisher that wait at homes until their turn.
WINDOW = 1_024

Line = tuple[ClientId, str | None]
Number = tuple[ClientId, int]


class _PublishRequest:
    """A client's request of several publications; `left` have not arrived."""

    __slots__ = ("key", "left")

    def __init__(self, key: Key, left: int) -> None:
        self.key = key
        self.left = left


class _PendingPublication:
    """A publication in transit; `homes` have it, in this view.

    `first_view` is the earlier view in which it was first sent, if it was.
    """

    __slots__ = ("first_view", "homes", "key", "line", "request", "routed")

    def __init__(
        self, routed: RoutedPublication, key: str | None, line: Line, request: _PublishRequest
    ) -> None:
        self.routed = routed
        self.key = key
        self.line = line
        self.request = request
        self.homes: set[BrokerId] = set()
        self.first_view: Age | None = None


class _OutboxLine:
    """`sent` are in transit, over `root` or, if `turns`, with turns; `waiting` comes behind that.

    In turn, the last `same` of them went over `root`.
    """

    __slots__ = ("root", "same", "sent", "turns", "waiting")

    def __init__(self) -> None:
        self.root: BrokerId = ""
        self.same = 0
        self.sent: dict[Number, _PendingPublication] = {}
        self.turns: PublisherTurns | None = None
        self.waiting: deque[_PendingPublication] = deque()


class TopicBatch(NamedTuple):
    """Publications to one root, with the earlier view in which they were first sent, if any."""

    root: BrokerId
    publications: tuple[RoutedPublication, ...]
    first_view: Age | None
    in_turn: bool = False


class TakesTurns(Protocol):
    """Interface to homes that order publications."""

    @property
    def take_turns(self) -> bool:
        """Whether all homes are known."""

    def send_turn(
        self, home: BrokerId, publisher: ClientId, numbers: tuple[int, ...], out: list[Effect]
    ) -> None:
        """Send a home the numbers of the next publications."""


class TopicOutbox:
    """The outbox of one broker.

    `topic` is the attribute that names it; with `is_by_topic` order is kept by topic only.
    `root_of` gives the broker responsible for a topic now, "" if there is none; `send` takes
    publications there. Without `homes` nothing waits at homes: there is one root for all.
    """

    def __init__(
        self,
        topic: str,
        is_by_topic: bool,
        root_of: Callable[[str | None], BrokerId],
        send: Callable[[TopicBatch, list[Effect]], None],
        homes: TakesTurns | None = None,
    ) -> None:
        self._topic = topic
        self._is_by_topic = is_by_topic
        self._root_of = root_of
        self._send = send
        self._homes = homes
        self._requests = 0
        self._lines: dict[Line, _OutboxLine] = {}
        self._pending: dict[Number, _PendingPublication] = {}
        self._due: OrderedDict[Line, None] = OrderedDict()
        self._is_sending = False

    def __len__(self) -> int:
        return len(self._pending)

    def publish(self, publications: tuple[RoutedPublication, ...], out: list[Effect]) -> None:
        """Accept publications, in their publisher's order; they are settled together."""
        if not publications:
            return
        self._requests += 1
        request = _PublishRequest(("publications", str(self._requests)), len(publications))
        out.append(Unsettled(request.key))
        for routed in publications:
            key = key_of(routed.publication.attributes, self._topic)
            line = (routed.message_id.publisher, key if self._is_by_topic else None)
            pending = _PendingPublication(routed, key, line, request)
            self._pending[number_of(routed)] = pending
            self._lines.setdefault(line, _OutboxLine()).waiting.append(pending)
            self._due[line] = None
        self._send_due(out)

    def begin(
        self,
        former: Age,
        again: Callable[[RoutedPublication], RoutedPublication],
        out: list[Effect],
    ) -> None:
        """In a new view: send all that is left, with the former view if it was sent in that."""
        for name, line in self._lines.items():
            for pending in line.sent.values():
                pending.routed = again(pending.routed)
                pending.first_view = pending.first_view or former
                pending.homes.clear()
            line.waiting.extendleft(reversed(line.sent.values()))
            line.sent.clear()
            line.turns = None
            self._due[name] = None
        self._send_due(out)

    def look(self, out: list[Effect]) -> None:
        """Send publications that could not be sent before."""
        self._due.update(dict.fromkeys(self._lines))
        self._send_due(out)

    def arrived(self, message: PublicationArrived, out: list[Effect]) -> None:
        """Publications have arrived at a home, or have no homes."""
        for number in message.numbers:
            pending = self._pending.get(number)
            if pending is None:
                continue
            if message.total:
                pending.homes.add(message.home)
            if not message.total:
                self._found(pending.line, [number[1]], (), out)
            if len(pending.homes) >= message.total:
                self._settle_number(number, pending, out)
        self._send_due(out)

    def bound(self, message: EntryBound, out: list[Effect]) -> None:
        """A root has named the homes of publications that wait there until their turn."""
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
        # Arrivals here let more go, for which no turn must be sent meanwhile.
        was_sending, self._is_sending = self._is_sending, True
        for home, due in line.turns.due().items():
            self._homes.send_turn(home, name[0], tuple(due), out)
        self._is_sending = was_sending

    def _settle_number(
        self, number: Number, pending: _PendingPublication, out: list[Effect]
    ) -> None:
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
        """Send publications that may go; immediate arrivals let more go."""
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

    def _next_batches(self, line: _OutboxLine) -> list[TopicBatch]:
        """The next of a line that may go, by root; none if they have to wait."""
        if not line.sent:
            line.turns = PublisherTurns() if self._goes_in_turn(line) else None
            line.same = 0
        if line.turns is not None:
            return self._next_in_turn(line, line.turns)
        batch = self._next_over_one_root(line)
        return _batches([(line.root, each) for each in batch]) if batch else []

    def _next_over_one_root(self, line: _OutboxLine) -> list[_PendingPublication]:
        batch: list[_PendingPublication] = []
        while line.waiting and len(batch) < PER_MESSAGE:
            pending = line.waiting[0]
            root = self._root_of(pending.key)
            if not root or (line.sent and root != line.root):
                break
            if batch and pending.first_view != batch[0].first_view:
                break
            line.root = root
            line.sent[number_of(pending.routed)] = pending
            batch.append(line.waiting.popleft())
        return batch

    def _goes_in_turn(self, line: _OutboxLine) -> bool:
        """Whether the waiting ones go over several roots, and their homes can order them."""
        if self._homes is None or not self._homes.take_turns:
            return False
        return len({self._root_of(each.key) for each in islice(line.waiting, WINDOW)}) > 1

    def _next_in_turn(self, line: _OutboxLine, turns: PublisherTurns) -> list[TopicBatch]:
        """As many as homes have room for; those over one root alone need no turns."""
        batch: list[tuple[BrokerId, _PendingPublication]] = []
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


def _batches(
    pending: Iterable[tuple[BrokerId, _PendingPublication]], *, in_turn: bool = False
) -> list[TopicBatch]:
    """By root, with retransmissions apart, by the view in which they were first sent."""
    found: dict[tuple[BrokerId, Age | None], list[RoutedPublication]] = {}
    for root, each in pending:
        found.setdefault((root, each.first_view), []).append(each.routed)
    return [
        TopicBatch(root, tuple(publications[start : start + PER_MESSAGE]), first_view, in_turn)
        for (root, first_view), publications in found.items()
        for start in range(0, len(publications), PER_MESSAGE)
    ]


def number_of(routed: RoutedPublication) -> Number:
    """A publication's number at its entry."""
    return routed.message_id.publisher, routed.message_id.number


def runs(
    homes: Iterable[tuple[RoutedPublication, tuple[BrokerId, ...]]],
) -> list[tuple[list[RoutedPublication], tuple[BrokerId, ...]]]:
    """Runs of consecutive publications with the same homes.

    They keep the order of publications to each home.
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
    """All publications with the same homes, together."""
    found: dict[tuple[BrokerId, ...], list[RoutedPublication]] = {}
    for routed, targets in homes:
        found.setdefault(targets, []).append(routed)
    return [(publications, targets) for targets, publications in found.items()]
