"""Very many names in their order, a page at a time, sorted in turns.

To find those of one page takes a look at all, unless they are sorted; and to sort them is one long
step.  So some are sorted in each turn of the loop, and a page is merged of these runs.  They are
kept for a while, as the next page will be asked for.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left
from collections.abc import Callable

# So many names are sorted in one go, which takes a millisecond.
RUN = 2_000
# Names are kept this long; a newer client may be on no page until then.
KEPT_S = 10.0
# So many names are looked at for one page, as all of them may be gone by now.
MOST_LOOKED_AT = 2_000


class StatusListing:
    """Of the names that `names` has now; `is_here` says whether one of them still counts."""

    def __init__(self, names: Callable[[], list[str]], is_here: Callable[[str], bool]) -> None:
        self._names = names
        self._is_here = is_here
        self._runs: list[list[str]] = []
        # number of times that names were taken, and the next ticket
        self._taken = 0
        self._taking = asyncio.Lock()

    async def page(self, first: str, most: int) -> tuple[list[str], str | None]:
        """The next `most` names from `first` on, perhaps fewer, and where the next page begins.

        A listing that begins, at the empty name, has all that are there now.
        """
        await self._take_names(is_new=not first)
        behind = ((run, range(bisect_left(run, first), len(run))) for run in self._runs)
        found: list[str] = []
        names = heapq.merge(*(map(run.__getitem__, places) for run, places in behind))
        for looked_at, name in enumerate(names):
            if len(found) == most or looked_at == MOST_LOOKED_AT:
                return found, name
            if self._is_here(name):
                found.append(name)
        return found, None

    async def _take_names(self, *, is_new: bool) -> None:
        """Sort the names: one run at a time; waiting requests share a run that began after them."""
        asked = self._taken
        async with self._taking:
            if len(self._runs) > 1 and (self._taken > asked or not is_new):
                return
            self._taken += 1
            names = self._names()
            runs: list[list[str]] = []
            for start in range(0, len(names), RUN):
                if start:
                    await asyncio.sleep(0)
                runs.append(sorted(names[start : start + RUN]))
            self._runs = runs
            if len(runs) > 1:
                asyncio.get_running_loop().call_later(KEPT_S, self._forget_runs, self._taken)

    def _forget_runs(self, taken: int) -> None:
        if taken == self._taken:
            self._runs = []
