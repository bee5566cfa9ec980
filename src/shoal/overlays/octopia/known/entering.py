"""Advertisements of the hosts in other clusters that enter this one here (V).

A host announces them all once its link is up, and gets the bits for them. Announcements from before
a reconnect stay until the host has announced all again.
"""

from __future__ import annotations

from shoal.broker.effects import Effect
from shoal.model import Advertisement, AdvertisementId, BrokerId
from shoal.overlays.octopia.known.bits import Bits
from shoal.overlays.octopia.known.exchange import KnownExchange
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.requests import check_filter


class EnteringHosts:
    """`hosts` are the neighbours in other clusters that enter this one here."""

    def __init__(self, tables: Tables, bits: Bits, exchange: KnownExchange) -> None:
        self._tables = tables
        self._bits = bits
        self._exchange = exchange
        self.hosts: set[BrokerId] = set()
        # Announcements from before the reconnect that the host has not repeated.
        self._stale: dict[BrokerId, dict[AdvertisementId, None]] = {}

    def linked(self, host: BrokerId) -> None:
        """The link to a broker of another cluster came up."""
        mine = [id for known, id in self._tables.secondary if known == host]
        self._stale[host] = dict.fromkeys(mine)

    def unlinked(self, host: BrokerId) -> None:
        """A broker's link is lost, and its advertisements with it."""
        self._stale.pop(host, None)
        for known, id in list(self._tables.secondary):
            if known == host:
                self._tables.unadvertise(known, id)

    def advertise(
        self, host: BrokerId, advertisement: Advertisement, now_us: int, out: list[Effect]
    ) -> None:
        check_filter(advertisement.filter, "advertisement", advertisement.id)
        self._stale.get(host, {}).pop(advertisement.id, None)
        self._bits.advertised(self._tables.advertise(host, advertisement), now_us, out)

    def unadvertise(self, host: BrokerId, id: AdvertisementId) -> None:
        self._tables.unadvertise(host, id)

    def all_said(self, host: BrokerId, out: list[Effect]) -> None:
        """A host has announced all: stale advertisements are removed; the bits are owed to it."""
        for id in self._stale.pop(host, ()):
            self._tables.unadvertise(host, id)
        self.hosts.add(host)
        self._exchange.owe_bits(host)
        self._exchange.send_markers(out)
