"""What a session that has come from elsewhere has had where it was.

A broker drops what comes a second time for all of its clients at once.  A session that came later
may lack some of that: what had come here before it, and never to those where it was, as they were
dead.  These are its gaps, by stream (`shoal.mqtt.door.repeats`).

>>> had = Had.arrived({"$mqtt/B1": 141}, {}, Heard({}, True), here={"$mqtt/B1": 161, "p": 9})
>>> [had.has(("$mqtt/B1", number)) for number in (141, 142)]
[True, False]
>>> [had.lacks("$mqtt/B1", number) for number in (141, 142, 161, 162)]
[False, True, True, False]
>>> had.fill(("$mqtt/B1", 150))
True
>>> had.gaps
{'$mqtt/B1': ((141, 149), (150, 161)), 'p': ((-1, 9),)}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from shoal.model import ClientId
from shoal.mqtt.door.network import RESERVED_CLIENT_IDS

# Of each stream the last publication that came somewhere.
Last = Mapping[str, int]
# Ranges of numbers, each behind its first and with its last one, from low to high.
Gaps = tuple[tuple[int, int], ...]
# More of one stream than any session gets that is not sent around for ever; then they are joined.
MOST_GAPS = 8
# Of so many streams a session keeps its gaps, some 150 bytes each; of more, only of doors'.
MOST_STREAMS = 100


class Heard(NamedTuple):
    """What a broker has heard that a session may have had there; whether it is all of it."""

    last: Last
    is_all: bool


class Had:
    """The `last` that it had elsewhere of each stream, all before it, and the `gaps` in that."""

    __slots__ = ("gaps", "last")

    def __init__(self, last: Last, gaps: Mapping[str, Gaps]) -> None:
        self.last = dict(last)
        self.gaps = dict(gaps)

    @classmethod
    def arrived(cls, last: Last, gaps: Mapping[str, Gaps], heard: Heard, here: Last) -> Had:
        """Of a session that comes with the first two to where all up to `here` has come before.

        Where it was it may have had all that is `heard`, too.
        """
        found = cls(last, gaps)
        for stream, until in here.items():
            if not (heard.is_all or stream in heard.last or stream in last):
                continue
            low = max(last.get(stream, -1), heard.last.get(stream, -1))
            if low < until:
                ranges = (*found.gaps.get(stream, ()), (low, until))
                if len(ranges) > MOST_GAPS:
                    ranges = (*ranges[:-2], (ranges[-2][0], until))
                found.gaps[stream] = ranges
        return found

    def has(self, key: tuple[ClientId, int]) -> bool:
        """Whether it had this where it was before; False where that cannot be known."""
        door, number = key
        return number <= self.last.get(door, -1) and not self.lacks(door, number)

    def lacks(self, stream: str, number: int) -> bool:
        """Whether this may have come here, or where it was, before the session did."""
        return any(low < number <= high for low, high in self.gaps.get(stream, ()))

    def fill(self, key: tuple[ClientId, int]) -> bool:
        """It has this now; whether it had lacked it.

        Of more gaps than are kept the first go: they come in their order, or nearly so.
        """
        publisher, number = key
        # The number is of the publisher; of which of its streams is not known.
        found = [
            stream
            for stream in self.gaps
            if stream.partition("\0")[0] == publisher and self.lacks(stream, number)
        ]
        for stream in found:
            ranges = tuple(_without(number, self.gaps[stream]))
            if ranges:
                self.gaps[stream] = ranges[-MOST_GAPS:]
            else:
                del self.gaps[stream]
        return bool(found)

    def fill_all(self, keys: Iterable[tuple[ClientId, int]]) -> None:
        """It has all of these now; most are of what it had not lacked."""
        until: dict[ClientId, int] = {}
        for stream, gaps in self.gaps.items():
            publisher = stream.partition("\0")[0]
            until[publisher] = max(until.get(publisher, -1), gaps[-1][1])
        for key in keys:
            if key[1] <= until.get(key[0], -1):
                self.fill(key)


def _without(number: int, ranges: Gaps) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        parts = ((low, number - 1), (number, high)) if low < number <= high else ((low, high),)
        yield from ((start, end) for start, end in parts if start < end)


class Lacking:
    """Up to which publication of each stream some session of a broker may lack what has come."""

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def note(self, had: Had) -> None:
        """A session is here now."""
        for stream, gaps in had.gaps.items():
            self._until[stream] = max(gaps[-1][1], self._until.get(stream, -1))

    def covers(self, stream: str, number: int) -> bool:
        """Whether a session may lack this."""
        return number <= self._until.get(stream, -1)


def of_doors(heard: Last) -> dict[str, int]:
    """Of the streams that a broker has heard those of doors that publish as one."""
    return {stream: last for stream, last in heard.items() if is_of_door(stream)}


def is_of_door(stream: str) -> bool:
    """Whether a door publishes it as one, in one order."""
    return stream.startswith(RESERVED_CLIENT_IDS) and "\0" not in stream


def in_short(heard: Last, doors: Last) -> Heard:
    """All that a broker has heard, or if that is too much what `doors` have published."""
    is_all = len(heard) <= MOST_STREAMS
    return Heard(dict(heard if is_all else doors), is_all)
