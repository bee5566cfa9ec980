"""Mailboxes: a dispatcher keeps publications for subscribers that poll.

A subscriber opens one, gets a handle, and polls it from time to time; other clients cannot. Until
then a mailbox keeps a bounded number of publications, and loses the oldest.

>>> boxes = Mailboxes("D1")
>>> boxes.open("phone")
'D1/phone'
>>> [boxes.keep(Deliver(client, None, ("s1",), 2), 0, []) for client in ("phone", "desk")]
[True, False]
>>> [len(boxes.poll("phone", "D1/phone", 10)) for _ in range(2)]
[1, 0]

Source: Li et al., BlueDove, section II-B (indirect delivery).
"""

from __future__ import annotations

from collections import deque

from shoal.broker.effects import Deliver, Effect, Record
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId, ClientId
from shoal.overlays.bluedove.records import OverflowRecord

# The most publications in one mailbox: an hour at three a second. A subscriber that polls less
# often loses the oldest.
MAX_KEPT = 10_000


class Mailboxes:
    """One dispatcher's mailboxes, by client."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._boxes: dict[ClientId, deque[Deliver]] = {}

    def open(self, client: ClientId) -> str:
        """The client's mailbox from now on, by its handle."""
        self._boxes.setdefault(client, deque())
        return self._handle_of(client)

    def keep(self, delivery: Deliver, now_us: int, out: list[Effect]) -> bool:
        """Keep a delivery if its client has a mailbox."""
        box = self._boxes.get(delivery.client)
        if box is None:
            return False
        box.append(delivery)
        if len(box) > MAX_KEPT:
            box.popleft()
            record = OverflowRecord(
                broker=self._broker, buffer="mailbox", owner=delivery.client, at_us=now_us
            )
            out.append(Record(record))
        return True

    def poll(self, client: ClientId, mailbox: str, most: int) -> list[Deliver]:
        """Take the oldest ones, at most `most`."""
        if client not in self._boxes or mailbox != self._handle_of(client):
            raise ProtocolError(f"{client} has no mailbox {mailbox!r} here")
        if most < 1:
            raise ProtocolError(f"{client} polls for {most} publications")
        box = self._boxes[client]
        return [box.popleft() for _ in range(min(most, len(box)))]

    def _handle_of(self, client: ClientId) -> str:
        return f"{self._broker}/{client}"
