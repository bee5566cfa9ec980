"""The member table: matchers, their segments, and the ages of these entries.

Every matcher writes one entry, about itself, and raises its version with every announcement; of two
the newest wins, except at the matcher itself, which accepts no entry about itself from others
(`contested`). An entry of a later generation (a server that started again) beats any of an earlier
one, and within a generation "dead" and "left" beat "alive", so that old heartbeats do not override
a failure. The lookup of a place's owner is one bisection.

>>> table = MemberTable(1)
>>> one = Member(broker="M1", generation=5, version=1, segments=(Segment(LOWEST, 10.0),))
>>> two = Member(broker="M2", generation=5, version=1, segments=(Segment(10.0, math.inf),))
>>> table.merge([one, two], now_us=0)
['M1', 'M2']
>>> table.owners(0, 10.0), table.owners_met(0, (Range(3.0, 10.0),))
(('M2',), ('M1', 'M2'))
>>> table.merge([msgspec.structs.replace(two, status=Status.DEAD)], now_us=9)
['M2']
>>> table.owners(0, 10.0), table.holes(0)
((), [Segment(low=10.0, high=inf)])

Source: Li et al., BlueDove, section III-C (the table that is gossiped).
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from shoal.matching.segments import LOWEST, Range
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.heartbeats import Heartbeats


class Segment(NamedTuple):
    """Places from `low` up to, but not including, `high`; empty when there are none."""

    low: float
    high: float

    def __bool__(self) -> bool:
        return self.low < self.high

    def has(self, place: float) -> bool:
        return self.low <= place < self.high

    def meets(self, ranges: Iterable[Range]) -> bool:
        own_low, own_high = self
        if own_low < own_high:
            for low, high in ranges:
                if low < own_high and own_low <= high:
                    return True
        return False


WHOLE = Segment(LOWEST, math.inf)
NOTHING = Segment(LOWEST, LOWEST)


class Status(enum.Enum):
    """A matcher's status; the later beats the earlier within one generation."""

    ALIVE = "alive"
    LEFT = "left"
    DEAD = "dead"


def _rank(status: Status) -> int:
    """Of two entries of one generation the higher wins."""
    if status is Status.ALIVE:
        return 0
    return 1 if status is Status.LEFT else 2


class Age(NamedTuple):
    """The age of an entry; greater is newer.

    Of two that differ in `version` alone, the newer is a heartbeat.
    """

    generation: int
    rank: int
    version: int
    changed: int

    def is_heartbeat_of(self, other: Age) -> bool:
        """Whether the entries differ in nothing but their version."""
        return (
            self.generation == other.generation
            and self.changed == other.changed
            and self.rank == other.rank
        )


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One matcher's entry.

    address      its address, for drivers that cannot derive it from the name
    generation   when it started, µs; 0 for one that is expected and not yet heard from
    version      raised by the matcher with every announcement
    changed      the version of its last change
    segments     the segments that it serves, one per dimension, possibly empty
    """

    broker: BrokerId
    address: str = ""
    generation: int
    version: int
    changed: int = 0
    status: Status = Status.ALIVE
    segments: tuple[Segment, ...]

    @property
    def age(self) -> Age:
        return Age(self.generation, _rank(self.status), self.version, self.changed)

    @property
    def basis(self) -> int:
        """A digest of the entry's age without its version."""
        said = f"{self.broker} {self.generation} {_rank(self.status)} {self.changed}"
        return xxh3_64_intdigest(said.encode())


def _is_as_new(one: Member, other: Member) -> bool:
    """Whether an entry is as new as another one that differs in its version at most.

    Ages in full cost more than the rest of a merge, where hundreds of members send their tables.
    """
    return (
        one.version >= other.version
        and one.changed >= other.changed
        and one.generation == other.generation
        and one.status is other.status
    )


class _Owners:
    """One dimension: the owners between two cuts."""

    __slots__ = ("cuts", "owners")

    def __init__(self, members: Iterable[Member], dimension: int) -> None:
        served = [(member.segments[dimension], member.broker) for member in members]
        bounds = {bound for segment, _ in served if segment for bound in segment}
        self.cuts = sorted(bounds - {LOWEST, math.inf})
        starts = [LOWEST, *self.cuts]
        owners: list[list[BrokerId]] = [[] for _ in starts]
        for segment, broker in served:
            if segment:
                first = bisect_right(self.cuts, segment.low)
                for number in range(first, len(starts)):
                    if starts[number] >= segment.high:
                        break
                    owners[number].append(broker)
        self.owners = [tuple(names) for names in owners]


class MemberTable:
    """All entries that one node knows; `own` is the name of its matcher, if it has one."""

    def __init__(self, dimensions: int, own: BrokerId | None = None) -> None:
        self.dimensions = dimensions
        self._own = own
        # The generation with which the own matcher's life began.
        self.born = 0
        # The age of others' entry about the own matcher that it has not written in this
        # incarnation.
        self.contested: Age | None = None
        # Their versions, and those of the ages, may be older than those of the heartbeats.
        self._members: dict[BrokerId, Member] = {}
        # By name in order.
        self._ages: dict[BrokerId, Age] = {}
        # By this node's clock.
        self.heartbeats = Heartbeats()
        # Raised whenever a member changes in more than version.
        self.revision = 0
        self._owners: list[_Owners] | None = None

    @property
    def members(self) -> Mapping[BrokerId, Member]:
        """All entries, by name."""
        self._refresh()
        return self._members

    def _refresh(self) -> None:
        """Bring entries and ages up to the heartbeats."""
        for name, version in self.heartbeats.take_stale():
            self._members[name] = msgspec.structs.replace(self._members[name], version=version)
            self._ages[name] = self._ages[name]._replace(version=version)

    @property
    def names(self) -> Collection[BrokerId]:
        """The names of all entries."""
        return self._members.keys()

    def entry(self, broker: BrokerId) -> Member | None:
        """One entry, but for its version."""
        return self._members.get(broker)

    def status(self, broker: BrokerId) -> Status:
        """The status of a member that has an entry."""
        return self._members[broker].status

    def without_known(self, members: Iterable[Member]) -> list[Member]:
        """These but for entries that `merge` would not take, as are most of a table that comes:
        the same object, or one of the same incarnation that is no newer.
        """
        known, own = self._members.get, self._own
        return [
            member
            for member in members
            if (mine := known(member.broker)) is not member
            and (mine is None or member.broker == own or not _is_as_new(mine, member))
        ]

    @property
    def ages(self) -> Mapping[BrokerId, Age]:
        """The age of each entry, by name in order."""
        self._refresh()
        return self._ages

    def alive(self) -> list[BrokerId]:
        """The names of the live members, in order."""
        members = sorted(self._members.items())
        return [name for name, member in members if member.status is Status.ALIVE]

    def merge(self, members: Iterable[Member], now_us: int) -> list[BrokerId]:
        """Merge newer entries; returns the members with more than a new version."""
        changed = []
        ages, count = self.ages, len(self._ages)
        for member in members:
            known = self._members.get(member.broker)
            age = member.age
            is_newer = known is None or ages[member.broker] < age
            if member.broker == self._own and age.generation:
                if is_newer or age.generation < self.born:
                    self.contested = age if self.contested is None else max(age, self.contested)
                continue
            if not is_newer:
                continue
            if len(member.segments) != self.dimensions:
                continue  # of another configuration: it cannot be used here
            if self._put(member, age, now_us):
                changed.append(member.broker)
        self._sort_ages(count)
        return changed

    def _sort_ages(self, count: int) -> None:
        """Have ages in order again after there were so many."""
        if len(self._ages) > count:
            self._ages = dict(sorted(self._ages.items()))

    def replaced(self, members: Iterable[Member]) -> list[Member]:
        """The entries of earlier incarnations that these would replace."""
        return [
            known
            for member in members
            if (known := self._members.get(member.broker)) is not None
            and 0 < known.generation < member.generation
            and known.broker != self._own
        ]

    def write(self, member: Member, now_us: int) -> None:
        """Store the own matcher's entry."""
        count = len(self._ages)
        self._put(member, member.age, now_us)
        self._sort_ages(count)

    def _put(self, member: Member, age: Age, now_us: int) -> bool:
        """Returns whether that changes more than the version."""
        known = self._members.get(member.broker)
        self._members[member.broker] = member
        before = after = 0
        if known is None or not age.is_heartbeat_of(self._ages[member.broker]):
            before, after = 0 if known is None else known.basis, member.basis
        self._ages[member.broker] = age
        self.heartbeats.put(member.broker, before, after, member.version, now_us)
        if (
            known is not None
            and known.generation == member.generation
            and known.status is member.status
            and known.segments == member.segments
        ):
            return False
        self.revision += 1
        self._owners = None
        return True

    def renew(self, ages: Mapping[BrokerId, Age], now_us: int) -> None:
        """Merge heartbeats of members without changes."""
        mine = self.ages if ages else {}
        for name, age in ages.items():
            if name not in self._members or name == self._own:
                continue
            known = mine[name]
            if age > known and age.is_heartbeat_of(known):
                row = msgspec.structs.replace(self._members[name], version=age.version)
                self._put(row, age, now_us)

    def renew_all(self, versions: bytes, now_us: int) -> None:
        """Merge the heartbeats of a table of the same basis."""
        self.heartbeats.renew(versions, self._own, now_us)

    def serving(self) -> list[Member]:
        """Live members that have been heard from, by name."""
        return [member for _, member in sorted(self._members.items()) if is_serving(member)]

    def is_serving(self, broker: BrokerId) -> bool:
        member = self._members.get(broker)
        return member is not None and is_serving(member)

    def gone(self) -> tuple[BrokerId, ...]:
        """Those that died, by name."""
        members = sorted(self._members.items())
        return tuple(name for name, member in members if member.status is Status.DEAD)

    # --- owners of places ---------------------------------------------------------------------

    def owners(self, dimension: int, place: float) -> tuple[BrokerId, ...]:
        """The owners of a place, by name."""
        owners = (self._owners or self._look_up())[dimension]
        return owners.owners[bisect_right(owners.cuts, place)]

    def intervals(self, dimension: int) -> tuple[list[float], list[tuple[BrokerId, ...]]]:
        """The cuts of a dimension, ascending, and the owners of the intervals between them."""
        owners = (self._owners or self._look_up())[dimension]
        return owners.cuts, owners.owners

    def owners_met(self, dimension: int, ranges: Iterable[Range]) -> tuple[BrokerId, ...]:
        """The owners of places in these ranges, each once, in the order of places."""
        owners = (self._owners or self._look_up())[dimension]
        met: dict[BrokerId, None] = {}
        for low, high in ranges:
            first, last = bisect_right(owners.cuts, low), bisect_right(owners.cuts, high)
            for number in range(first, last + 1):
                for name in owners.owners[number]:
                    met[name] = None
        return tuple(met)

    def holes(self, dimension: int) -> list[Segment]:
        """Unserved segments, ascending; neighbouring ones are merged."""
        owners = (self._owners or self._look_up())[dimension]
        bounds = [LOWEST, *owners.cuts, math.inf]
        found: list[Segment] = []
        for number, names in enumerate(owners.owners):
            if names:
                continue
            hole = Segment(bounds[number], bounds[number + 1])
            if found and found[-1].high == hole.low:
                hole = Segment(found.pop().low, hole.high)
            found.append(hole)
        return found

    def clockwise(self, dimension: int, place: float) -> BrokerId | None:
        """The next matcher after the one that serves a place, around the dimension."""
        owners = (self._owners or self._look_up())[dimension]
        number = bisect_right(owners.cuts, place)
        here = owners.owners[number]
        for step in range(1, len(owners.owners)):
            for name in owners.owners[(number + step) % len(owners.owners)]:
                if name not in here:
                    return name
        return None

    def _look_up(self) -> list[_Owners]:
        serving = self.serving()
        self._owners = [_Owners(serving, number) for number in range(self.dimensions)]
        return self._owners


def is_serving(member: Member) -> bool:
    return member.status is Status.ALIVE and member.generation > 0
