"""One broker's log, as a replay reads it: records that wait, the place behind them, a question."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.log.records import Entry, LogGap, LogRecord
from shoal.log.slices import LogPlace, LogSlice, read_answer
from shoal.model import BrokerId

# A question without an answer is repeated after this, then after twice as long, and so on; a log
# that was read to its end is asked for news after this.
AGAIN_US = 2_000_000
MOST_DOUBLED = 4
POLL_US = 50_000


class LogSource:
    """The log of `broker`, from `place` on, or from the begin of the past if it is None."""

    def __init__(self, broker: BrokerId, place: LogPlace | None, now_us: int) -> None:
        self.broker = broker
        # Behind the last record that was taken, and behind the last one that waits.
        self.place = self._end = place
        self.waiting: deque[tuple[int, Entry]] = deque()
        # No later record than those that wait is before this.
        self.until_us = -1
        # Whether the log had no more at the last answer.
        self.is_at_end = False
        # Whether it was read up to the fence.
        self.is_done = False
        # The numbers of the questions under way, all of the same place; whether the last one has
        # arrived; its time.
        self.asked: list[int] = []
        self.has_arrived = False
        self.asked_us = 0
        # The time of the first question since the last answer, 0 without one.
        self.waits_since_us = 0
        # The last answered question, its time, and the greatest number of a publication it told.
        self.answered = 0
        self.answered_us = now_us
        self.greatest = 0

    @property
    def begin(self) -> LogPlace | None:
        """The place of the next question."""
        return self._end

    def is_due(self, now_us: int) -> bool:
        """Whether it is time for a question."""
        if self.waiting or self.is_done:
            return False
        if self.asked:
            doubled = min(len(self.asked) - 1, MOST_DOUBLED)
            return self.has_arrived and now_us >= self.asked_us + (AGAIN_US << doubled)
        return not self.is_at_end or now_us >= self.answered_us + POLL_US

    def ask(self, number: int, now_us: int) -> None:
        """Note a question."""
        self.asked.append(number)
        self.asked_us, self.has_arrived = now_us, False
        self.waits_since_us = self.waits_since_us or now_us

    def answer(self, number: int, part: LogSlice, greatest: int, now_us: int) -> None:
        """Take the answer to a question; ValueError for records that cannot be read."""
        self.waiting.extend(read_answer(part.records))
        self._end = LogPlace(part.next, part.run)
        if not self.waiting:
            self.place = self._end
        self.answered, self.asked, self.waits_since_us = number, [], 0
        self.answered_us, self.greatest = now_us, greatest
        self.until_us = max(self.until_us, part.until_us)
        self.is_at_end = part.is_at_end

    def take(self) -> Entry:
        """Take the first record out."""
        offset, record = self.waiting.popleft()
        # The run of a record amid a part is not known.
        self.place = LogPlace(offset + 1) if self.waiting else self._end
        return record

    def stop_at(self, fence: int, number_of: Callable[[LogRecord], int]) -> None:
        """Note whether everything below the fence was taken; the rest is dropped."""
        if self.waiting:
            offset, record = self.waiting[0]
            if isinstance(record, LogGap) or number_of(record) < fence:
                return
            self.waiting.clear()
            self.until_us = min(self.until_us, record.time_us)
            self.place = self._end = LogPlace(offset)
            self.is_at_end = False
            self.is_done = True
        elif self.is_at_end and self.until_us >= fence:
            self.is_done = True

    def go_on(self) -> None:
        """Read on: the fence was given up."""
        self.is_done = self.is_at_end = False
