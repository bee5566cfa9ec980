"""Heartbeats of a connection: whether the other end is alive, and its distance."""

from __future__ import annotations

from shoal.broker.links.controls import Control, Echo, Heartbeat
from shoal.broker.wire import WireError


class Pulse:
    """Heartbeats and echoes of one end; at most one of each waits to be written."""

    def __init__(self) -> None:
        self.heard_us = 0
        self._round_trip_us = 0
        self.reconnect()

    def reconnect(self) -> None:
        """Drop what was to be written on the lost connection."""
        self._heartbeat: Heartbeat | None = None
        self._echo: Echo | None = None

    @property
    def delay_us(self) -> int | None:
        """Half of the last heartbeat's round trip; None before the first."""
        return self._round_trip_us // 2 if self._round_trip_us else None

    def beat(self, now_us: int) -> None:
        """Send a heartbeat."""
        self._heartbeat = Heartbeat(now_us)

    def on_control(self, said: Heartbeat | Echo, now_us: int) -> None:
        """Handle a heartbeat or an echo; WireError for an echo without a heartbeat."""
        if isinstance(said, Heartbeat):
            self._echo = Echo(said.at_us)
            return
        if said.at_us > now_us:
            raise WireError("an echo comes before its heartbeat")
        self._round_trip_us = now_us - said.at_us

    def take(self) -> list[Control]:
        """The controls to write."""
        found: list[Control] = [each for each in (self._heartbeat, self._echo) if each is not None]
        self._heartbeat = self._echo = None
        return found
