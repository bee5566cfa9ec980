"""A search that ends when it has taken long enough, and takes less the next time.

A part of a search that may take long, and whose result is kept, asks `may_look` before, and says by
`spend` how long it took. Both do nothing in a search without a limit.

>>> kept: list[int] = []
>>> def search() -> None:
...     for number in range(len(kept), 5):
...         may_look()
...         kept.append(number)
...         spend(40)
>>> search_within(100, search), len(kept)
(False, 3)
>>> search_within(100, search), len(kept)
(True, 5)
"""

from __future__ import annotations

from collections.abc import Callable


class _EnoughError(Exception):
    """A search has taken as long as it may."""


def search_within(work_us: float, search: Callable[[], object]) -> bool:
    """Return whether a search ends within some microseconds of what it asks for, or about.

    If not, it has done one part at least, and knows more the next time.
    """
    global _left_us
    _left_us = work_us
    try:
        search()
    except _EnoughError:
        return False
    finally:
        _left_us = None
    return True


def may_look() -> bool:
    """A search is about to take long: it ends here if it may not, else: whether it is limited."""
    if _left_us is None:
        return False
    if _left_us <= 0:
        raise _EnoughError
    return True


def spend(work_us: float) -> None:
    """Charge a search with the time of one part; its result is kept."""
    global _left_us
    if _left_us is not None:
        _left_us -= work_us


def unlimit() -> None:
    """Let the search go on to its end: it would know no more the next time."""
    global _left_us
    _left_us = None


# remaining time of a search; None: unlimited
_left_us: float | None = None
