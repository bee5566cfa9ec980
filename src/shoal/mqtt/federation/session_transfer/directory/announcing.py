"""Announces local clients to other brokers.

No other broker may begin a kept session anew, and messages acknowledged into it must not be lost:
its begin, or its transfer, is announced to all brokers, once. Its client then reconnects at that
broker without an announcement. Announcements to all within a short time are sent as one; at once if
the client may connect elsewhere or a subscription may be granted.

A session that ends with its connection has less to lose: no client waits for it elsewhere, and it
has only to end when its client is admitted there. So it is announced only to the client's
registrars, which inform the client's former broker (see `registering`).

A broker that knows no other broker does not know the registrars: it announces to all.

| hears or sees | sends |
| --- | --- |
| a kept session begins or comes | Entered, to all |
| its client reconnects | nothing |
| a session without expiry begins | Register, to its client's registrars |
| a local session ends | Ended, to the brokers that know it |
| GATHER_US over since the last announcement to all | Several: all that was gathered |
| a broker asks for the list, or answers | Several, numbered: the list; Register, to a registrar |
| a registrar has left | Register, to the next |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    Control,
    Ended,
    Entered,
    Register,
    Several,
)
from shoal.mqtt.federation.session_transfer.directory.registering import registrars
from shoal.mqtt.front_end.network import EVERY_BROKER
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.timers import MqttTimers

# The longest delay of an announcement to all, and the number of announcements in one control.
GATHER_US = MICROSECONDS // 10
MOST_AS_ONE = 256
# Announcements in one control that are as much work as a single one.
LISTED_PER_WORK = 12
# The bound of known brokers: above the size of any network.
MOST_MET = 4_096

TELLING_TIMER = "telling"


class SentAnnouncement:
    """The announcement of a local client: its fencing token, and its `registrars`; () for all.

    `back_us`: the time of a later reconnect, which was not announced.
    """

    __slots__ = ("at_us", "back_us", "is_kept", "registrars")

    def __init__(self, control: Entered, registrars: tuple[BrokerId, ...]) -> None:
        self.at_us, self.is_kept, self.registrars = control.at_us, control.is_kept, registrars
        self.back_us = 0


class ClientAnnouncements:
    """The announcements of one broker.

    `send` sends a control to a broker, or to all; `register` takes the announcements for which this
    broker is a registrar itself.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        timers: MqttTimers,
        send: Callable[[str, Control, int], None],
        register: Callable[[Entered | Ended, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._timers = timers
        self._send = send
        self._register = register
        # The other brokers.
        self._met: dict[BrokerId, None] = {}
        self._told: dict[str, SentAnnouncement] = {}
        self._gathered: list[Entered | Ended] = []
        # Clients whose announcement must go out before they connect elsewhere.
        self._waiting: set[str] = set()
        self._said_us = -GATHER_US

    # --- other brokers ------------------------------------------------------------------------

    def met(self, broker: BrokerId) -> None:
        """Add a broker."""
        if len(self._met) < MOST_MET:  # no network has as many
            self._met[broker] = None

    def left(self, broker: BrokerId) -> bool:
        """Remove a broker that has left for good; returns whether it may be a registrar."""
        is_known = broker in self._met
        self._met.pop(broker, None)
        return is_known

    def __len__(self) -> int:
        """The number of other known brokers."""
        return len(self._met)

    def announce_to_registrars(self, left: BrokerId, own: Iterable[Entered], now_us: int) -> int:
        """Announce these clients of a registrar that has left to the registrar in its place.

        Returns the work, in the units of `time_slices`.
        """
        work = 1
        for control in own:
            told = self._told.get(control.client_id)
            if told is not None and left in told.registrars:
                before, told.registrars = told.registrars, self.registrars(control.client_id)
                for registrar in told.registrars:
                    if registrar not in before:
                        self._announce_to_registrar(registrar, control, now_us)
                        work += 1
        return work + MOST_AS_ONE // LISTED_PER_WORK

    def registrars(self, client_id: str) -> tuple[BrokerId, ...]:
        """The registrars of a client.

        While this broker knows no other, it is the only one.
        """
        return registrars(client_id, (self._broker_id, *self._met))

    # --- local sessions -----------------------------------------------------------------------

    def about(self, session: Session) -> Entered:
        """The announcement of a session's client."""
        return Entered(
            session.client_id,
            self._broker_id,
            session.entered_us,
            session.expiry_interval_s > 0,
            None,
            session.user,
            session.began_us,
        )

    def put_right(self, session: Session, broker: BrokerId, now_us: int) -> None:
        """Correct another broker's entry about a session's client."""
        is_registered = self.is_registered(session.client_id)
        about = msgspec.structs.replace(self.about(session), registered=is_registered)
        self._send(broker, about, now_us)

    def entered(self, control: Entered, now_us: int, *, is_known: bool, is_new: bool) -> None:
        """Announce an admitted client; `is_known` if brokers besides registrars may know it,
        `is_new` if its session has just begun.
        """
        told = self._told.get(control.client_id)
        if told is not None:
            is_known = is_known or not told.registrars
        elif not is_new:
            is_known = True  # it has come from there
        if control.is_kept or is_known or not self._met:
            self.announce_all(control, now_us)
        else:
            told = self._told[control.client_id] = SentAnnouncement(
                control, self.registrars(control.client_id)
            )
            for registrar in told.registrars:
                self._announce_to_registrar(registrar, control, now_us)

    def announce_all(self, control: Entered, now_us: int) -> None:
        """Announce a client to all brokers."""
        self.restored(control)
        if control.is_kept:
            self._waiting.add(control.client_id)
        self._gather(control, now_us)

    def restored(self, control: Entered) -> None:
        """Note an announcement of before the restart, which all have got."""
        self._told[control.client_id] = SentAnnouncement(control, ())

    def comes_back(self, client_id: str, at_us: int, connect_us: int) -> bool:
        """Note a reconnect to a kept session; returns whether all know it under that token."""
        told = self._told.get(client_id)
        if told is None or not told.is_kept or told.at_us != at_us:
            return False
        told.back_us = max(told.back_us, connect_us)
        return True

    def back_us(self, client_id: str) -> int:
        """The time of a reconnect that was not announced; 0 without one."""
        told = self._told.get(client_id)
        return 0 if told is None else told.back_us

    def is_registered(self, client_id: str) -> bool:
        """Whether only registrars know of a local client."""
        told = self._told.get(client_id)
        return told is not None and bool(told.registrars)

    def leaves(self, client_id: str, now_us: int) -> None:
        """A client has disconnected, and may connect elsewhere next: flush its announcement."""
        if client_id in self._waiting:
            self.flush(now_us)

    def ended(self, control: Ended, now_us: int, *, is_stale: bool) -> None:
        """Announce the end of a session; `is_stale` if others may believe that it is here."""
        told = self._told.pop(control.client_id, None)
        for registrar in () if told is None else told.registrars:
            self._announce_to_registrar(registrar, control, now_us)
        if is_stale and (told is None or not told.registrars):
            self._gather(control, now_us)

    def tell(self, to: str, own: Sequence[Entered], number: int, parts: int, now_us: int) -> int:
        """Send a part of the list of local clients to a broker, or to all.

        `number` counts the parts from 0. Returns the work, in the units of `time_slices`.
        """
        work, for_all = 1 + len(own) // LISTED_PER_WORK, []
        for control in own:
            told = self._told.get(control.client_id)
            if told is None or not told.registrars:
                for_all.append(control)
            elif to == EVERY_BROKER:
                for registrar in told.registrars:
                    self._announce_to_registrar(registrar, control, now_us)
                work += len(told.registrars)
            elif self._has_become_registrar(to, control.client_id, told, now_us):
                self._announce_to_registrar(to, control, now_us)
                work += 1
        if to == EVERY_BROKER:
            self._send_to_all(for_all, now_us)
        else:
            self._send(to, Several(tuple(for_all), self._broker_id, number, parts), now_us)
        return work

    def _has_become_registrar(
        self, broker: str, client_id: str, told: SentAnnouncement, now_us: int
    ) -> bool:
        if broker in told.registrars:
            return True
        chosen = registrars(client_id, (*told.registrars, broker))
        before, told.registrars = told.registrars, chosen
        for registrar in before:
            if registrar not in chosen:
                self._announce_to_registrar(registrar, Ended(client_id, self._broker_id), now_us)
        return broker in chosen

    # --- sending ------------------------------------------------------------------------------

    def _announce_to_registrar(self, to: BrokerId, control: Entered | Ended, now_us: int) -> None:
        if isinstance(control, Entered):
            control = msgspec.structs.replace(control, registered=True)
        if to == self._broker_id:
            self._register(control, now_us)
        else:
            self._send(to, Register(control) if isinstance(control, Entered) else control, now_us)

    def _gather(self, control: Entered | Ended, now_us: int) -> None:
        self._gathered.append(control)
        is_young = now_us - self._said_us < GATHER_US
        if is_young and len(self._gathered) < MOST_AS_ONE:
            self._timers.set((TELLING_TIMER, ()), self._said_us + GATHER_US)
        else:
            self.flush(now_us)

    def flush(self, now_us: int) -> None:
        """Send the gathered announcements."""
        if self._gathered:
            self._said_us = now_us
            self._timers.cancel((TELLING_TIMER, ()))
            gathered, self._gathered = self._gathered, []
            self._waiting.clear()
            self._send_to_all(gathered, now_us)

    def _send_to_all(self, controls: Sequence[Entered | Ended], now_us: int) -> None:
        for start in range(0, len(controls), MOST_AS_ONE):
            part = tuple(controls[start : start + MOST_AS_ONE])
            self._send(EVERY_BROKER, Several(part) if len(part) > 1 else part[0], now_us)
