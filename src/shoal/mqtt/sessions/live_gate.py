"""The gate of a subscription with a past: which of its live publications go to the client.

Numbers of publications grow at each broker, over all its clients and incarnations, and a record of
the log has its publication's number. So one number, the fence, cuts a network's publications in
two: those below it come from the logs, the others live (see `shoal.mqtt.replaying`).

| publication | no fence yet | fence, past not over | past is over |
| --- | --- | --- | --- |
| of a broker without a log, or none that a log keeps | passes | passes | passes |
| number below the fence | dropped | dropped | dropped |
| other | dropped | held | passes |

>>> def published(number):
...     message = PublishedMessage("a", b"", "p", 0)
...     message.key = ("$mqtt/B1", number)
...     return message
>>> gate = LiveGate("-10m", 0, ("B1",))
>>> gate.admits(published(7)), gate.greatest
(False, 7)
>>> gate.fence = 9
>>> [gate.admits(published(number)) for number in (8, 9)], len(gate.held)
([False, False], 1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS
from shoal.mqtt.messages import PublishedMessage

# Bounds of held publications; beyond them the log is read further instead.
MOST_HELD, MOST_HELD_BYTES = 1_000, 1_048_576


class ReplayState(msgspec.Struct, frozen=True, array_like=True):
    """The past of a subscription as a record: asked for as `since`, which is `from_us`.

    `places` are the offset and the run at which each broker's log is read on; a broker without a
    place is read from `from_us` on. With a `fence` the past of these `brokers` is over.
    """

    since: str
    from_us: int
    brokers: tuple[BrokerId, ...]
    places: Mapping[BrokerId, tuple[int, int]] = {}
    fence: int = 0


class LiveGate:
    """One subscription's. `brokers` are those whose logs have the past."""

    __slots__ = (
        "brokers",
        "fence",
        "from_us",
        "greatest",
        "held",
        "held_bytes",
        "is_over",
        "keeps",
        "places",
        "since",
    )

    def __init__(self, since: str, from_us: int, brokers: Iterable[BrokerId]) -> None:
        self.since = since
        self.from_us = from_us
        self.brokers = set(brokers)
        self.places: dict[BrokerId, tuple[int, int]] = {}
        # 0 while there is none; and whether the whole past was delivered.
        self.fence = 0
        self.is_over = False
        # The greatest number that was dropped: the fence must be above it.
        self.greatest = 0
        self.held: deque[PublishedMessage] = deque()
        self.held_bytes = 0
        # Whether a log keeps a publication.
        self.keeps: Callable[[PublishedMessage], bool] | None = None

    @classmethod
    def restored(cls, state: ReplayState) -> LiveGate:
        """The gate of a record."""
        gate = cls(state.since, state.from_us, state.brokers)
        gate.places.update(state.places)
        gate.fence, gate.is_over = state.fence, state.fence > 0
        return gate

    @property
    def state(self) -> ReplayState:
        """The record: held publications are not in it, as the logs have them."""
        brokers = tuple(sorted(self.brokers))
        if self.is_over:
            return ReplayState(self.since, self.from_us, brokers, {}, self.fence)
        return ReplayState(self.since, self.from_us, brokers, dict(self.places))

    def admits(self, message: PublishedMessage) -> bool:
        """Whether a live publication goes to the client now; it may be held for later."""
        if self._is_outside(message):
            return True
        number = number_of(message)
        if self.fence and number >= self.fence:
            if self.is_over:
                return True
            self._hold_live(message)
        else:
            self.greatest = max(self.greatest, number)
        return False

    def _is_outside(self, message: PublishedMessage) -> bool:
        """Whether no log has it."""
        if self.keeps is not None and not self.keeps(message):
            return True
        if message.key is None or not message.key[0].startswith(RESERVED_CLIENT_IDS):
            return False
        return message.key[0].removeprefix(RESERVED_CLIENT_IDS) not in self.brokers

    def _hold_live(self, message: PublishedMessage) -> None:
        self.held.append(message)
        self.held_bytes += message.size
        if len(self.held) > MOST_HELD or self.held_bytes > MOST_HELD_BYTES:
            self.drop_held()

    def drop_held(self) -> None:
        """Drop held publications, and the fence: they come from the logs."""
        for message in self.held:
            self.greatest = max(self.greatest, number_of(message))
        self.held.clear()
        self.held_bytes = self.fence = 0


def number_of(message: PublishedMessage) -> int:
    """The number of a publication; its time, where none travels in a network."""
    return message.published_us if message.key is None else message.key[1]
