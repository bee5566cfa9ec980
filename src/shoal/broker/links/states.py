"""States and inputs of an end of a link (see `shoal.broker.links.session`)."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged
from shoal.broker.life_cycle import Label
from shoal.broker.wire import WireError


class LinkError(WireError):
    """The connection must end; `changes` are the earlier changes for the broker."""

    def __init__(self, problem: str, changes: list[LinkChanged]) -> None:
        super().__init__(problem)
        self.changes = changes


class OutOfStepError(LinkError):
    """Both ends are in one session and cannot continue it; the session is given up."""


class LinkSessionState(Label):
    IDLE = "idle"
    UP = "up"
    AWAY = "away"
    ENDING = "ending"
    PARTING = "parting"
    GONE = "gone"


class LinkInput(Label):
    """An input of an end of a link."""

    SAME = "hello, same session"
    OUT_OF_STEP = "the same, out of step"
    OTHER = "another hello"
    TO_END = "another, to end"
    LOST = "connection lost"
    GIVE_UP = "given up"
    TICK = "tick"
    END = "ends"
    OVER = "all settled"
    NONE = "no link at the other end"
