"""What a terminal says while a command works: what it does, on how much, and for how long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

# Less is read in a moment.
WORTH_SAYING_BYTES = 1_000_000


class Waiting:
    """A line that says the seconds anew each time it is drawn.

    >>> now_s = iter([0.0, 75.0]).__next__
    >>> str(Waiting("reading", 44_000_000, now_s).__rich__())
    'reading, 44 MB of input, 1 min 15 s'
    """

    def __init__(
        self, doing: str, input_bytes: int = 0, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._doing = doing
        self._size = (
            f", {input_bytes / 1e6:,.0f} MB of input" if input_bytes >= WORTH_SAYING_BYTES else ""
        )
        self._now_s = now_s
        self._began_s = now_s()

    def update(self, doing: str) -> None:
        """What is done from now on; the seconds go on from the beginning."""
        self._doing = doing

    def __rich__(self) -> Text:
        minutes, seconds = divmod(int(self._now_s() - self._began_s), 60)
        passed = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        return Text(f"{self._doing}{self._size}, {passed}")


@contextlib.contextmanager
def waiting(doing: str, input_bytes: int = 0) -> Iterator[Waiting]:
    """A spinner on stderr with a line beside it, for the block; nothing where that is a file."""
    line = Waiting(doing, input_bytes)
    with Console(stderr=True).status(line):
        yield line
