"""Events of a run: the input of the judge, and a file in the folder of a failed run.

Times are seconds since the network was ready. Publisher and number identify a publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One event with its time."""

    at_s: float


# --- publishers ------------------------------------------------------------------------------


class Sent(Event, frozen=True, kw_only=True):
    """A PUBLISH was written to a broker; `again` if it is a retransmission."""

    client: str
    number: int
    qos: int
    x: int
    broker: str
    again: bool = False


class Taken(Event, frozen=True, kw_only=True):
    """PUBACK or PUBREC arrived: the publication is acknowledged."""

    client: str
    number: int


class Done(Event, frozen=True, kw_only=True):
    """PUBACK or PUBCOMP arrived: the exchange is complete."""

    client: str
    number: int


class Refused(Event, frozen=True, kw_only=True):
    """PUBACK or PUBREC with an error arrived."""

    client: str
    number: int
    reason: int


class GivenUp(Event, frozen=True, kw_only=True):
    """A QoS 2 publication was not answered, and its session is lost."""

    client: str
    number: int


# --- all clients -----------------------------------------------------------------------------


class Asked(Event, frozen=True, kw_only=True):
    """CONNECT was written."""

    client: str
    broker: str


class Entered(Event, frozen=True, kw_only=True):
    """CONNACK without an error arrived."""

    client: str
    broker: str
    present: bool


class TurnedAway(Event, frozen=True, kw_only=True):
    """CONNACK with an error arrived."""

    client: str
    broker: str
    reason: int


class Left(Event, frozen=True, kw_only=True):
    """A connection ended, or could not be opened."""

    client: str
    broker: str
    why: str


class Silent(Event, frozen=True, kw_only=True):
    """A broker did not answer a ping in time, after all faults were over."""

    client: str
    broker: str


# --- subscribers -----------------------------------------------------------------------------


class Granted(Event, frozen=True, kw_only=True):
    """SUBACK without an error arrived."""

    client: str


class Got(Event, frozen=True, kw_only=True):
    """A PUBLISH arrived that MQTT does not count as a repetition (by a packet identifier awaiting
    PUBREL).
    """

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
    """The broker listens, and its links are up."""

    broker: str


class Died(Event, frozen=True, kw_only=True):
    """A process ended that the run had not killed."""

    broker: str
    code: int


class Departed(Event, frozen=True, kw_only=True):
    """A broker left the network, as it was ordered."""

    broker: str


class Paused(Event, frozen=True, kw_only=True):
    broker: str


class Resumed(Event, frozen=True, kw_only=True):
    broker: str


class Disk(Event, frozen=True, kw_only=True):
    """From this time each write takes so long; with `is_full` writes fail."""

    broker: str
    delay_s: float = 0.0
    is_full: bool = False


class Cut(Event, frozen=True, kw_only=True):
    """A cable between two brokers stopped, in one or both directions."""

    broker: str
    other: str


class Mended(Event, frozen=True, kw_only=True):
    """A cable works again."""

    broker: str
    other: str


class Clock(Event, frozen=True, kw_only=True):
    """The clock of a broker's next incarnations has this offset."""

    broker: str
    off_s: float


class Calm(Event, frozen=True, kw_only=True):
    """All faults are over, and every broker runs."""


class Published(Event, frozen=True, kw_only=True):
    """Publishers have sent everything."""


class Measured(Event, frozen=True, kw_only=True):
    """A broker at rest: seconds of processor time in so many seconds, and its memory in MB at rest
    and when new.
    """

    broker: str
    cpu_s: float
    during_s: float
    memory_mb: float
    memory_at_start_mb: float


class Logged(Event, frozen=True, kw_only=True):
    """An unexpected line in a broker's log."""

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
