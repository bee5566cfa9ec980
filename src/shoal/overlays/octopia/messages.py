"""What OctopiA's brokers say to each other.

In a cluster every broker's *table* travels to all others: its subscriptions, and the region that it
links up to.  A table has a version, so that whatever way it comes, and how often, the newest holds.
Between clusters advertisements go to one broker of each other cluster, and bits come back.  Of both
whoever subscribed waits until they are everywhere (`is_awaited`): until then it may miss something.
So does whoever advertised: until the bits are back what it publishes may be missed.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.messages import Carrier, Message
from shoal.broker.strategy import ProtocolError
from shoal.broker.wire import MAX_HOPS
from shoal.model import AdvertisementId, BrokerId, ClientId, Filter, Subscription, SubscriptionId
from shoal.overlays.octopia.places.roster import Places
from shoal.overlays.tree.messages import AdvertisementsSaid


class Notification(Carrier, frozen=True):
    """Publications on their way; `hops` counts the links travelled so far.

    owed   bits of the clusters that the receiver must see to, beside its own (CIV-N)
    only   the regions whose subscribers this copy is for, where others have one already; None: all
           that the receiver leads to
    shifts by cluster to be entered in the order of numbers (`ordering.py`): what is added to the
           number that its host gave a publication
    """

    hops: int
    owed: int = 0
    only: tuple[int, ...] | None = None
    shifts: Mapping[int, int] = {}

    def check(self, clusters: int) -> None:
        """ProtocolError unless a broker of so many clusters can have sent it."""
        _check(self.owed, self.hops, clusters)
        for cluster in self.shifts:
            if not 0 <= cluster < clusters:
                raise ProtocolError(f"{cluster} is none of {clusters} clusters")


class Spread(Carrier, frozen=True):
    """Publications on their way along this cluster's tree, for several clusters (`spreading.py`).

    clusters  bits of those for which the receiver sees to the regions
    regions   those regions: of the receiver, and beyond it
    """

    hops: int
    clusters: int
    regions: tuple[int, ...]

    def check(self, clusters: int) -> None:
        """ProtocolError unless a broker of so many clusters can have sent it."""
        _check(self.clusters, self.hops, clusters)


def _check(bits: int, hops: int, clusters: int) -> None:
    if not 0 <= bits < 1 << clusters:
        raise ProtocolError(f"{bits} are no bits of {clusters} clusters")
    if not 0 <= hops < MAX_HOPS:
        raise ProtocolError(f"{hops} is no number of hops")


CARRIERS = (Notification, Spread)


class HomeTable(Message, frozen=True):
    """The table of the broker of `region` in this cluster, all of it."""

    introduces = True
    is_awaited = True

    region: int
    version: int
    up: int | None
    subscriptions: tuple[Subscription, ...]


class HomeChange(Message, frozen=True):
    """What has changed in the table of the broker of `region`, since the version before."""

    introduces = True
    is_awaited = True
    joins = True

    region: int
    version: int
    up: int | None
    added: tuple[Subscription, ...] = ()
    removed: tuple[SubscriptionId, ...] = ()


class TablesKnown(Message, frozen=True):
    """To a broker of this cluster, when a link comes up: which tables are known, by region."""

    introduces = True

    versions: Mapping[int, int]


class TableWanted(Message, frozen=True):
    """To a broker of this cluster: a change came to a table that is not known here."""

    introduces = True
    is_awaited = True

    region: int


class TablesSaid(Message, frozen=True):
    """All tables that are newer than what the receiver knew have been said, and none is awaited."""

    introduces = True


class BitSet(Message, frozen=True):
    """From a secondary broker to the host: this cluster wants what is advertised (CIB_SET).

    filters  of it only what matches one of these; None: everything
    more     these, beside what was said before, and not instead of it
    """

    introduces = True
    is_awaited = True
    joins = True

    advertisement_id: AdvertisementId
    filters: tuple[Filter, ...] | None = None
    more: bool = False


class BitCleared(Message, frozen=True):
    """From a secondary broker to the host: it does not any more (ours; the paper only sets)."""

    introduces = True
    joins = True

    advertisement_id: AdvertisementId


class BitsSaid(Message, frozen=True):
    """From a secondary broker to the host: all bits of what was advertised have been said."""

    introduces = True


class NumbersBegin(Message, frozen=True):
    """To a gate: what a publisher sends to its cluster from now on is numbered, from this on.

    None: numbers began at another gate, and what went before may come here yet, or has arrived.
    That is said before what another life of the gate had not settled comes once more.
    """

    publisher: ClientId
    number: int | None

    @property
    def introduces(self) -> bool:  # type: ignore[override]
        return self.number is None


class NumbersEnd(Message, frozen=True):
    """To a gate: what comes from here from now on is not, and stands behind all lower numbers."""

    publisher: ClientId
    number: int


class WayLost(Message, frozen=True):
    """To the region: a link of it is lost, and with it maybe what was numbered."""


class NumbersOpen(Message, frozen=True):
    """To a gate that was told of numbers that began elsewhere: nothing lower comes any more.

    None: that will be said.
    """

    publisher: ClientId
    number: int | None


class WayClosed(Message, frozen=True):
    """To the region: the link to a gate of it is lost, and nothing is passed on for it any more.

    What was has gone back to its hosts (`order/clearing.py`); `round` comes back with the answer.
    """

    gate: BrokerId
    round: int


class WayOpened(Message, frozen=True):
    """To the region: the link to a gate is up again."""

    gate: BrokerId


class WayCleared(Message, frozen=True):
    """To whom has closed the way: all have, and what was here of it is back with its hosts."""

    gate: BrokerId
    round: int


class EntryLeft(Message, frozen=True):
    """To a secondary broker: the sender enters its cluster by another one now."""


class Sweep(Message, frozen=True):
    """Behind all that a host has sent into a cluster, to everybody there: is it through?

    is_for_lost  it asks for what was under way by a link that its broker has lost: whether that has
                 gone back there, and is on its new way
    """

    broker: BrokerId
    number: int
    is_for_lost: bool = False


class Swept(Message, frozen=True):
    """To whom the sweep came from: it has been everywhere from here on."""

    broker: BrokerId
    number: int


class DepartingMessage(Message, frozen=True):
    """About a broker that goes; `round` tells its attempts apart (see `departing.py`)."""

    leaver: BrokerId
    round: int


class Freeze(DepartingMessage, frozen=True):
    """From who goes: be ready to do without it; the centre will lead to the others."""

    centre: BrokerId
    others: tuple[BrokerId, ...]


class Thaw(DepartingMessage, frozen=True):
    """From who stays: it is led to as before."""


class Frozen(DepartingMessage, frozen=True):
    """To who goes: nothing more comes."""


class Turn(DepartingMessage, frozen=True):
    """From who goes: all that came is before this."""


class Turned(DepartingMessage, frozen=True):
    """To the centre: all that came over who goes is here."""


class Go(DepartingMessage, frozen=True):
    """From the centre: it leads on."""


class Parted(DepartingMessage, frozen=True):
    """To who goes: it is done without."""


MESSAGES: tuple[type[Message], ...] = (
    Places,
    EntryLeft,
    Sweep,
    Swept,
    Freeze,
    Thaw,
    Frozen,
    Turn,
    Turned,
    Go,
    Parted,
    AdvertisementsSaid,
    Notification,
    Spread,
    HomeTable,
    HomeChange,
    TablesKnown,
    TableWanted,
    TablesSaid,
    BitSet,
    BitCleared,
    BitsSaid,
    NumbersBegin,
    NumbersEnd,
    WayLost,
    NumbersOpen,
    WayClosed,
    WayOpened,
    WayCleared,
)
