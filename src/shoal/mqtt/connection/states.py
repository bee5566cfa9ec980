"""Where a connection stands, and what it is told: the words of its table (`connection.py`)."""

from __future__ import annotations

from shoal.broker.life_cycle import Label


class State(Label):
    """Where a connection stands."""

    WAITING = "waiting"
    ADMISSION = "admission"
    CONNECTED = "connected"
    REDIRECTED = "redirected"
    CLOSED = "closed"


class Word(Label):
    """What a connection is told."""

    PACKETS = "packets"
    ADMITTED = "may it connect"
    TURN = "others had their turn"
    REDIRECT = "sent elsewhere"
    DISCONNECT = "the broker ends it"
    LOST = "the network is gone"
