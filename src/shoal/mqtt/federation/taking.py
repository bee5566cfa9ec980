"""What members of groups have at one broker, for who asks again (see `sharing`).

A broker that hands a message on may ask more than once: for an answer that is under way, or when
one of the two was killed.  What was answered is therefore on the disk, until the broker that asks
has said that it will not ask about that any more: its publications have ascending numbers, and it
says from which on some may be `open`.  What waits in a member's session says nothing: it may be for
another of its groups, or for itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush

from shoal.ledger import Ledger, Measure
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import GroupName
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import AnswerPut, ClosedPut

# Answers that are remembered, of all brokers together; the oldest go first.
MAX_REMEMBERED = 65_536
ANSWER_BYTES = 500

Key = tuple[str, int]
# Who asks, about which message for which group; whether any member would do.
_Asked = tuple[BrokerId, Key, GroupName, bool]


class Taking:
    """What was taken here, and what was not; `journal` is told if there is one."""

    def __init__(self) -> None:
        self.journal: Journal | None = None
        # What was answered, oldest first.  Whoever has been told that there is nobody has chosen
        # somebody else by then: what was not taken is not taken when the question comes again.
        self._answers: OrderedDict[_Asked, bool] = OrderedDict()
        # The same by who asks, lowest numbers first; some may be forgotten.
        self._by_number: dict[BrokerId, list[tuple[int, _Asked]]] = {}
        # From which number on each broker may ask.
        self._open_from: dict[BrokerId, int] = {}

    def register(self, ledger: Ledger) -> None:
        ledger.register(
            "answers for groups",
            lambda: Measure(len(self._answers), len(self._answers) * ANSWER_BYTES, MAX_REMEMBERED),
        )

    def answer(self, asking: BrokerId, key: Key, name: GroupName, *, is_any: bool) -> bool | None:
        """Whether a member has it, as was said before; None if nothing was."""
        if key[1] < self._open_from.get(asking, 0):
            return True
        answers = self._answers
        if answers.get((asking, key, name, True)) or answers.get((asking, key, name, False)):
            return True
        return answers.get((asking, key, name, is_any))

    def answered(
        self, asking: BrokerId, key: Key, name: GroupName, *, is_any: bool, took: bool
    ) -> None:
        """A member has it, or nobody has and nobody will."""
        self._keep((asking, key, name, is_any), took)
        if self.journal is not None:
            self.journal.group(AnswerPut(asking, key, name, is_any, took))

    def _keep(self, asked: _Asked, took: bool) -> None:
        asking, (_, number), *_ = asked
        self._answers[asked] = took
        numbers = self._by_number.setdefault(asking, [])
        heappush(numbers, (number, asked))
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        if len(numbers) > 2 * MAX_REMEMBERED:
            numbers[:] = sorted((each[1][1], each) for each in self._answers if each[0] == asking)

    def close(self, asking: BrokerId, open_from: int) -> None:
        """A broker will not ask about what has a lower number any more."""
        if self._close(asking, open_from) and self.journal is not None:
            self.journal.group(ClosedPut(asking, open_from))

    def _close(self, asking: BrokerId, open_from: int) -> bool:
        """Whether something is forgotten by that."""
        if open_from <= self._open_from.get(asking, 0):
            return False
        self._open_from[asking] = open_from
        numbers = self._by_number.get(asking, [])
        is_news = bool(numbers) and numbers[0][0] < open_from
        while numbers and numbers[0][0] < open_from:
            self._answers.pop(heappop(numbers)[1], None)
        return is_news

    def restore(self, put: AnswerPut | ClosedPut) -> None:
        """What was known when the broker stopped."""
        match put:
            case AnswerPut(asking, key, group, is_any, took):
                self._keep((asking, key, group, is_any), took)
            case ClosedPut(asking, open_from):
                self._close(asking, open_from)

    def puts(self) -> Iterator[AnswerPut | ClosedPut]:
        """All that is to be known after the next start; meanwhile more may come."""
        for asking, open_from in tuple(self._open_from.items()):
            yield ClosedPut(asking, open_from)
        for asked in tuple(self._answers):
            if asked in self._answers:
                yield AnswerPut(*asked, self._answers[asked])
