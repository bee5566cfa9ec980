"""When what one input caused counts as settled: once all that was delivered is in sessions.

What is for many clients is handed to them over several turns, and what was delivered behind it
waits; until all of it is through, nobody is told that anything is settled.

>>> settling = Settling()
>>> settling.settle(Custody(lambda: print("nothing was delivered")))
nothing was delivered
>>> settling.has_delivered = True
>>> settling.settle(Custody(lambda: print("settled")))
>>> settling.is_handing_on = True
>>> settling.look()
>>> settling.is_handing_on = False
>>> settling.look()
settled
"""

from __future__ import annotations

from shoal.broker.custody import Custody


class Settling:
    """Of one node.

    `has_delivered`: something was, since all was in sessions last; `is_handing_on`: that takes
    several turns.
    """

    def __init__(self) -> None:
        self.has_delivered = self.is_handing_on = False
        self._waiting: list[Custody] = []

    def settle(self, custody: Custody) -> None:
        """One thing less to wait for."""
        if self.has_delivered:
            self._waiting.append(custody)
        else:
            custody.settle()

    def look(self) -> None:
        """What was delivered has been handed on, or is being."""
        if not self.is_handing_on:
            self.has_delivered = False
            waiting, self._waiting = self._waiting, []
            for custody in waiting:
                custody.settle()
