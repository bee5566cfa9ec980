"""What neighbours say of tables, bits and numbers: which part of a broker hears it."""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect
from shoal.broker.messages import Advertise, Message, Unadvertise
from shoal.broker.strategy import unexpected
from shoal.model import BrokerId
from shoal.overlays.octopia.known.cluster_tables import ClusterTables
from shoal.overlays.octopia.known.entering import Entering
from shoal.overlays.octopia.known.exchange import Exchange
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.links.departing import Departing
from shoal.overlays.octopia.messages import (
    BitCleared,
    BitSet,
    BitsSaid,
    EntryLeft,
    HomeChange,
    HomeTable,
    NumbersBegin,
    NumbersEnd,
    NumbersOpen,
    TablesKnown,
    TablesSaid,
    TableWanted,
    WayCleared,
    WayClosed,
    WayLost,
    WayOpened,
)
from shoal.overlays.octopia.routing import Routing
from shoal.overlays.tree.messages import AdvertisementsSaid


class Hearing:
    """The parts of one broker.

    `has_said_all` is told who has said all that must be known of it; `hear_own` what a neighbour
    has said of the table of this broker.
    """

    def __init__(
        self,
        tables: Tables,
        cluster_tables: ClusterTables,
        hosted: Hosted,
        entering: Entering,
        exchange: Exchange,
        routing: Routing,
        departing: Departing,
        has_said_all: Callable[[BrokerId, int, list[Effect]], None],
        hear_own: Callable[[BrokerId, HomeChange | HomeTable, int, list[Effect]], None],
    ) -> None:
        self._tables = tables
        self._cluster_tables = cluster_tables
        self._hosted = hosted
        self._entering = entering
        self._exchange = exchange
        self._routing = routing
        self._departing = departing
        self._has_said_all = has_said_all
        self._hear_own = hear_own

    def primary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A broker of this cluster says something."""
        match message:
            case HomeChange() | HomeTable():
                self._cluster_tables.change(neighbour, message, now_us, out)
                if message.region == self._tables.region:
                    self._hear_own(neighbour, message, now_us, out)
            case TablesKnown(versions):
                self._cluster_tables.say_tables(neighbour, versions, out)
            case TableWanted(region) if region in self._tables.homes:
                self._cluster_tables.say_table(neighbour, region, out)
            case TablesSaid():
                self._exchange.learnt()
                self._has_said_all(neighbour, now_us, out)
            case _:
                raise unexpected(message, f"primary neighbour {neighbour}")

    def secondary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A broker of another cluster says something."""
        match message:
            case Advertise(advertisement):
                self._entering.advertise(neighbour, advertisement, now_us, out)
            case Unadvertise(id):
                self._entering.unadvertise(neighbour, id)
            case AdvertisementsSaid():
                self._entering.all_said(neighbour, out)
            case EntryLeft():
                self._entering.hosts.discard(neighbour)
                self._departing.look(now_us, out)
            case BitSet(id, filters, more):
                self._hosted.set(neighbour, id, filters, is_more=more)
            case BitCleared(id):
                self._hosted.clear(neighbour, id)
            case NumbersBegin() | NumbersEnd() | NumbersOpen():
                self._routing.gate.hear(neighbour, message, now_us, out)
            case WayLost():
                self._routing.gate.doubt(now_us)
            case WayClosed() | WayOpened() | WayCleared():
                self._routing.clearing.hear(neighbour, message)
                self._routing.clearing.go_on(now_us, out)
            case BitsSaid():
                self._hosted.all_said(neighbour)
                self._has_said_all(neighbour, now_us, out)
            case _:
                raise unexpected(message, f"secondary neighbour {neighbour}")
