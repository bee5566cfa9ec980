"""Versions of all entries of a member table, to be exchanged and compared as arrays.

In most rounds of gossip nothing but versions has changed: tables of the same *basis*, a digest of
all entries without their versions, differ in heartbeats alone. These are sent as bytes, in the
order of names.

>>> one, other = Heartbeats(), Heartbeats()
>>> for name, version in (("M2", 4), ("M1", 3)):
...     one.put(name, 0, 7, version, now_us=0)
>>> for name, version in (("M1", 9), ("M2", 1)):
...     other.put(name, 0, 7, version, now_us=0)
>>> one.basis == other.basis, one.is_ahead_of(other.to_bytes())
(True, True)
>>> one.renew(other.to_bytes(), "M2", now_us=5)
>>> one.version("M1"), one.heard_us("M1"), one.version("M2")
(9, 5, 4)

Source: Li et al., BlueDove, section III-C (tables are exchanged); the digests are ours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.model import BrokerId

Versions = npt.NDArray[np.int64]
_FIRST_ROOM = 8
# A version on the wire: matchers announce themselves once a second.
_WIRE = np.dtype("<u4")
_GREATEST = np.iinfo(_WIRE).max
_LARGEST = np.iinfo(np.int64).max


class Heartbeats:
    """Versions and times of entries; `basis` of all that is not a version."""

    def __init__(self) -> None:
        self.basis = 0
        self._places: dict[BrokerId, int] = {}
        self._versions: Versions = np.zeros(_FIRST_ROOM, np.int64)
        self._heard_us: Versions = np.zeros(_FIRST_ROOM, np.int64)
        self._is_stale: npt.NDArray[np.bool_] = np.zeros(_FIRST_ROOM, np.bool_)
        self._has_stale = False
        # Whether places are in the order of names.
        self._is_sorted = True
        self._names: list[BrokerId] = []

    def __len__(self) -> int:
        return len(self._names)

    def version(self, name: BrokerId) -> int:
        """The version of a known entry."""
        return int(self._versions[self._places[name]])

    def heard_us(self, name: BrokerId) -> int:
        """When a known entry was last renewed."""
        return int(self._heard_us[self._places[name]])

    def put(self, name: BrokerId, before: int, after: int, version: int, now_us: int) -> None:
        """There is a new entry of this name; the digests are without its version, 0 for none."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self._names)
            self._is_sorted = self._is_sorted and not (self._names and name < self._names[-1])
            self._names.append(name)
            if place == len(self._versions):
                self._versions, self._heard_us = _longer(self._versions), _longer(self._heard_us)
                self._is_stale = np.concatenate([self._is_stale, np.zeros_like(self._is_stale)])
        self.basis ^= before ^ after
        self._versions[place] = min(version, _LARGEST)
        self._heard_us[place] = now_us
        self._is_stale[place] = False

    def to_bytes(self) -> bytes:
        """All versions, four bytes each, in the order of names; none if one does not fit."""
        versions = self._ordered()
        if versions.max(initial=0) > _GREATEST or versions.min(initial=0) < 0:
            return b""
        return versions.astype(_WIRE).tobytes()

    def fits(self, basis: int, versions: bytes) -> bool:
        """Whether these are versions of a table of this basis, and of as many entries."""
        return basis == self.basis and len(versions) == _WIRE.itemsize * len(self)

    def is_ahead_of(self, versions: bytes) -> bool:
        """Whether any version here is greater; of a table of the same basis."""
        return bool((self._ordered() > np.frombuffer(versions, _WIRE)).any())

    def renew(self, versions: bytes, own: BrokerId | None, now_us: int) -> None:
        """Take over greater versions, but for the own entry; of a table of the same basis."""
        mine, theirs = self._ordered(), np.frombuffer(versions, _WIRE)
        is_newer = theirs > mine
        if own in self._places:
            is_newer[self._places[own]] = False
        np.copyto(mine, theirs, where=is_newer)
        count = len(self)
        self._heard_us[:count][is_newer] = now_us
        self._is_stale[:count] |= is_newer
        self._has_stale = True

    def take_stale(self) -> list[tuple[BrokerId, int]]:
        """The entries whose versions were renewed since the last call, or since they were put, with
        these versions.
        """
        if not self._has_stale:
            return []
        self._has_stale = False
        places = np.flatnonzero(self._is_stale)
        self._is_stale[places] = False
        versions = self._versions[places].tolist()
        return [
            (self._names[place], each)
            for place, each in zip(places.tolist(), versions, strict=True)
        ]

    def silent(self, before_us: int) -> list[BrokerId]:
        """The entries that were last renewed before a time, by name."""
        places = np.flatnonzero(self._heard_us[: len(self)] < before_us)
        return sorted(self._names[place] for place in places.tolist())

    def _ordered(self) -> Versions:
        """The versions in the order of names, as a part of the array."""
        if not self._is_sorted:
            order = sorted(range(len(self)), key=self._names.__getitem__)
            for values in (self._versions, self._heard_us, self._is_stale):
                values[: len(self)] = values[order]
            self._names.sort()
            self._places = {name: place for place, name in enumerate(self._names)}
            self._is_sorted = True
        return self._versions[: len(self)]


def _longer(values: Versions) -> Versions:
    return np.concatenate([values, np.zeros_like(values)])
