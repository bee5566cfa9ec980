"""The deduplication window of a session that came from another broker: what it got there.

A broker drops duplicates for all of its clients at once. A session that came later may lack some of
those publications: they came here before the session, and never to its earlier broker, which was
dead. These are its gaps, by stream (`shoal.mqtt.front_end.deduplication`).

>>> here = {"$mqtt/B1": 161, "p": 9}
>>> had = DeduplicationWindow.arrived({"$mqtt/B1": 141}, {}, Heard({}, True), here)
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
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS

# The number of the last publication of each stream.
Last = Mapping[str, int]
# Ranges of numbers, each without its first and with its last one, ascending.
Gaps = tuple[tuple[int, int], ...]
# The bound of gaps of one stream; above it, gaps are merged.
MOST_GAPS = 8
# The bound of streams with gaps in a session, some 150 bytes each; above it, only front ends'.
MOST_STREAMS = 100


class Heard(NamedTuple):
    """Publications that a broker has received, and a session perhaps there; `is_all` if
    complete."""

    last: Last
    is_all: bool


class DeduplicationWindow:
    """The numbers up to `last` of each stream that a session got elsewhere, except the `gaps`."""

    __slots__ = ("gaps", "last")

    def __init__(self, last: Last, gaps: Mapping[str, Gaps]) -> None:
        self.last = dict(last)
        self.gaps = dict(gaps)

    @classmethod
    def arrived(
        cls, last: Last, gaps: Mapping[str, Gaps], heard: Heard, here: Last
    ) -> DeduplicationWindow:
        """The window of an incoming session, at a broker that has received all numbers up to
        `here`.

        At its source the session may have got the numbers up to `heard`, too.
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
        """Whether the session got this elsewhere; False if that is not known."""
        front_end, number = key
        return number <= self.last.get(front_end, -1) and not self.lacks(front_end, number)

    def lacks(self, stream: str, number: int) -> bool:
        """Whether the session may lack this although brokers received it earlier."""
        return any(low < number <= high for low, high in self.gaps.get(stream, ()))

    def fill(self, key: tuple[ClientId, int]) -> bool:
        """Close a gap: the session has this; returns whether it lacked it.

        Beyond the bound the first gaps are dropped: publications come nearly in order.
        """
        publisher, number = key
        # The number is unique for the publisher; its stream is not known.
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
        """Close gaps for many keys, most of which were not lacking."""
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
    """The highest publication of each stream that some session of a broker may lack."""

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def note(self, had: DeduplicationWindow) -> None:
        """Add the window of a session."""
        for stream, gaps in had.gaps.items():
            self._until[stream] = max(gaps[-1][1], self._until.get(stream, -1))

    def covers(self, stream: str, number: int) -> bool:
        """Whether a session may lack this."""
        return number <= self._until.get(stream, -1)


def of_front_ends(heard: Last) -> dict[str, int]:
    """The streams of front ends, which publish as one client."""
    return {stream: last for stream, last in heard.items() if is_of_front_end(stream)}


def is_of_front_end(stream: str) -> bool:
    """Whether it is the stream of a front end with a single order."""
    return stream.startswith(RESERVED_CLIENT_IDS) and "\0" not in stream


def in_short(heard: Last, front_ends: Last) -> Heard:
    """All received numbers, or if these are too many, those of front ends."""
    is_all = len(heard) <= MOST_STREAMS
    return Heard(dict(heard if is_all else front_ends), is_all)
