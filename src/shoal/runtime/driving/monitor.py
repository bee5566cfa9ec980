"""The monitor beside a live broker: how long its messages wait, measured where it happens.

>>> monitor = Monitor()
>>> monitor.handled(publications=2, waited_us=30, busy_us=100)
>>> monitor.report({"B2": 400}).matching_us
50
>>> monitor.report({"B2": 400}).matching_us is None
True
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.effects import MeasuredDelays
from shoal.model import BrokerId

# The part of its time for which a broker without publications is busy, at most.
_IDLE = 0.05
# With fewer publications in a report, the broker's other work is not for them: it starts, or gets
# subscriptions.  Such a figure would last, as a broker that has no room for publishers gets none.
_ENOUGH = 10


class Monitor:
    """Sums since the last report; each publication counts, whatever batch it came in."""

    __slots__ = (
        "_busy_us",
        "_client_us",
        "_deliveries",
        "_publications",
        "_waited_us",
    )

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._publications = self._waited_us = self._busy_us = 0
        self._deliveries = self._client_us = 0

    def handled(self, publications: int, waited_us: int, busy_us: int) -> None:
        """So many publications waited so long each, and took so long together."""
        self._publications += publications
        self._waited_us += waited_us * publications
        self._busy_us += busy_us

    def delivered(self, deliveries: int, waited_us: int) -> None:
        """So many deliveries left for their clients so long after they were decided."""
        self._deliveries += deliveries
        self._client_us += waited_us * deliveries

    def report(
        self, output_us: Mapping[BrokerId, int], busy: float | None = None, passed_us: int = 0
    ) -> MeasuredDelays:
        """The averages since the last report; `output_us` has the links' measurements.

        The broker was `busy` for that part of the time since then, which is `passed_us`.
        """
        publications, deliveries = self._publications, self._deliveries
        served_us = None
        if busy is not None and publications:
            work_us = self._busy_us
            if publications >= _ENOUGH:
                work_us = max(work_us, int((busy - _IDLE) * passed_us))
            served_us = work_us // publications
        report = MeasuredDelays(
            input_queue_us=self._waited_us // publications if publications else None,
            matching_us=self._busy_us // publications if publications else None,
            output_us=output_us,
            client_output_us=self._client_us // deliveries if deliveries else None,
            busy=busy,
            served_us=served_us,
        )
        self._reset()
        return report
