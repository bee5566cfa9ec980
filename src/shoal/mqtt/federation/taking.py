"""Answers to other brokers about messages for groups, for repeated questions (see `sharing`).

The publisher's broker may ask more than once: because an answer is under way, or because one of the
two was killed. Answers are therefore on the disk, until the asking broker has announced that it
will not ask about them any more: its publications have ascending numbers, and it announces from
which number on questions may be `open`. The queue of a member's session does not answer: a message
there may be for another of its groups, or for itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush

from shoal.ledger import Ledger, LedgerMeasure
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import GroupName
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import AnswerPut, ClosedPut

# Answers kept for all brokers together; the oldest are dropped.
MAX_REMEMBERED = 65_536
ANSWER_BYTES = 500

Key = tuple[str, int]
# The asking broker, the message, the group, and whether any member would do.
_Asked = tuple[BrokerId, Key, GroupName, bool]


class Taking:
    """The answers of one broker; `journal` records them if there is one."""

    def __init__(self) -> None:
        self.journal: SessionJournal | None = None
        # Answers, oldest first. After a negative answer the asking broker chooses another: the
        # answer to a repeated question stays negative.
        self._answers: OrderedDict[_Asked, bool] = OrderedDict()
        # The same by asking broker, lowest numbers first; some may be dropped already.
        self._by_number: dict[BrokerId, list[tuple[int, _Asked]]] = {}
        # The lowest number about which each broker may ask.
        self._open_from: dict[BrokerId, int] = {}

    def register(self, ledger: Ledger) -> None:
        ledger.register(
            "answers for groups",
            lambda: LedgerMeasure(
                len(self._answers), len(self._answers) * ANSWER_BYTES, MAX_REMEMBERED
            ),
        )

    def answer(self, asking: BrokerId, key: Key, name: GroupName, *, is_any: bool) -> bool | None:
        """The earlier answer, whether a member has it; None without one."""
        if key[1] < self._open_from.get(asking, 0):
            return True
        answers = self._answers
        if answers.get((asking, key, name, True)) or answers.get((asking, key, name, False)):
            return True
        return answers.get((asking, key, name, is_any))

    def answered(
        self, asking: BrokerId, key: Key, name: GroupName, *, is_any: bool, took: bool
    ) -> None:
        """Record an answer."""
        self._keep_answer((asking, key, name, is_any), took)
        if self.journal is not None:
            self.journal.group(AnswerPut(asking, key, name, is_any, took))

    def _keep_answer(self, asked: _Asked, took: bool) -> None:
        asking, (_, number), *_ = asked
        self._answers[asked] = took
        numbers = self._by_number.setdefault(asking, [])
        heappush(numbers, (number, asked))
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        if len(numbers) > 2 * MAX_REMEMBERED:
            numbers[:] = sorted((each[1][1], each) for each in self._answers if each[0] == asking)

    def close(self, asking: BrokerId, open_from: int) -> None:
        """Handle an announcement: a broker will not ask about lower numbers any more."""
        if self._close(asking, open_from) and self.journal is not None:
            self.journal.group(ClosedPut(asking, open_from))

    def _close(self, asking: BrokerId, open_from: int) -> bool:
        """Drop answers; returns whether there were any."""
        if open_from <= self._open_from.get(asking, 0):
            return False
        self._open_from[asking] = open_from
        numbers = self._by_number.get(asking, [])
        is_news = bool(numbers) and numbers[0][0] < open_from
        while numbers and numbers[0][0] < open_from:
            self._answers.pop(heappop(numbers)[1], None)
        return is_news

    def restore(self, put: AnswerPut | ClosedPut) -> None:
        """Restore an answer after a restart."""
        match put:
            case AnswerPut(asking, key, group, is_any, took):
                self._keep_answer((asking, key, group, is_any), took)
            case ClosedPut(asking, open_from):
                self._close(asking, open_from)

    def puts(self) -> Iterator[AnswerPut | ClosedPut]:
        """All answers, for the journal; they may change between two steps."""
        for asking, open_from in tuple(self._open_from.items()):
            yield ClosedPut(asking, open_from)
        for asked in tuple(self._answers):
            if asked in self._answers:
                yield AnswerPut(*asked, self._answers[asked])
