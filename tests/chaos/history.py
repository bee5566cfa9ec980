"""What happened in a run, as events: what the judge is told, and what a failed run leaves behind.

Times are seconds since the network was whole.  A publication is known by its publisher and number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Something that happened."""

    at_s: float


# --- publishers ------------------------------------------------------------------------------


class Sent(Event, frozen=True, kw_only=True):
    """A PUBLISH was written to a broker, `again` when it had been before."""

    client: str
    number: int
    qos: int
    x: int
    broker: str
    again: bool = False


class Taken(Event, frozen=True, kw_only=True):
    """PUBACK or PUBREC: the network has it."""

    client: str
    number: int


class Done(Event, frozen=True, kw_only=True):
    """PUBACK or PUBCOMP: nothing is left to say."""

    client: str
    number: int


class Refused(Event, frozen=True, kw_only=True):
    """PUBACK or PUBREC with an error."""

    client: str
    number: int
    reason: int


class GivenUp(Event, frozen=True, kw_only=True):
    """QoS 2, not answered, and the session is gone: nobody knows whether it was taken."""

    client: str
    number: int


# --- all clients -----------------------------------------------------------------------------


class Asked(Event, frozen=True, kw_only=True):
    """CONNECT was written."""

    client: str
    broker: str


class Entered(Event, frozen=True, kw_only=True):
    """CONNACK, without an error."""

    client: str
    broker: str
    present: bool


class TurnedAway(Event, frozen=True, kw_only=True):
    """CONNACK with an error."""

    client: str
    broker: str
    reason: int


class Left(Event, frozen=True, kw_only=True):
    """The connection is over, or there was none."""

    client: str
    broker: str
    why: str


class Silent(Event, frozen=True, kw_only=True):
    """A broker did not answer a ping in time, though all faults were over."""

    client: str
    broker: str


# --- subscribers -----------------------------------------------------------------------------


class Granted(Event, frozen=True, kw_only=True):
    """SUBACK, without an error."""

    client: str


class Got(Event, frozen=True, kw_only=True):
    """A PUBLISH that MQTT does not make a repeat (a packet identifier that waits for PUBREL)."""

    client: str
    publisher: str
    number: int
    x: int
    broker: str
    again: bool = False


# --- brokers ---------------------------------------------------------------------------------


class Killed(Event, frozen=True, kw_only=True):
    broker: str


class Started(Event, frozen=True, kw_only=True):
    broker: str


class Ready(Event, frozen=True, kw_only=True):
    """It listens, and its links are up."""

    broker: str


class Died(Event, frozen=True, kw_only=True):
    """A process ended that nobody had killed."""

    broker: str
    code: int


class Paused(Event, frozen=True, kw_only=True):
    broker: str


class Resumed(Event, frozen=True, kw_only=True):
    broker: str


class Disk(Event, frozen=True, kw_only=True):
    """From now on each write takes so long; `is_full`: nothing can be written."""

    broker: str
    delay_s: float = 0.0
    is_full: bool = False


class Cut(Event, frozen=True, kw_only=True):
    """Nothing passes the cable between two brokers, at times one way only."""

    broker: str
    other: str


class Mended(Event, frozen=True, kw_only=True):
    """All passes again."""

    broker: str
    other: str


class Clock(Event, frozen=True, kw_only=True):
    """A broker's next lives begin with a clock that is so far off."""

    broker: str
    off_s: float


class Calm(Event, frozen=True, kw_only=True):
    """All faults are over, and every broker runs."""


class Published(Event, frozen=True, kw_only=True):
    """Publishers have sent all that they will."""


class Measured(Event, frozen=True, kw_only=True):
    """A broker at rest: seconds of processor time during so many seconds, its memory in MB now
    and when it was new.
    """

    broker: str
    cpu_s: float
    during_s: float
    memory_mb: float
    memory_at_start_mb: float


class Logged(Event, frozen=True, kw_only=True):
    """A line of a broker's log that should not be there."""

    broker: str
    line: str


AnyEvent = (
    Sent | Taken | Done | Refused | GivenUp | Asked | Entered | TurnedAway | Left | Silent | Granted
    | Got | Killed | Started | Ready | Died | Paused | Resumed | Disk | Cut | Mended | Clock | Calm
    | Published | Measured | Logged
)  # fmt: skip

_decode = msgspec.json.Decoder(AnyEvent).decode


def write_history(path: Path, events: Iterable[Event]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))


def read_history(path: Path) -> Sequence[Event]:
    return [_decode(line) for line in path.read_bytes().splitlines()]
