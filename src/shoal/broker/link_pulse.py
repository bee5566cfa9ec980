"""Whether the other end of a connection is there, and how far away it is."""

from __future__ import annotations

from shoal.broker.link_controls import Control, Echo, Heartbeat
from shoal.broker.wire import WireError


class Pulse:
    """Heartbeats and echoes of one end; of each at most one waits to be written."""

    def __init__(self) -> None:
        self.heard_us = 0
        self._round_trip_us = 0
        self.reconnect()

    def reconnect(self) -> None:
        """What was to be said belonged to a connection that is gone."""
        self._heartbeat: Heartbeat | None = None
        self._echo: Echo | None = None

    @property
    def delay_us(self) -> int | None:
        """Half of the last heartbeat's round trip; None when none has come back."""
        return self._round_trip_us // 2 if self._round_trip_us else None

    def beat(self, now_us: int) -> None:
        """Ask the other end whether it is there."""
        self._heartbeat = Heartbeat(now_us)

    def hear(self, said: Heartbeat | Echo, now_us: int) -> None:
        """The other end asks, or answers; WireError when it answers what was not asked."""
        if isinstance(said, Heartbeat):
            self._echo = Echo(said.at_us)
            return
        if said.at_us > now_us:
            raise WireError("an echo comes before its heartbeat")
        self._round_trip_us = now_us - said.at_us

    def take(self) -> list[Control]:
        """What is to be written."""
        found: list[Control] = [each for each in (self._heartbeat, self._echo) if each is not None]
        self._heartbeat = self._echo = None
        return found
