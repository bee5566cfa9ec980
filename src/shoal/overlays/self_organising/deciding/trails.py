"""Sampled paths of notifications through one broker, for counted costs of cycles (ours).

The paper's brokers estimate the cost of a cycle without each of its links, pair by pair. Here each
broker sends instead the notifications that it has from brokers or clients outside the cycle, or
passes to such. So for each notification the brokers of the cycle that need it are known, and with
them its cost along the line that remains without a link.

Of many notifications a sample is kept: those with identifiers that end in `level` zero bits, which
is the same sample at all brokers. After a change of links the paths are unknown for a window: until
then costs are estimated.

>>> trails = Trails(window_us=100)
>>> trails.begin(now_us=10)
>>> trails.add(8, frozenset({"B1", "B2"}), 50), trails.add(9, frozenset({"B1", HERE}), 60)
(None, None)
>>> trails.beside({"B1", "B2"}, now_us=99), trails.beside({"B2", "B3"}, now_us=120).count
(None, 2)
>>> trails.beside({"B1", "B2"}, now_us=120)
Trail(level=0, fresh=b'\\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00', older=b'')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
import numpy as np

from shoal.model import BrokerId
from shoal.overlays.self_organising.deciding.interest import ID_BYTES, Ids
from shoal.overlays.self_organising.deciding.planner import Cycle

# The side of a broker's own clients.
HERE: BrokerId = ""
MOST = 2_048
MAX_LEVEL = 63
_LITTLE = np.dtype("<u8")


class Trail(msgspec.Struct, frozen=True, array_like=True):
    """The notifications that one broker of a cycle needs for others than the cycle's brokers.

    Identifiers of 8 bytes, little end first, those with `level` lowest bits 0: of the last
    window, and of the one before, which others may still count in the last.
    """

    level: int
    fresh: bytes
    older: bytes

    @property
    def count(self) -> int:
        """Number of notifications."""
        return (len(self.fresh) + len(self.older)) // ID_BYTES

    def problem(self) -> str:
        """The error in a received trail; empty when it is valid."""
        sizes = len(self.fresh), len(self.older)
        if not 0 <= self.level <= MAX_LEVEL or any(size % ID_BYTES for size in sizes):
            return "no identifiers"
        return "" if sum(sizes) <= MOST * ID_BYTES else f"more than {MOST} identifiers"


class Trails:
    """Those of one broker: of two windows, `most` at most."""

    def __init__(self, window_us: int, most: int = MOST) -> None:
        self._window_us = window_us
        self._most = most
        self._level = 0
        # By identifier, oldest first: when it came, and its sides.
        self._rows: dict[int, tuple[int, frozenset[BrokerId]]] = {}
        # Since when all of the sample are there.
        self._since_us = 0

    def begin(self, now_us: int, level: int = 0) -> None:
        """Start, or start again after a change of links: earlier paths are invalid."""
        self._rows.clear()
        self._since_us, self._level = now_us, level

    def turn(self, now_us: int) -> None:
        """End a window if it is over.

        Lower the level if there are far fewer notifications than before.
        """
        self._forget_old_rows(now_us)
        if self._level and 8 * len(self._rows) < self._most:
            self.begin(now_us, self._level - 1)

    def add(self, id: int, sides: frozenset[BrokerId], now_us: int) -> None:
        """A notification came from, or went to, these neighbours or local clients."""
        if id & ((1 << self._level) - 1):
            return
        known = self._rows.get(id)
        self._rows[id] = (now_us, sides) if known is None else (known[0], known[1] | sides)
        if len(self._rows) > self._most:
            self._forget_old_rows(now_us)
        while len(self._rows) > self._most and self._level < MAX_LEVEL:
            self._level += 1
            mask = (1 << self._level) - 1
            self._rows = {id: row for id, row in self._rows.items() if not id & mask}

    def beside(self, cycle: Collection[BrokerId], now_us: int) -> Trail | None:
        """Notifications with a side outside the cycle; None without a full window."""
        self._forget_old_rows(now_us)
        window_us = self._window_us
        if now_us < self._since_us + window_us:
            return None
        fresh: list[int] = []
        older: list[int] = []
        for id, (at_us, sides) in self._rows.items():
            if not sides.issubset(cycle):
                (fresh if at_us > now_us - window_us else older).append(id)
        return Trail(self._level, _packed(fresh), _packed(older))

    def _forget_old_rows(self, now_us: int) -> None:
        """Those of before two windows."""
        rows, until_us = self._rows, now_us - 2 * self._window_us
        old = []
        for id, (at_us, _) in rows.items():
            if at_us > until_us:
                break
            old.append(id)
        for id in old:
            del rows[id]


def counted_vector(cycle: Cycle, trails: Sequence[Trail]) -> tuple[float, ...]:
    """The cycle's cost without each of its links; `trails` are its brokers'.

    A notification that two or more of them need goes along the remaining line from the first of
    these to the last, and costs links, and brokers that would not need it.
    """
    mask = np.uint64((1 << max(trail.level for trail in trails)) - 1)
    known = [[_ids(part, mask) for part in (trail.fresh, trail.older)] for trail in trails]
    ids = np.unique(np.concatenate([fresh for fresh, _ in known]))
    needs = np.zeros(len(ids), dtype=np.int64)
    for place, parts in enumerate(known):
        needs |= np.isin(ids, np.concatenate(parts)).astype(np.int64) << place
    vector = [0.0] * len(trails)
    for needing, count in zip(*np.unique(needs, return_counts=True), strict=True):
        places = [place for place in range(len(trails)) if needing >> place & 1]
        if len(places) > 1:
            for link in range(len(trails)):
                vector[link] += int(count) * _cost_without(cycle, link, places)
    return tuple(vector)


def _cost_without(cycle: Cycle, link: int, places: Sequence[int]) -> float:
    """One notification's cost, if these of the cycle's brokers need it, without a link."""
    size = len(cycle.brokers)
    order = sorted((place - link - 1) % size for place in places)
    cost = 0.0
    for step in range(order[0], order[-1]):
        cost += cycle.costs[(link + 1 + step) % size]
        if step not in order:
            cost += cycle.processing[(link + 1 + step) % size]
    return cost


def _packed(ids: Iterable[int]) -> bytes:
    return np.array(list(ids), dtype=_LITTLE).tobytes()


def _ids(data: bytes, mask: np.uint64) -> Ids:
    ids: Ids = np.frombuffer(data, dtype=_LITTLE)
    found: Ids = ids[(ids & mask) == 0]
    return found
