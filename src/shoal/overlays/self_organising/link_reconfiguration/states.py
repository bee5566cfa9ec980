"""States and inputs of one broker in a link reconfiguration."""

from __future__ import annotations

from shoal.broker.life_cycle import Label


class ReconfigurationState(Label):
    FREE = "free"
    OPENING = "opening"
    QUIESCED = "quiesced"
    AGREED = "agreed"


class ReconfigurationEvent(Label):
    BEGIN = "an exchange begins"
    OPENED = "the new link is up"
    HALT = "Halt"
    FORWARD = "Halted or Drained, to forward"
    AGREE = "Halted or Drained, to agree"
    DONE = "Decision: done"
    KEPT = "Decision: not done"
    DOUBT = "Doubt"
    FORGOTTEN = "Forgotten"
    BROKEN = "a link is lost"
    LATE = "timeout"
