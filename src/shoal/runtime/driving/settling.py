"""Settles an input once all its deliveries are in sessions.

Deliveries to many clients take several time slices, and later deliveries queue behind them; until
all are through, nothing is reported as settled. While the broker cannot record its sessions' state,
an input with local deliveries stays unsettled.

>>> settling = Settling(Recording())
>>> settling.settle(AckTracker(lambda: print("nothing was delivered")), is_delivered=False)
nothing was delivered
>>> settling.has_delivered = True
>>> settling.settle(AckTracker(lambda: print("settled")), is_delivered=True)
>>> settling.is_delivering = True
>>> settling.look()
>>> settling.is_delivering = False
>>> settling.look()
settled
"""

from __future__ import annotations

from shoal.broker.ack_tracker import AckTracker
from shoal.runtime.driving.recording import Recording


class Settling:
    """Pending settlements of one node.

    `has_delivered`: deliveries are not in sessions yet; `is_delivering`: that takes several time
    slices.
    """

    def __init__(self, recording: Recording) -> None:
        self.has_delivered = self.is_delivering = False
        self._recording = recording
        self._waiting: list[tuple[AckTracker, bool]] = []

    def settle(self, ack_tracker: AckTracker, *, is_delivered: bool) -> None:
        """Settle an input; `is_delivered` is true if it was delivered here."""
        if self.has_delivered:
            self._waiting.append((ack_tracker, is_delivered))
        else:
            ack_tracker.settle()

    def look(self) -> None:
        """Check whether deliveries are handed to sessions, or are in progress."""
        if self.is_delivering:
            return
        self.has_delivered = False
        waiting, self._waiting = self._waiting, []
        for ack_tracker, is_delivered in waiting:
            if is_delivered and not self._recording.stores:
                self._waiting.append((ack_tracker, True))
            else:
                ack_tracker.settle()
