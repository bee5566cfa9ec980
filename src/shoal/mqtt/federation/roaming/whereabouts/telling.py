"""Whom a broker tells which clients are there.

A session that outlives its connection must be begun anew nowhere, and what is acknowledged into it
must not be lost: that it begins, or has moved, is said to all, once.  Its client comes and goes at
that broker without a word.  What is said to all while the last word is young is gathered, and
goes as one; but at once if the client may go on elsewhere or a subscription may be granted.

For a session that ends with its connection there is less to lose: nobody waits for it elsewhere,
and it has only to end when its client is let in there.  So only its client's registrars are told,
and pass it on to the broker where the client was (see `registering`).

A broker that has met no other does not know the registrars: it tells all.

| hears or sees | says |
| --- | --- |
| a session begins or comes that is kept | Entered, to all |
| its client comes back | nothing |
| a session begins that is not kept | Register, to its client's registrars |
| a session that is here ends | Ended, to those that had heard of it |
| GATHER_US over since the last word to all | Several: all that was gathered |
| a broker asks who is here, or answers | Several, numbered: all of that; Register, to a registrar |
| a registrar has left | Register, to the next |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.door.network import EVERY_BROKER
from shoal.mqtt.federation.controls import (
    Control,
    Ended,
    Entered,
    Register,
    Several,
)
from shoal.mqtt.federation.roaming.whereabouts.registering import registrars
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.timers import Timers

# How long a word to all may wait for others, and how many go as one.
GATHER_US = MICROSECONDS // 10
MOST_AS_ONE = 256
# So many that are said as one are as much work as one that is said by itself.
LISTED_PER_WORK = 12
# Brokers that are remembered: as many as one knows at all.
MOST_MET = 4_096

TELLING_TIMER = "telling"


class Told:
    """What was said of a client here: by which stamp, and to whom; without `registrars` to all.

    `back_us`: when it came back since, of which nobody was told.
    """

    __slots__ = ("at_us", "back_us", "is_kept", "registrars")

    def __init__(self, control: Entered, registrars: tuple[BrokerId, ...]) -> None:
        self.at_us, self.is_kept, self.registrars = control.at_us, control.is_kept, registrars
        self.back_us = 0


class Telling:
    """One broker's part.

    `say` sends a word to a broker, or to all; `register` takes what this broker has to say to
    itself, as a registrar.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        timers: Timers,
        say: Callable[[str, Control, int], None],
        register: Callable[[Entered | Ended, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._timers = timers
        self._say = say
        self._register = register
        # The other brokers.
        self._met: dict[BrokerId, None] = {}
        self._told: dict[str, Told] = {}
        self._gathered: list[Entered | Ended] = []
        # Whose sessions others must hear of before they connect there.
        self._waiting: set[str] = set()
        self._said_us = -GATHER_US

    # --- which brokers there are --------------------------------------------------------------

    def met(self, broker: BrokerId) -> None:
        """A broker says that it is there."""
        if len(self._met) < MOST_MET:  # no network has as many
            self._met[broker] = None

    def left(self, broker: BrokerId) -> None:
        """A broker has left for good."""
        self._met.pop(broker, None)

    def __len__(self) -> int:
        """How many other brokers it knows."""
        return len(self._met)

    def tell_registrars(self, left: BrokerId, own: Iterable[Entered], now_us: int) -> int:
        """A broker has left: of these clients of its tell who is a registrar in its place.

        How much work that was, as `handing` has it.
        """
        work = 1
        for control in own:
            told = self._told.get(control.client_id)
            if told is not None and left in told.registrars:
                before, told.registrars = told.registrars, self.registrars(control.client_id)
                for registrar in told.registrars:
                    if registrar not in before:
                        self._tell_registrar(registrar, control, now_us)
                        work += 1
        return work + MOST_AS_ONE // LISTED_PER_WORK

    def registrars(self, client_id: str) -> tuple[BrokerId, ...]:
        """The brokers that know where a client is whose session ends with its connection.

        While this broker has met no other, it is the only one.
        """
        return registrars(client_id, (self._broker_id, *self._met))

    # --- what happens here --------------------------------------------------------------------

    def about(self, session: Session) -> Entered:
        """Where a session's client is, to be said."""
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
        """Say to a broker that was wrong about it where a client is."""
        is_registered = self.is_registered(session.client_id)
        about = msgspec.structs.replace(self.about(session), registered=is_registered)
        self._say(broker, about, now_us)

    def entered(self, control: Entered, now_us: int, *, is_known: bool) -> None:
        """A client was let in here; whether others than registrars may know it elsewhere."""
        told = self._told.get(control.client_id)
        if told is not None:
            is_known = is_known or not told.registrars
        elif control.began_us != control.at_us:
            is_known = True  # it has come from there
        if control.is_kept or is_known or not self._met:
            self.tell_all(control, now_us)
        else:
            told = self._told[control.client_id] = Told(control, self.registrars(control.client_id))
            for registrar in told.registrars:
                self._tell_registrar(registrar, control, now_us)

    def tell_all(self, control: Entered, now_us: int) -> None:
        """A client is here, as all must know."""
        self.restored(control)
        if control.is_kept:
            self._waiting.add(control.client_id)
        self._say_all(control, now_us)

    def restored(self, control: Entered) -> None:
        """A session is here since before the broker started; all heard of it then."""
        self._told[control.client_id] = Told(control, ())

    def comes_back(self, client_id: str, at_us: int, now_us: int) -> bool:
        """A kept session's client is here again; whether all know it here by that stamp."""
        told = self._told.get(client_id)
        if told is None or not told.is_kept or told.at_us != at_us:
            return False
        told.back_us = now_us
        return True

    def back_us(self, client_id: str) -> int:
        """When a client came back of which nobody was told so; 0 if it has not."""
        told = self._told.get(client_id)
        return 0 if told is None else told.back_us

    def is_registered(self, client_id: str) -> bool:
        """Whether only registrars know that a client is here."""
        told = self._told.get(client_id)
        return told is not None and bool(told.registrars)

    def leaves(self, client_id: str, now_us: int) -> None:
        """A client's connection has ended: it may be elsewhere next."""
        if client_id in self._waiting:
            self.flush(now_us)

    def ended(self, control: Ended, now_us: int, *, is_stale: bool) -> None:
        """A session is here no more; whether others may believe that it is."""
        told = self._told.pop(control.client_id, None)
        for registrar in () if told is None else told.registrars:
            self._tell_registrar(registrar, control, now_us)
        if is_stale and (told is None or not told.registrars):
            self._say_all(control, now_us)

    def tell(self, to: str, own: Sequence[Entered], number: int, parts: int, now_us: int) -> int:
        """Say to a broker, or to all, where these are, as far as it is to know.

        They are the part of this number, from 0, of all.  How much work that was, as `handing` has
        it.
        """
        work, for_all = 1 + len(own) // LISTED_PER_WORK, []
        for control in own:
            told = self._told.get(control.client_id)
            if told is None or not told.registrars:
                for_all.append(control)
            elif to == EVERY_BROKER:
                for registrar in told.registrars:
                    self._tell_registrar(registrar, control, now_us)
                work += len(told.registrars)
            elif self._has_become_registrar(to, control.client_id, told, now_us):
                self._tell_registrar(to, control, now_us)
                work += 1
        if to == EVERY_BROKER:
            self._say_to_all(for_all, now_us)
        else:
            self._say(to, Several(tuple(for_all), self._broker_id, number, parts), now_us)
        return work

    def _has_become_registrar(self, broker: str, client_id: str, told: Told, now_us: int) -> bool:
        if broker in told.registrars:
            return True
        chosen = registrars(client_id, (*told.registrars, broker))
        before, told.registrars = told.registrars, chosen
        for registrar in before:
            if registrar not in chosen:
                self._tell_registrar(registrar, Ended(client_id, self._broker_id), now_us)
        return broker in chosen

    # --- how it is said -----------------------------------------------------------------------

    def _tell_registrar(self, to: BrokerId, control: Entered | Ended, now_us: int) -> None:
        if isinstance(control, Entered):
            control = msgspec.structs.replace(control, registered=True)
        if to == self._broker_id:
            self._register(control, now_us)
        else:
            self._say(to, Register(control) if isinstance(control, Entered) else control, now_us)

    def _say_all(self, control: Entered | Ended, now_us: int) -> None:
        self._gathered.append(control)
        is_young = now_us - self._said_us < GATHER_US
        if is_young and len(self._gathered) < MOST_AS_ONE:
            self._timers.set((TELLING_TIMER, ()), self._said_us + GATHER_US)
        else:
            self.flush(now_us)

    def flush(self, now_us: int) -> None:
        """Say what was gathered."""
        if self._gathered:
            self._said_us = now_us
            self._timers.cancel((TELLING_TIMER, ()))
            gathered, self._gathered = self._gathered, []
            self._waiting.clear()
            self._say_to_all(gathered, now_us)

    def _say_to_all(self, controls: Sequence[Entered | Ended], now_us: int) -> None:
        for start in range(0, len(controls), MOST_AS_ONE):
            part = tuple(controls[start : start + MOST_AS_ONE])
            self._say(EVERY_BROKER, Several(part) if len(part) > 1 else part[0], now_us)
