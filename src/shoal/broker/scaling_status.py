"""The state of a system that starts and ends brokers, as operators see it."""

from __future__ import annotations

import enum

import msgspec

from shoal.model import BrokerId


class ScalingState(enum.Enum):
    """The step that is under way.

    WATCHING   none: the loads are watched
    RESTING    none: the pause after the last step
    STARTING   the command that starts the broker's process runs
    JOINING    the broker's process runs, and the broker has no share of the work yet
    LEAVING    the broker hands its work over, and leaves the network
    ENDING     the command that ends the broker's process runs
    """

    WATCHING = "watching"
    RESTING = "resting"
    STARTING = "starting"
    JOINING = "joining"
    LEAVING = "leaving"
    ENDING = "ending"


class ScalingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a broker that decides about the number of others.

    broker            the one that is being started or ended; empty if none is
    since_us          when the step began, by the broker's clock
    serving           brokers that share the work
    spare             brokers that could be added: they do not run, or run and wait
    least, most       bounds of `serving`
    utilisation       mean of the serving brokers, 0 to 1; None: not known yet
    adds_above        the utilisation above which a broker is added
    removes_below     the utilisation of the others below which one is removed
    is_dry_run        the broker only says what it would do
    why               the reason of the step that is under way
    last, last_us     the last outcome in words, and its time; empty before the first
    problem           why the last step failed; empty if it did not
    """

    state: ScalingState
    broker: BrokerId
    since_us: int
    serving: int
    spare: int
    least: int
    most: int
    utilisation: float | None
    adds_above: float
    removes_below: float
    is_dry_run: bool
    why: str
    last: str
    last_us: int
    problem: str
