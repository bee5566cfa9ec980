"""Dispatch of neighbours' messages about tables, bits and numbers to the parts of a broker."""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect
from shoal.broker.messages import Advertise, Message, Unadvertise
from shoal.broker.strategy import unexpected
from shoal.model import BrokerId
from shoal.overlays.octopia.known.cluster_tables import ClusterTables
from shoal.overlays.octopia.known.entering import EnteringHosts
from shoal.overlays.octopia.known.exchange import KnownExchange
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
from shoal.overlays.octopia.routing import OctopiaRouting
from shoal.overlays.tree.messages import AdvertisementsSaid


class MessageDispatch:
    """The parts of one broker.

    `on_complete` is called when a neighbour's announcements are complete; `on_own_table` when a
    neighbour has sent its copy of this broker's table.
    """

    def __init__(
        self,
        tables: Tables,
        cluster_tables: ClusterTables,
        hosted: Hosted,
        entering: EnteringHosts,
        exchange: KnownExchange,
        routing: OctopiaRouting,
        departing: Departing,
        on_complete: Callable[[BrokerId, int, list[Effect]], None],
        on_own_table: Callable[[BrokerId, HomeChange | HomeTable, int, list[Effect]], None],
    ) -> None:
        self._tables = tables
        self._cluster_tables = cluster_tables
        self._hosted = hosted
        self._entering = entering
        self._exchange = exchange
        self._routing = routing
        self._departing = departing
        self._on_complete = on_complete
        self._on_own_table = on_own_table

    def primary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a message of a broker of this cluster."""
        match message:
            case HomeChange() | HomeTable():
                self._cluster_tables.change(neighbour, message, now_us, out)
                if message.region == self._tables.region:
                    self._on_own_table(neighbour, message, now_us, out)
            case TablesKnown(versions):
                self._cluster_tables.send_tables(neighbour, versions, out)
            case TableWanted(region) if region in self._tables.homes:
                self._cluster_tables.send_table(neighbour, region, out)
            case TablesSaid():
                self._exchange.learnt()
                self._on_complete(neighbour, now_us, out)
            case _:
                raise unexpected(message, f"primary neighbour {neighbour}")

    def secondary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a message of a broker of another cluster."""
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
                self._routing.sequencer.receive(neighbour, message, now_us, out)
            case WayLost():
                self._routing.sequencer.doubt(now_us)
            case WayClosed() | WayOpened() | WayCleared():
                self._routing.clearing.receive(neighbour, message)
                self._routing.clearing.update(now_us, out)
            case BitsSaid():
                self._hosted.all_said(neighbour)
                self._on_complete(neighbour, now_us, out)
            case _:
                raise unexpected(message, f"secondary neighbour {neighbour}")
