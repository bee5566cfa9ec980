"""All clients that are here, said to a broker that joins or to all, a part at a time.

How many parts there are is said with each, so which sessions it is about is settled at first.
One that begins or comes meanwhile is said to all anyway; one that is gone by then is left out.
Whoever asks again before it is through is told again behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Entered
from shoal.mqtt.federation.handing import Handing
from shoal.mqtt.federation.roaming.whereabouts.telling import MOST_AS_ONE, Telling
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import Timers

LISTING_TIMER = "listing"


class Listing:
    """One broker's part.  `own` says where a client is that is here; None of another."""

    def __init__(
        self,
        sessions: Sessions,
        telling: Telling,
        timers: Timers,
        own: Callable[[str], Entered | None],
    ) -> None:
        self._sessions = sessions
        self._telling = telling
        self._own = own
        # Apart from what else a broker that joins is told: it lets clients in once it has these.
        self._turns = Handing(timers, lambda: False, LISTING_TIMER)
        # Who is being told, and whether it has asked again.
        self._asked: dict[str, bool] = {}

    def tell(self, to: str, now_us: int) -> None:
        """Say to a broker, or to all, which clients are here, as far as it is to know."""
        if to in self._asked:
            self._asked[to] = True
        else:
            self._asked[to] = False
            self._turns.take(self._tell(to), now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """A broker has left for good: others are registrars now in its place."""
        self._telling.left(broker)
        self._turns.take(self._tell_registrars(broker), now_us)

    def go_on(self, now_us: int) -> None:
        """A turn."""
        self._turns.go_on(now_us)

    def _tell(self, to: str) -> Iterator[int]:
        slices = list(self._slices()) or [()]
        for number, part in enumerate(slices):
            own = [each for each in map(self._own, part) if each is not None]
            yield self._telling.tell(to, own, number, len(slices), self._turns.now_us)
        if self._asked.pop(to):
            self.tell(to, self._turns.now_us)

    def _tell_registrars(self, left: BrokerId) -> Iterator[int]:
        for part in self._slices():
            own = [each for each in map(self._own, part) if each is not None]
            yield self._telling.tell_registrars(left, own, self._turns.now_us)

    def _slices(self) -> Iterator[Sequence[str]]:
        client_ids = self._sessions.client_ids()
        for start in range(0, len(client_ids), MOST_AS_ONE):
            yield client_ids[start : start + MOST_AS_ONE]
