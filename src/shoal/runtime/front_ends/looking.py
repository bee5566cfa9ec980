"""Polls waiting items that send no notification, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

# So many are looked at in one go, which takes some 0.3 ms.
MOST_LOOKED_AT = 1_000
# Then the loop has other things to do, unless some of them could go on.
PAUSE_S = 0.002

Each = TypeVar("Each", bound=Hashable)


class Looking(Generic[Each]):
    """Waiting items; `goes_on` returns whether an item need not wait any more.

    After an event each item is checked once, then none until the next event;
    again.  Those that still wait are behind all others then.
    """

    def __init__(self, goes_on: Callable[[Each], bool]) -> None:
        self._goes_on = goes_on
        # Ordered, as it is taken from at the front.
        self.waiting: OrderedDict[Each, None] = OrderedDict()
        # Number of items that were not checked since the last event.
        self._left = 0
        self._next: asyncio.Handle | None = None

    def __contains__(self, each: Each) -> bool:
        return each in self.waiting

    def add(self, each: Each) -> None:
        """Add a waiting item; the caller ensures that `happened` is called after that."""
        self.waiting[each] = None

    def happened(self) -> None:
        """Any of those that wait may go on now."""
        self._left = len(self.waiting)
        if self._left and self._next is None:
            self._look_at_some()

    def happened_to(self, each: Each) -> None:
        """This one may go on now, if it waits."""
        if each in self.waiting:
            del self.waiting[each]
            self._look_at(each)

    def _look_at_some(self) -> None:
        found = False
        for _ in range(min(self._left, len(self.waiting), MOST_LOOKED_AT)):
            each, _nothing = self.waiting.popitem(last=False)
            self._left -= 1
            found = self._look_at(each) or found
        if self._left and self.waiting:
            loop, pause_s = asyncio.get_running_loop(), 0.0 if found else PAUSE_S
            self._next = loop.call_later(pause_s, self._look_on)

    def _look_at(self, each: Each) -> bool:
        """Return whether it goes on; else it is behind all others."""
        goes_on = self._goes_on(each)
        if not goes_on:
            self.waiting[each] = None
        return goes_on

    def _look_on(self) -> None:
        self._next = None
        self._look_at_some()
