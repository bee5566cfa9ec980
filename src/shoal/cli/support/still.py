"""Progress lines every half minute without a terminal (cron, CI, a pipe)."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

EVERY_S = 30.0


def duration(seconds: float) -> str:
    """Whole seconds in words.

    >>> duration(59.9), duration(75)
    ('59 s', '1 min 15 s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextlib.contextmanager
def told(what: Callable[[], str], *, on_terminal: bool) -> Iterator[None]:
    """A line on stderr every EVERY_S of the block; none on a terminal, which has a spinner.

    `what` is asked on a thread of its own; an empty text is not told.
    """
    if on_terminal:
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY_S):
            if text := what():
                print(f"shoal: {text}", file=sys.stderr, flush=True)

    telling = threading.Thread(target=tell, name="shoal still at work", daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
