"""What is kept of a session while it moves between brokers (see `roaming`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.model import BrokerId
from shoal.mqtt.access import Admission
from shoal.mqtt.controls import Item, Journey, message_of
from shoal.mqtt.messages import Message
from shoal.mqtt.session import Outgoing, Session

if TYPE_CHECKING:
    from shoal.mqtt.connection import Connection

SendItem = Callable[[Outgoing, BrokerId, Journey, int], None]


class Waiting:
    """A session that is to come.  `goes_to`: it will not stay; `is_void`: it is not wanted."""

    def __init__(
        self, connection: Connection, admission: Admission, home: BrokerId, until_us: int
    ) -> None:
        self.connection = connection
        self.admission = admission
        self.home = home
        self.until_us = until_us
        self.items: list[Item] = []
        self.goes_to: tuple[BrokerId, Journey] | None = None
        self.is_void = False


class Move:
    """Where messages for a session go while it arrives, departs, or both.

    What came from where the session was is passed on at once.  What this broker got by itself is
    kept until all of that has come, and then passed on but for what is `known` by its key.
    """

    def __init__(self, session: Session, arrival: Journey | None, send: SendItem) -> None:
        self.session = session
        self.arrival = arrival
        self.target: tuple[BrokerId, Journey] | None = None
        self.is_due = False
        self._send = send
        self._kept: list[tuple[Message, int, bool, tuple[int, ...]]] = []
        self.known: dict[tuple[str, int], None] = {}

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """This broker got something for the session."""
        if self.arrival is not None:
            self._kept.append((message, qos, retain, identifiers))
        else:
            self._pass_on(message, qos, retain, identifiers, now_us)

    def came(self, item: Item, now_us: int) -> None:
        """The broker where the session was sends something on."""
        message = message_of(item, now_us)
        if message is None or (item.key is not None and item.key in self.known):
            return
        self.note(item)
        self._pass_on(message, item.qos, item.retain, item.identifiers, now_us)

    def note(self, item: Item) -> None:
        """Remember what came."""
        if item.key is not None:
            self.known[item.key] = None

    def arrive(self, now_us: int) -> None:
        """All has come from where the session was."""
        self.arrival = None
        for message, qos, retain, identifiers in self._kept:
            if message.key is None or message.key not in self.known:
                self._pass_on(message, qos, retain, identifiers, now_us)
        self._kept = []
        self.known = {}
        if self.target is None:
            self.session.diversion = None

    def _pass_on(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        if self.target is None:
            self.session.accept(message, qos, retain, identifiers, now_us)
        else:
            outgoing = Outgoing(message, qos, retain, identifiers)
            self._send(outgoing, *self.target, now_us)
