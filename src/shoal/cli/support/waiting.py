"""Status line of a long command: its work, amount, progress and time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from shoal.cli.support.still import duration, told

# Less is read in a moment.
WORTH_SAYING_BYTES = 1_000_000


class WaitDisplay:
    """A line that says the seconds, and how far it is, anew each time it is drawn.

    >>> now_s = iter([0.0, 75.0]).__next__
    >>> str(WaitDisplay("reading", 44_000_000, now_s).__rich__())
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
        self._how_far: Callable[[], str] = str

    def update(self, doing: str) -> None:
        """Replace the current work; the time continues from the beginning."""
        self._doing = doing

    def follow(self, how_far: Callable[[], str]) -> None:
        """Say from now on also how far it is, as often as the line is drawn; may be empty."""
        self._how_far = how_far

    def text(self) -> str:
        """The line now."""
        how_far = self._how_far()
        passed = duration(self._now_s() - self._began_s)
        return f"{self._doing}{self._size}{how_far and ', '}{how_far}, {passed}"

    def __rich__(self) -> Text:
        return Text(self.text())


@contextlib.contextmanager
def waiting(doing: str, input_bytes: int = 0) -> Iterator[WaitDisplay]:
    """A spinner on stderr with a line beside it, for the block; in a file, a line now and then."""
    line = WaitDisplay(doing, input_bytes)
    console = Console(stderr=True)
    with told(line.text, on_terminal=console.is_terminal), console.status(line):
        yield line
