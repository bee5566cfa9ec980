"""The exchange of member tables: digests first, then only what the other does not have.

A node sends a digest: the basis of its table and the version of each entry. A partner of the same
basis takes over greater versions, and answers with its own if any of these is greater. A partner of
another basis, or with a version beyond four bytes, answers with the age of each of its entries, as
a digest of its own; the node answers that with newer entries and the names of those that it wants,
and the partner sends these. For an entry without changes the age alone is sent as a heartbeat.
Partners are drawn at random: as many as the logarithm of the number of matchers, so that a change
reaches all in about as many rounds.

>>> table = MemberTable(0)
>>> old = Member(broker="M1", generation=5, version=1, segments=())
>>> new = msgspec.structs.replace(old, version=7)
>>> table.merge([new], now_us=0)
['M1']
>>> comparison = compare(table, {"M1": old.age, "M2": old.age}, now_us=0)
>>> comparison.members, comparison.ages, comparison.wanted
((), {'M1': Age(generation=5, rank=0, version=7, changed=0)}, ('M2',))
>>> fan_out(20), fan_out(1)
(5, 1)

Source: Li et al., BlueDove, section III-C; its formula for the cost is in section IV-C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import msgspec

from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.members import Age, Member, MemberTable, Status

# The paper's measured exchange, its table row, its report, and the dispatcher's pull interval.
PAPER_EXCHANGE_BYTES = 2_900
PAPER_PER_DISPATCHER_BYTES = 20
# One in this many rounds also asks a dead node, so that a healed partition is found.
ROUNDS_PER_LOST_CONTACT = 10


def fan_out(matchers: int) -> int:
    """Number of partners in one round."""
    return max(1, math.ceil(math.log2(matchers))) if matchers > 1 else 1


def digest(table: MemberTable) -> dict[BrokerId, Age]:
    """The age of each entry, by name."""
    return dict(table.ages)


class Comparison(NamedTuple):
    """Answer to a digest: new entries, heartbeats, and wanted names."""

    members: tuple[Member, ...]
    ages: dict[BrokerId, Age]
    wanted: tuple[BrokerId, ...]

    def __bool__(self) -> bool:
        return bool(self.members or self.ages or self.wanted)


def compare(table: MemberTable, ages: Mapping[BrokerId, Age], now_us: int) -> Comparison:
    """Entries newer here, heartbeats, and names of entries that are newer there.

    Newer heartbeats of these ages are merged into the table.
    """
    news, newer, wanted = [], {}, []
    heartbeats: dict[BrokerId, Age] = {}
    own, members = table.ages, table.members
    for name, mine in own.items():
        theirs = ages.get(name)
        if mine == theirs:
            continue
        if theirs is None:
            news.append(members[name])
        elif mine > theirs:
            if mine.is_heartbeat_of(theirs):
                newer[name] = mine
            else:
                news.append(members[name])
        elif theirs.is_heartbeat_of(mine):
            heartbeats[name] = theirs
        else:
            wanted.append(name)
    wanted += sorted(ages.keys() - own.keys())
    table.renew(heartbeats, now_us)
    return Comparison(tuple(news), newer, tuple(wanted))


def choose_partners(
    table: MemberTable, me: BrokerId, round_number: int, random: Random
) -> list[BrokerId]:
    """Partners of this round; expected matchers count, too, as they may be there."""
    others = [name for name in table.alive() if name != me]
    partners = random.sample(others, min(len(others), fan_out(len(others) + 1)))
    if round_number % ROUNDS_PER_LOST_CONTACT == 0:
        # A broker that has left is at no address any more.
        names = sorted(table.names)
        dead = [name for name in names if name != me and table.status(name) is Status.DEAD]
        if dead:
            partners.append(random.choice(dead))
    return partners


def silent(table: MemberTable, me: BrokerId, before_us: int) -> list[Member]:
    """Live members without news since then, by name."""
    names = table.heartbeats.silent(before_us)
    members = table.members if names else {}
    found = ((name, members[name]) for name in names)
    return [member for name, member in found if name != me and member.status is Status.ALIVE]


def paper_bytes_per_s(dispatchers: int) -> int:
    """A matcher's whole overhead by the paper's formula (IV-C)."""
    return PAPER_EXCHANGE_BYTES + PAPER_PER_DISPATCHER_BYTES * dispatchers


def encoded_bytes(message: msgspec.Struct) -> int:
    """A message's size as it is on a wire."""
    return len(msgspec.msgpack.encode(message))
