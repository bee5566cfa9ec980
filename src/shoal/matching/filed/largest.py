"""Size of the largest of many objects, which come, grow, shrink and go.

>>> largest = Largest()
>>> largest.changed(0, 3), largest.changed(0, 1), largest.changed(3, 2), largest.value
(3, 0, -1, 2)
"""

from __future__ import annotations


class Largest:
    """Of positive sizes; `value` is 0 while there are none."""

    __slots__ = ("_members", "_sizes", "value")

    def __init__(self) -> None:
        self.value = 0
        self._members = 0
        # number of objects of each size above 1; None until there is one
        self._sizes: dict[int, int] | None = None

    def changed(self, before: int, after: int) -> int:
        """The size of one of them is another, 0 where it was not or is not there.

        By how much the largest is larger.  Time grows with the difference at most.
        """
        largest = self.value
        self._members += (after > 0) - (before > 0)
        sizes = self._sizes
        if sizes is None and (before > 1 or after > 1):
            sizes = self._sizes = {}
        if sizes is not None:
            if before > 1:
                sizes[before] -= 1
                if not sizes[before]:
                    del sizes[before]
            if after > 1:
                sizes[after] = sizes.get(after, 0) + 1
        if after >= largest:
            self.value = after
        elif before == largest and (sizes is None or before not in sizes):
            self.value = self._below(before)
        return self.value - largest

    def _below(self, size: int) -> int:
        """The largest size that there is, below one that there is no more."""
        sizes = self._sizes or {}
        size -= 1
        while size > 1 and size not in sizes:
            size -= 1
        return size if size > 1 else int(self._members > 0)
