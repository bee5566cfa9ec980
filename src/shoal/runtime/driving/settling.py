"""When what one input caused counts as settled: once all that was delivered is in sessions.

What is for many clients is handed to them over several turns, and what was delivered behind it
waits; until all of it is through, nobody is told that anything is settled.  While the broker cannot
record what its sessions have, an input of which something was delivered here stays unsettled.

>>> settling = Settling(Recording())
>>> settling.settle(Custody(lambda: print("nothing was delivered")), is_delivered=False)
nothing was delivered
>>> settling.has_delivered = True
>>> settling.settle(Custody(lambda: print("settled")), is_delivered=True)
>>> settling.is_handing_on = True
>>> settling.look()
>>> settling.is_handing_on = False
>>> settling.look()
settled
"""

from __future__ import annotations

from shoal.broker.custody import Custody
from shoal.runtime.driving.recording import Recording


class Settling:
    """Of one node.

    `has_delivered`: something was, since all was in sessions last; `is_handing_on`: that takes
    several turns.
    """

    def __init__(self, recording: Recording) -> None:
        self.has_delivered = self.is_handing_on = False
        self._recording = recording
        self._waiting: list[tuple[Custody, bool]] = []

    def settle(self, custody: Custody, *, is_delivered: bool) -> None:
        """One thing less to wait for; `is_delivered` says whether it was delivered here."""
        if self.has_delivered:
            self._waiting.append((custody, is_delivered))
        else:
            custody.settle()

    def look(self) -> None:
        """What was delivered has been handed on, or is being."""
        if self.is_handing_on:
            return
        self.has_delivered = False
        waiting, self._waiting = self._waiting, []
        for custody, is_delivered in waiting:
            if is_delivered and not self._recording.stores:
                self._waiting.append((custody, True))
            else:
                custody.settle()
