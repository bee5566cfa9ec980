"""The current overlay, as far as one broker knows: its differences from the network file.

Links that were opened on purpose, links that have ended, brokers that came later, and the system's
durable facts. It is a small file that is written anew with each change, which are rare, and is
there before anything comes of the change. Without a folder it lasts as long as the broker's
process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from shoal.broker.links.controls import BrokerLocation
from shoal.model import BrokerId
from shoal.runtime.storage.journal_files import JournalError, other_version

FILE = "overlay.json"

_log = logging.getLogger(__name__)


class LinkRow(msgspec.Struct, frozen=True):
    """A link that outlives restarts: opened when, to where; `ends`: it is only to be settled."""

    opened_us: int
    address: str = ""
    ends: bool = False


# Additions to the file have a default; a changed meaning needs another format.
_FORMAT = 1


class _Contents(msgspec.Struct):
    format: int
    links: dict[BrokerId, LinkRow] = msgspec.field(default_factory=dict)
    ended: dict[BrokerId, int] = msgspec.field(default_factory=dict)
    brokers: dict[BrokerId, BrokerLocation] = msgspec.field(default_factory=dict)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    is_founder: bool = True
    is_member: bool = True
    joins: dict[BrokerId, str] | None = None
    left_us: int = 0


class OverlayFile:
    """One broker's record of the overlay.

    `links` are those beside the network file's, and those that end; `ended` has when a link that
    has ended was opened, 0 for one of the network file.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """JournalError when the file is there and cannot be read."""
        self._path = None if folder is None else folder / FILE
        self._is_failing = False
        self._contents = _Contents(_FORMAT)
        if self._path is not None and self._path.exists():
            try:
                self._contents = msgspec.json.decode(self._path.read_bytes(), type=_Contents)
            except (OSError, msgspec.MsgspecError) as error:
                problem = f"{self._path}: cannot be read: {error}"
                advice = "; without it the broker starts with the links of its network file"
                raise JournalError(problem + advice) from None
            if self._contents.format != _FORMAT:
                raise other_version(self._path, self._contents.format, _FORMAT)
        self.links = self._contents.links
        self.ended = self._contents.ended
        self.brokers = self._contents.brokers

    @property
    def joins(self) -> Mapping[BrokerId, str] | None:
        """Members over which the broker is to join, and their addresses; None once it has."""
        return self._contents.joins

    @property
    def has_left(self) -> bool:
        """Return whether the broker has left its network, and has not been told to join again."""
        return self._contents.left_us > 0

    def begins_to_join(self, over: Mapping[BrokerId, str]) -> None:
        """The broker is to join a network, until its first link has come up.

        It is no founder of that network, also when it starts again, and not yet a member.
        """
        self._contents.is_founder = self._contents.is_member = False
        self._contents.joins, self._contents.left_us = dict(over), 0
        self._write()

    def joins_over(
        self, sponsor: BrokerId, opened_us: int, address: str, given: Iterable[BrokerId]
    ) -> None:
        """The link to this member is the broker's only one, in place of those `given`; one write.

        A link of an earlier attempt has ended.  Its other end may have it, and hears so as soon as
        it connects: it learns the address of the broker from the network.
        """
        self.ended |= dict.fromkeys(given, 0)
        self.ended |= {name: row.opened_us for name, row in self.links.items()}
        self.links.clear()
        self.ended.pop(sponsor, None)
        self.links[sponsor] = LinkRow(opened_us, address)
        self._write()

    def has_joined(self) -> None:
        """The first link has come up."""
        self._contents.joins = None
        self._write()

    def neighbours(self, given: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return the broker's neighbours at its start; `given` are those of the network file."""
        found = {name for name in given if name not in self.ended}
        return tuple(sorted(found | self.links.keys()))

    def expected(self, given: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return those of them whose link is not only settled and then ended."""
        rows = self.links
        return tuple(
            name for name in self.neighbours(given) if name not in rows or not rows[name].ends
        )

    def awaited(self, former: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return those of a broker's former neighbours whose link has not ended, and that have not
        left.
        """
        rows = self.brokers
        there = (name for name in former if name not in rows or not rows[name].has_left)
        return tuple(name for name in there if name not in self.ended)

    def stamp(self, neighbour: BrokerId, now_us: int) -> int:
        """Return when a link is opened now: later than one to that broker that has ended."""
        return max(now_us, self.ended.get(neighbour, 0) + 1)

    def opened(self, neighbour: BrokerId, opened_us: int, address: str = "") -> None:
        """There is a link from now on."""
        row = LinkRow(opened_us, address)
        if self.links.get(neighbour) != row:
            self.links[neighbour] = row
            self.ended.pop(neighbour, None)
            self._write()

    def ends(self, neighbour: BrokerId) -> None:
        """A link is to end: it is brought up only to be settled."""
        row = self.links.get(neighbour, LinkRow(0))
        self.links[neighbour] = msgspec.structs.replace(row, ends=True)
        self._write()

    def has_ended(self, neighbour: BrokerId, opened_us: int) -> None:
        """There is no such link any more."""
        self.links.pop(neighbour, None)
        self.ended[neighbour] = opened_us
        self._write()

    def is_over(self, neighbour: BrokerId, opened_us: int) -> bool:
        """Return whether the link that was opened then has ended."""
        return neighbour not in self.links and self.ended.get(neighbour, -1) >= opened_us

    def met(self, where: BrokerLocation) -> None:
        """A broker is elsewhere than the network file says, or has left."""
        self.brokers[where.name] = where
        self._write()

    @property
    def is_founder(self) -> bool:
        """Return whether the broker was there when its network began; a broker that has joined was
        not.
        """
        return self._contents.is_founder

    @property
    def is_member(self) -> bool:
        """Return whether the broker is a founder, or a member has answered it through the
        system.
        """
        return self._contents.is_member

    def becomes_member(self) -> None:
        """A member has answered the broker through the system."""
        self._contents.is_member = True
        self._write()

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the last durable facts of the system."""
        return self._contents.facts

    def remember(self, facts: Mapping[str, Any]) -> None:
        """The system must know this when it starts again."""
        self._contents.facts = dict(facts)
        self._write()

    def leave(self, now_us: int) -> None:
        """The broker has left: if it ever comes again, it is a new one."""
        for each in (self.links, self.ended, self.brokers, self._contents.facts):
            each.clear()
        self._contents.is_founder = self._contents.is_member = True
        self._contents.joins, self._contents.left_us = None, now_us
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        data = msgspec.json.format(msgspec.json.encode(self._contents))
        new = self._path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            self._is_failing = False
        except OSError as error:
            # Memory is the truth; the next change writes all.
            with suppress(OSError):
                new.unlink()
            if not self._is_failing:
                problem = {"file": str(self._path), "problem": error.strerror}
                _log.error("the overlay cannot be written", extra=problem)
            self._is_failing = True


def who_has_left(folders: Iterable[Path]) -> set[BrokerId]:
    """Brokers that have left the network, by the last that the brokers of these folders heard."""
    last: dict[BrokerId, BrokerLocation] = {}
    for folder in folders:
        with suppress(JournalError):  # its broker says so when it starts
            for where in OverlayFile(folder).brokers.values():
                if where.name not in last or where.at_us > last[where.name].at_us:
                    last[where.name] = where
    return {where.name for where in last.values() if where.has_left}


def is_member(folder: Path) -> bool:
    """Return whether the broker of this folder has joined a network, and has not left it."""
    try:
        overlay = OverlayFile(folder)
    except JournalError:  # its broker says so when it starts
        return True
    return not (overlay.is_founder or overlay.has_left) and overlay.joins is None
