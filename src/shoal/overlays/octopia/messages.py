"""Messages between OctopiA's brokers.

In a cluster every broker's *table* travels to all others: its subscriptions, and the region that it
links up to. A table has a version, so that the newest is valid, whatever path it takes and however
often it comes. Between clusters advertisements go to one broker of each other cluster, and bits
come back. A subscriber's or publisher's acknowledgement waits until both are everywhere
(`is_awaited`): before that, publications may be missed.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.messages import Carrier, Message
from shoal.broker.strategy import ProtocolError
from shoal.broker.wire import MAX_HOPS
from shoal.model import AdvertisementId, BrokerId, ClientId, Filter, Subscription, SubscriptionId
from shoal.overlays.octopia.places.roster import PlacesAnnounced
from shoal.overlays.tree.messages import AdvertisementsSaid


class Notification(Carrier, frozen=True):
    """Publications in transit; `hops` counts the links so far.

    owed   bits of the clusters that the receiver must serve, beside its own (CIV-N)
    only   the regions whose subscribers this copy is for, if others have one already; None: all
           that the receiver leads to
    shifts by cluster to be entered in the order of numbers (`ordering.py`): the offset to the
    number
           that its host gave a publication
    """

    hops: int
    owed: int = 0
    only: tuple[int, ...] | None = None
    shifts: Mapping[int, int] = {}

    def check(self, clusters: int) -> None:
        """ProtocolError unless it is valid for this number of clusters."""
        _check(self.owed, self.hops, clusters)
        for cluster in self.shifts:
            if not 0 <= cluster < clusters:
                raise ProtocolError(f"{cluster} is none of {clusters} clusters")


class SpreadCopy(Carrier, frozen=True):
    """Publications in transit along this cluster's tree, for several clusters (`spreading.py`).

    clusters  bits of the clusters whose regions the receiver serves
    regions   those regions: of the receiver, and beyond it
    """

    hops: int
    clusters: int
    regions: tuple[int, ...]

    def check(self, clusters: int) -> None:
        """ProtocolError unless it is valid for this number of clusters."""
        _check(self.clusters, self.hops, clusters)


def _check(bits: int, hops: int, clusters: int) -> None:
    if not 0 <= bits < 1 << clusters:
        raise ProtocolError(f"{bits} are no bits of {clusters} clusters")
    if not 0 <= hops < MAX_HOPS:
        raise ProtocolError(f"{hops} is no number of hops")


CARRIERS = (Notification, SpreadCopy)


class HomeTable(Message, frozen=True):
    """The whole table of the broker of `region` in this cluster."""

    introduces = True
    is_awaited = True

    region: int
    version: int
    up: int | None
    subscriptions: tuple[Subscription, ...]


class HomeChange(Message, frozen=True):
    """The changes of the table of the broker of `region`, since the version before."""

    introduces = True
    is_awaited = True
    joins = True

    region: int
    version: int
    up: int | None
    added: tuple[Subscription, ...] = ()
    removed: tuple[SubscriptionId, ...] = ()


class TablesKnown(Message, frozen=True):
    """To a broker of this cluster, when a link comes up: the known versions of tables, by
    region.
    """

    introduces = True

    versions: Mapping[int, int]


class TableWanted(Message, frozen=True):
    """To a broker of this cluster: a change came to a table that is not known here."""

    introduces = True
    is_awaited = True

    region: int


class TablesSaid(Message, frozen=True):
    """End marker: all tables that are newer than the receiver's are sent, and none is awaited."""

    introduces = True


class BitSet(Message, frozen=True):
    """From a secondary broker to the host: this cluster wants the advertisement (CIB_SET).

    filters  only publications that match one of these; None: everything
    more     these, in addition to earlier ones
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
    """End marker from a secondary broker to the host: all bits of its advertisements are sent."""

    introduces = True


class NumbersBegin(Message, frozen=True):
    """To a sequencer: a publisher's publications to its cluster are numbered from this number on.

    None: numbers began at another sequencer, and earlier publications may come here yet, or have
    arrived. It precedes retransmissions of what another incarnation had not settled.
    """

    publisher: ClientId
    number: int | None

    @property
    def introduces(self) -> bool:  # type: ignore[override]
        return self.number is None


class NumbersEnd(Message, frozen=True):
    """To a sequencer: later publications from here are unnumbered, and follow all lower numbers."""

    publisher: ClientId
    number: int


class WayLost(Message, frozen=True):
    """To the region: a link of it is lost, and numbered publications may be lost with it."""


class NumbersOpen(Message, frozen=True):
    """To a sequencer after a NumbersBegin without a number: no lower number comes any more.

    None: this message will follow with a number.
    """

    publisher: ClientId
    number: int | None


class WayClosed(Message, frozen=True):
    """To the region: the link to a sequencer is lost, and nothing is forwarded to it any more.

    Publications for it were returned to their hosts (`order/clearing.py`); the answer has `round`.
    """

    sequencer: BrokerId
    round: int


class WayOpened(Message, frozen=True):
    """To the region: the link to a sequencer is up again."""

    sequencer: BrokerId


class WayCleared(Message, frozen=True):
    """To a broker that has closed the path: all have, and its publications were returned to it."""

    sequencer: BrokerId
    round: int


class EntryLeft(Message, frozen=True):
    """To a secondary broker: the sender enters its cluster by another one now."""


class Sweep(Message, frozen=True):
    """Probe behind all publications of a host to a cluster, to all brokers there.

    is_for_lost  flushes a link that its origin has lost: answered when the publications of that
                 link were returned there, and are on their new path
    """

    broker: BrokerId
    number: int
    is_for_lost: bool = False


class Swept(Message, frozen=True):
    """Answer to Sweep: it has been everywhere from here on."""

    broker: BrokerId
    number: int


class DepartingMessage(Message, frozen=True):
    """About a leaving broker; `round` distinguishes its attempts (see `departing.py`)."""

    leaving_broker: BrokerId
    round: int


class Freeze(DepartingMessage, frozen=True):
    """From the leaving broker: stop sending to it; the successor will lead to the others."""

    successor: BrokerId
    others: tuple[BrokerId, ...]


class Thaw(DepartingMessage, frozen=True):
    """From a broker that stays after all: resume sending to it."""


class Frozen(DepartingMessage, frozen=True):
    """To the leaving broker: nothing more comes."""


class TurnTables(DepartingMessage, frozen=True):
    """From the leaving broker: behind all publications."""


class Turned(DepartingMessage, frozen=True):
    """To the successor: all publications over the leaving broker are here."""


class Go(DepartingMessage, frozen=True):
    """From the successor: it leads to the others from now on."""


class Parted(DepartingMessage, frozen=True):
    """To the leaving broker: the sender does not need it any more."""


MESSAGES: tuple[type[Message], ...] = (
    PlacesAnnounced,
    EntryLeft,
    Sweep,
    Swept,
    Freeze,
    Thaw,
    Frozen,
    TurnTables,
    Turned,
    Go,
    Parted,
    AdvertisementsSaid,
    Notification,
    SpreadCopy,
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
