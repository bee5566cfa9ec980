"""Whether what a broker must remember is on its disk, and what its neighbours hear meanwhile.

A broker whose disk takes nothing counts as away for acknowledgements: what it delivered to its
clients stays unsettled until its whole memory is on disk again.  It forwards, and serves its
clients, as before.

| told to a neighbour | while the disk takes all | from the flush that fails until all is written |
| --- | --- | --- |
| settled, nothing of it was delivered here | behind the flush's records | at once |
| settled, delivered here | behind the flush's records | once all is written (`Settling`) |
| a system's own word that something has arrived here | behind the flush's records | the same |

>>> told = []
>>> recording = Recording()
>>> recording.settle(lambda: told.append("in the flush that fails"))
>>> recording.note(stores=False)
>>> recording.tell()
>>> told
[]
>>> recording.note(stores=True)
>>> recording.tell()
>>> told
['in the flush that fails']
"""

from __future__ import annotations

from collections.abc import Callable


class Recording:
    """Of one node.

    `stores`: whether all that must be kept is on disk, or there is no disk; `at_change` is told.
    """

    def __init__(self) -> None:
        self.stores = True
        self.at_change: list[Callable[[bool], None]] = []
        self._due: list[Callable[[], object]] = []

    def note(self, *, stores: bool) -> None:
        """The flush has come to its records: whether they are on disk, and all before them."""
        if stores != self.stores:
            self.stores = stores
            for call in self.at_change:
                call(stores)

    def settle(self, tell: Callable[[], object]) -> None:
        """A neighbour's message is settled, as far as it was delivered here: have it told."""
        if self.stores:
            self._due.append(tell)
        else:
            tell()

    def confirm(self, tell: Callable[[], object]) -> None:
        """A system tells another broker that something has arrived here."""
        self._due.append(tell)

    def tell(self) -> None:
        """Tell what may be told now; in each flush, behind its records."""
        if self.stores and self._due:
            due, self._due = self._due, []
            for tell in due:
                tell()
