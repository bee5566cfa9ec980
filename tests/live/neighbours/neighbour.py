"""What every client of a day does, in whatever library: publish, keep a state, and listen to all.

It publishes 0, 1, 2, … to `day/NAME/data` at QoS 1, each when the one before is acknowledged, and
every so often a number to `day/NAME/state`, retained.  It listens to the data of all in a session
that is kept.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

DATA, STATE = "data", "state"
EVERYBODY = f"day/+/{DATA}"
# Every so many are states as well.
STATE_EVERY = 5
PAUSE_S = 0.02


def topic(name: str, kind: str = DATA) -> str:
    return f"day/{name}/{kind}"


class Place(NamedTuple):
    """Where a client connects, and where it may write."""

    host: str
    port: int
    folder: Path


class Neighbour:
    """One program or library; `missing` says why it cannot take part."""

    name = ""
    missing = ""

    def __init__(self, place: Place) -> None:
        self.place = place
        # What was acknowledged to it, and what has come to it by topic, in their orders.
        self.acknowledged: list[int] = []
        self.heard: dict[str, list[int]] = defaultdict(list)
        # The state that was acknowledged last.
        self.state = -1
        self.is_over = threading.Event()
        self.is_gone = threading.Event()

    def start(self) -> None:
        """Begin to publish and to listen."""
        raise NotImplementedError

    def stop_publishing(self) -> None:
        """End what it publishes with what is acknowledged; it goes on listening."""
        self.is_over.set()

    def end(self) -> None:
        """Be gone."""
        self.is_over.set()
        self.is_gone.set()

    def hear(self, name: str, payload: bytes | str) -> None:
        self.heard[name].append(int(payload))

    def acknowledge(self, number: int, kind: str) -> None:
        if kind == STATE:
            self.state = number
        else:
            self.acknowledged.append(number)


def kinds(number: int) -> tuple[str, ...]:
    """What is published of a number."""
    return (DATA,) if number % STATE_EVERY else (DATA, STATE)
