"""The behaviour of each client of a day: publish, keep a state, and subscribe to all.

It publishes 0, 1, 2, … to `day/NAME/data` at QoS 1, each after the acknowledgement of the one
before, and regularly a number to `day/NAME/state`, retained. It subscribes to all data in a lasting
session.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

DATA, STATE = "data", "state"
EVERYBODY = f"day/+/{DATA}"
# One number in so many is a state as well.
STATE_EVERY = 5
PAUSE_S = 0.02


def topic(name: str, kind: str = DATA) -> str:
    return f"day/{name}/{kind}"


class Place(NamedTuple):
    """The broker that a client connects to, and a folder that it may write to."""

    host: str
    port: int
    folder: Path


class Neighbour:
    """One program or library; `missing` says why it cannot take part."""

    name = ""
    missing = ""

    def __init__(self, place: Place) -> None:
        self.place = place
        # The numbers acknowledged to it, and those received by topic, in order.
        self.acknowledged: list[int] = []
        self.heard: dict[str, list[int]] = defaultdict(list)
        # The last state that was acknowledged.
        self.state = -1
        self.is_over = threading.Event()
        self.is_gone = threading.Event()

    def start(self) -> None:
        """Begin to publish and to subscribe."""
        raise NotImplementedError

    def stop_publishing(self) -> None:
        """Wait for the last acknowledgement and publish no more; the subscription stays."""
        self.is_over.set()

    def end(self) -> None:
        """End the client."""
        self.is_over.set()
        self.is_gone.set()

    def record(self, name: str, payload: bytes | str) -> None:
        self.heard[name].append(int(payload))

    def acknowledge(self, number: int, kind: str) -> None:
        if kind == STATE:
            self.state = number
        else:
            self.acknowledged.append(number)


def kinds(number: int) -> tuple[str, ...]:
    """The kinds of messages that a number is published as."""
    return (DATA,) if number % STATE_EVERY else (DATA, STATE)
