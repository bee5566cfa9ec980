"""Addresses of the brokers of a live network, with joins and leaves.

Over each link's connection both ends first send all entries, then updates. Of two entries about a
broker the later wins, so all connected brokers agree, and a broker that was disconnected gets the
updates from the first neighbour that it connects to, or, while a link is down, from other brokers
that it asks (`membership.py`). A broker announces itself, with its start time. For a broker in its
own network file, a broker takes the address from the file: its route there may differ from others'.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from shoal.broker.links.controls import BrokerLocation
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.storage.overlay_file import OverlayFile

# Further brokers, including those that have left, are not remembered: a broker that makes names up
# could send millions.
MOST_BROKERS = 4_096

_log = logging.getLogger(__name__)


class Directory:
    """One broker's directory; `given` has the entries of its network file, itself included.

    `addresses` has brokers' listeners for other brokers, also of those that leave, and changes;
    `at_change` gets the brokers that have moved or left.
    """

    def __init__(
        self, broker: BrokerId, given: Iterable[BrokerLocation], overlay: OverlayFile
    ) -> None:
        self.addresses: dict[BrokerId, Address] = {}
        self.at_change: list[Callable[[BrokerLocation], None]] = []
        self._broker = broker
        self._overlay = overlay
        self._given = {where.name: where for where in given}
        self._known: dict[BrokerId, BrokerLocation] = {}
        # The latest time of an entry about this broker that others have.
        self._heard_us = 0
        # Whether this broker was declared dead, so that no broker owes anything to its links.
        self.was_declared_dead = False
        # True if the log knows that there are too many.
        self._has_told = False
        for where in (*self._given.values(), *overlay.brokers.values()):
            known = self._known.get(where.name)
            if known is None or where.at_us >= known.at_us:
                self._note(where)

    def __iter__(self) -> Iterator[BrokerLocation]:
        return iter(list(self._known.values()))

    @property
    def places(self) -> list[BrokerLocation]:
        """Return the brokers' addresses as this broker sees them, without those that have left."""
        return [self._here(where) for where in self if not where.has_left]

    def is_gone(self, broker: BrokerId) -> bool:
        """Return whether a broker has left, and has nothing more to hand over."""
        known = self._known.get(broker)
        return known is not None and known.is_gone

    def _here(self, where: BrokerLocation) -> BrokerLocation:
        """Return the part of an entry that counts here."""
        return where if where.has_left else self._given.get(where.name, where)

    def merge(self, said: Iterable[BrokerLocation]) -> list[BrokerLocation]:
        """Merge other brokers' entries, and return the news."""
        news = []
        for where in said:
            known = self._known.get(where.name)
            if where.name == self._broker:
                self.was_declared_dead |= where.was_declared_dead
                self._heard_us = max(self._heard_us, where.at_us)
                if (own := self._denial(where)) is not None:
                    news.append(own)
                continue
            if known is not None and known.at_us >= where.at_us:
                continue
            if known is None and len(self._known) >= MOST_BROKERS:
                self._log_too_many(where)
                continue
            self._note(where)
            if known is None or msgspec.structs.replace(known, at_us=where.at_us) != where:
                self._overlay.met(where)
                news.append(where)
                if known is None or not (known.has_left and where.has_left):
                    for tell in self.at_change:
                        tell(self._here(where))
        return news

    def _denial(self, where: BrokerLocation) -> BrokerLocation | None:
        """Return the reply if others believe that this live broker is gone."""
        own = self._known.get(self._broker)
        if own is None or own.has_left or not where.has_left or where.at_us < own.at_us:
            return None
        return self.stay(where.at_us + 1)

    def _log_too_many(self, where: BrokerLocation) -> None:
        if not self._has_told:
            self._has_told = True
            extra = {"name_of_broker": where.name, "known": len(self._known)}
            _log.error("too many brokers: others are not taken up", extra=extra)

    def leave(self, now_us: int) -> BrokerLocation:
        """Return the directory entry that announces this broker's leave.

        It has the address: a broker that was down while this one joined must link to it, too, until
        it has left.
        """
        at_us = self._own_us(now_us)
        own = msgspec.structs.replace(self._known[self._broker], at_us=at_us, has_left=True)
        self._note(own)
        return own

    def stay(self, now_us: int) -> BrokerLocation:
        """Return the directory entry that cancels this broker's leave."""
        at_us = self._own_us(now_us)
        own = msgspec.structs.replace(self._given[self._broker], at_us=at_us)
        self._note(own)
        return own

    def _own_us(self, now_us: int) -> int:
        """A time above all entries about this broker; its clock may have been ahead earlier."""
        return max(now_us, self._heard_us + 1, self._known[self._broker].at_us + 1)

    def declare_dead(self, broker: BrokerId, successor: BrokerId, now_us: int) -> BrokerLocation:
        """Return the directory entry of a broker that an operator declares dead."""
        known = self._known.get(broker)
        at_us = now_us if known is None else max(now_us, known.at_us + 1)
        gone = BrokerLocation(broker, at_us, has_left=True, is_gone=True, successor=successor)
        self._note(gone)
        self._overlay.met(gone)
        for tell in self.at_change:
            tell(gone)
        return gone

    def successor(self, broker: BrokerId) -> BrokerId:
        """The broker that has the place of one that was declared dead; empty if none was."""
        known = self._known.get(broker)
        return "" if known is None else known.successor

    def go(self) -> list[BrokerLocation]:
        """The last link of this broker ends: return the entry to send, if it leaves."""
        own = self._known.get(self._broker)
        if own is None or not own.has_left:
            return []
        gone = msgspec.structs.replace(own, at_us=own.at_us + 1, is_gone=True)
        self._note(gone)
        return [gone]

    def _note(self, where: BrokerLocation) -> None:
        self._known[where.name] = where
        here = self._here(where)
        # A leaving broker may still need links to hand over its state.
        if not here.has_left:
            self.addresses.pop(where.name, None)
        if here.peers and not here.is_gone and where.name not in self.addresses:
            with suppress(ValueError):  # another broker's entry may be malformed
                self.addresses[where.name] = read_address(here.peers)
