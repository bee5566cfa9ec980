"""Where the brokers of a live network are, as those that join and leave make it.

Over each connection of a link both ends first say all they know, then what is news to them.  Of
two words about a broker the later stays, so all agree that are joined by links, and who was away
hears what it missed from the first neighbour that it is connected with.  A broker speaks for
itself, with the time at which it started.  Of a broker that its own network file lists, a broker
believes the file where it listens: the way to it may be another than for others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from shoal.broker.links.controls import Whereabouts
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.storage.overlay_file import Overlay

# Of more brokers nothing is remembered, those that have left included: who makes names up may say
# millions.
MOST_BROKERS = 4_096

_log = logging.getLogger(__name__)


class Directory:
    """What one broker knows; `given` is what its network file says, itself included.

    `addresses` has where brokers listen for others, also those that leave, and changes; `at_change`
    is told who is elsewhere now, or has left.
    """

    def __init__(self, broker: BrokerId, given: Iterable[Whereabouts], overlay: Overlay) -> None:
        self.addresses: dict[BrokerId, Address] = {}
        self.at_change: list[Callable[[Whereabouts], None]] = []
        self._broker = broker
        self._overlay = overlay
        self._given = {where.name: where for where in given}
        self._known: dict[BrokerId, Whereabouts] = {}
        # Whether the log knows that there are too many.
        self._has_told = False
        for where in (*self._given.values(), *overlay.brokers.values()):
            known = self._known.get(where.name)
            if known is None or where.at_us >= known.at_us:
                self._note(where)

    def __iter__(self) -> Iterator[Whereabouts]:
        return iter(list(self._known.values()))

    @property
    def places(self) -> list[Whereabouts]:
        """Where brokers are for this one, without those that have left."""
        return [self._here(where) for where in self if not where.has_left]

    def is_gone(self, broker: BrokerId) -> bool:
        """Whether a broker has left, and has nothing more to hand over."""
        known = self._known.get(broker)
        return known is not None and known.is_gone

    def _here(self, where: Whereabouts) -> Whereabouts:
        """What of a word counts here."""
        return where if where.has_left else self._given.get(where.name, where)

    def hear(self, said: Iterable[Whereabouts]) -> list[Whereabouts]:
        """What others say; what of that is news."""
        news = []
        for where in said:
            known = self._known.get(where.name)
            if where.name == self._broker and (own := self._denial(where)) is not None:
                news.append(own)
            if where.name == self._broker or (known is not None and known.at_us >= where.at_us):
                continue
            if known is None and len(self._known) >= MOST_BROKERS:
                self._tell_of_too_many(where)
                continue
            self._note(where)
            if known is None or msgspec.structs.replace(known, at_us=where.at_us) != where:
                self._overlay.met(where)
                news.append(where)
                if known is None or not (known.has_left and where.has_left):
                    for tell in self.at_change:
                        tell(self._here(where))
        return news

    def _denial(self, where: Whereabouts) -> Whereabouts | None:
        """What to say when others take this broker, which is there, for gone."""
        own = self._known.get(self._broker)
        if own is None or own.has_left or not where.has_left or where.at_us < own.at_us:
            return None
        return self.stay(where.at_us + 1)

    def _tell_of_too_many(self, where: Whereabouts) -> None:
        if not self._has_told:
            self._has_told = True
            extra = {"name_of_broker": where.name, "known": len(self._known)}
            _log.error("too many brokers: others are not taken up", extra=extra)

    def leave(self, now_us: int) -> Whereabouts:
        """This broker leaves the network: what to say of it."""
        own = Whereabouts(self._broker, now_us, has_left=True)
        self._note(own)
        return own

    def stay(self, now_us: int) -> Whereabouts:
        """This broker takes its leave back: what to say of it."""
        own = msgspec.structs.replace(self._given[self._broker], at_us=now_us)
        self._note(own)
        return own

    def declare_dead(self, broker: BrokerId, successor: BrokerId, now_us: int) -> Whereabouts:
        """A broker is dead, as an operator says here: what to say of it."""
        known = self._known.get(broker)
        at_us = now_us if known is None else max(now_us, known.at_us + 1)
        gone = Whereabouts(broker, at_us, has_left=True, is_gone=True, successor=successor)
        self._note(gone)
        self._overlay.met(gone)
        for tell in self.at_change:
            tell(gone)
        return gone

    def successor(self, broker: BrokerId) -> BrokerId:
        """The broker that has the place of one that was declared dead; empty if none was."""
        known = self._known.get(broker)
        return "" if known is None else known.successor

    def go(self) -> list[Whereabouts]:
        """The last link of this broker ends: what to say of it, if it leaves."""
        own = self._known.get(self._broker)
        if own is None or not own.has_left:
            return []
        gone = msgspec.structs.replace(own, at_us=own.at_us + 1, is_gone=True)
        self._note(gone)
        return [gone]

    def _note(self, where: Whereabouts) -> None:
        self._known[where.name] = where
        here = self._here(where)
        if here.has_left:
            return  # it may still need links to hand over what it has
        self.addresses.pop(where.name, None)
        if here.peers:
            with suppress(ValueError):  # what another broker says may make no sense
                self.addresses[where.name] = read_address(here.peers)
