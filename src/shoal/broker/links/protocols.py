"""Which link protocols two brokers have in common: the newest that both speak is spoken.

A protocol is a number; a broker speaks all from its oldest to its newest.  A kind of message that
came later than protocol 1 says since when it is there (`Message.since`), and does not go to a
broker that does not know it: so it must be one that such a broker can do without.  What all must
know begins a protocol that is the oldest, too, one version after brokers could speak it.

| protocol | brings |
| --- | --- |
| 2 | several messages as one (`Together`), which go one by one over a link that speaks 1 |
| 3 | word of what else `is_awaited` than publications; over a link that speaks 2 nobody waits |
| 4 | OctopiA's word that nothing for a lost gate is under way; without it the next waits for 3 s |
| 5 | a leaver's word of who is away; without it these may find nobody when they are back |
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.broker.wire import WireError
from shoal.model import BrokerId


class Protocols(NamedTuple):
    """All from `oldest` to `newest`.

    >>> print(Protocols(1, 1), "and", Protocols(2, 4))
    1 and 2 to 4
    """

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.newest}"


# Those of this version.  Brokers that do not say which they speak, speak the first.
FIRST = Protocols(1, 1)
OURS = Protocols(1, 5)
# Since when the other end says when what is awaited is settled.
AWAITED = 3
# Since when brokers of OctopiA say that a way is cleared.
CLEARED = 4
# Since when who leaves a tree says which of its neighbours are away.
ABSENT = 5


def agreed(broker: BrokerId, ours: Protocols, other: BrokerId, theirs: Protocols) -> int:
    """The protocol that both speak; WireError names both where there is none.

    >>> agreed("B1", Protocols(2, 4), "B2", Protocols(1, 3))
    3
    >>> agreed("B1", Protocols(2, 4), "B2", Protocols(5, 6))
    Traceback (most recent call last):
    shoal.broker.wire.WireError: B2 speaks link protocol 5 to 6, B1 speaks 2 to 4
    """
    newest = min(ours.newest, theirs.newest)
    if newest < max(ours.oldest, theirs.oldest):
        raise WireError(f"{other} speaks link protocol {theirs}, {broker} speaks {ours}")
    return newest
