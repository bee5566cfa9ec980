"""States and inputs of a connection: the labels of its table (`connection.py`)."""

from __future__ import annotations

from shoal.broker.life_cycle import Label


class ConnectionState(Label):
    """A state of a connection."""

    WAITING = "waiting"
    ADMISSION = "admission"
    CONNECTED = "connected"
    REDIRECTED = "redirected"
    CLOSED = "closed"


class ConnectionInput(Label):
    """An input of a connection."""

    PACKETS = "packets"
    ADMITTED = "admission decided"
    TURN = "next time slice"
    REDIRECT = "redirect"
    DISCONNECT = "disconnect by the broker"
    LOST = "network connection lost"
