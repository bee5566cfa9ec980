"""Tracks whether a broker's durable state is on disk, and holds acknowledgements meanwhile.

A broker with a failing disk counts as disconnected for acknowledgements: deliveries to its clients
stay unsettled until its whole state is on disk again. It forwards, and serves its clients, as
before.

| sent to a neighbour | while the disk works | from the failing flush until all is written |
| --- | --- | --- |
| settled, no delivery here | after the flush's records | at once |
| settled, delivered here | after the flush's records | once all is written (`Settling`) |
| a system's own acknowledgement of an arrival here | after the flush's records | the same |

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
        """Send the acknowledgements that are safe; in each flush, behind its records."""
        if self.stores and self._due:
            due, self._due = self._due, []
            for tell in due:
                tell()
