"""The states of one broker in an exchange of links, and what comes to it."""

from __future__ import annotations

from shoal.broker.life_cycle import Label


class State(Label):
    FREE = "free"
    OPENING = "opening"
    QUIET = "quiet"
    AGREED = "agreed"


class Event(Label):
    TOLD = "told to exchange links"
    OPENED = "the new link is up"
    HALT = "Halt"
    PASS = "Halted or Drained, to be passed on"
    AGREE = "Halted or Drained, to agree"
    DONE = "Verdict: yes"
    KEPT = "Verdict: no"
    DOUBT = "Doubt"
    FORGOTTEN = "Forgotten"
    BROKEN = "a link is gone"
    LATE = "time is up"
