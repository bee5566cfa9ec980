"""The operator's rules on link exchanges: each check returns a reason, or "".

>>> rules = ExchangeRules(SelfOrganisingParameters(pinned=(("A", "B"),), forbidden=(("A", "C"),),
...     exchanges_per_hour=1))
>>> rules.against_link("C", "A")
'C - A is forbidden'
>>> rules.against_removal("B", "A")
'B - A is pinned'
>>> rules.against_exchange(now_us=5), rules.exchanged(5), rules.against_exchange(now_us=6)
('', None, '1 in the last hour, no more are allowed')
>>> rules.against_exchange(now_us=HOUR_US + 5)
''
"""

from __future__ import annotations

from collections import deque

from shoal.model import BrokerId
from shoal.overlays.self_organising.parameters import SelfOrganisingParameters

HOUR_US = 3_600_000_000


class ExchangeRules:
    """Those of one broker, and the exchanges it took part in within the last hour."""

    def __init__(self, parameters: SelfOrganisingParameters) -> None:
        self._parameters = parameters
        self._pinned = {frozenset(pair) for pair in parameters.pinned}
        self._forbidden = {frozenset(pair) for pair in parameters.forbidden}
        self._exchanged_us: deque[int] = deque()

    def against_link(self, left: BrokerId, right: BrokerId) -> str:
        """Why a link between these is not allowed."""
        is_forbidden = frozenset((left, right)) in self._forbidden
        return f"{left} - {right} is forbidden" if is_forbidden else ""

    def against_removal(self, left: BrokerId, right: BrokerId) -> str:
        """Why the link between these may not be removed."""
        is_pinned = frozenset((left, right)) in self._pinned
        return f"{left} - {right} is pinned" if is_pinned else ""

    def against_exchange(self, now_us: int) -> str:
        """Why this broker may take part in no exchange now."""
        if self._parameters.frozen:
            return "links are frozen"
        most = self._parameters.exchanges_per_hour
        while self._exchanged_us and self._exchanged_us[0] <= now_us - HOUR_US:
            self._exchanged_us.popleft()
        if most and len(self._exchanged_us) >= most:
            return f"{len(self._exchanged_us)} in the last hour, no more are allowed"
        return ""

    def exchanged(self, now_us: int) -> None:
        """This broker took part in one."""
        if self._parameters.exchanges_per_hour:
            self._exchanged_us.append(now_us)

    def is_full(self, links: int) -> bool:
        """Whether a broker with so many links may have no more."""
        return 0 < self._parameters.max_degree <= links
