"""Where an end of a link can be, and what it hears (see `shoal.broker.links.session`)."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged
from shoal.broker.life_cycle import Label
from shoal.broker.wire import WireError


class LinkError(WireError):
    """The connection must end; `changes` are what has changed for the broker before that."""

    def __init__(self, problem: str, changes: list[LinkChanged]) -> None:
        super().__init__(problem)
        self.changes = changes


class OutOfStepError(LinkError):
    """Both ends were in one session and could not go on in it; it is given up."""


class State(Label):
    IDLE = "idle"
    UP = "up"
    AWAY = "away"
    ENDING = "ending"
    PARTING = "parting"
    GONE = "gone"


class Word(Label):
    """What an end of a link hears."""

    SAME = "hello, same session"
    OUT_OF_STEP = "the same, out of step"
    OTHER = "another hello"
    TO_END = "another, to end"
    LOST = "connection lost"
    GIVE_UP = "given up"
    TICK = "tick"
    END = "to be ended"
    OVER = "all is settled"
    NONE = "the other end has none"
