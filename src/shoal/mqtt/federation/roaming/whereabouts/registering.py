"""Which brokers know where a client is whose session ends with its connection: its registrars.

They are found by its name: each broker has a weight for it, and the heaviest two are its registrars
(rendezvous hashing).  So all that know the same brokers find the same, without a word; who joins or
leaves changes them for few clients; and one of the two may be down.

>>> registrars("c", ("B1", "B2", "B3", "B4"))
('B3', 'B2')
>>> registrars("c", ("B1", "B2", "B4")), registrars("d", ("B1", "B2", "B3", "B4"))
(('B2', 'B1'), ('B1', 'B2'))
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from heapq import nlargest

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Entered

REGISTRARS = 2
_DIGEST_BYTES = 8
# What is known of the clients that were heard of longest ago is dropped beyond this.
MOST_REGISTERED = 1_048_576


def registrars(client_id: str, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """Those of the brokers that know where the client is."""
    weighed = blake2b(client_id.encode() + b"\0", digest_size=_DIGEST_BYTES)
    # With its name behind it, which is found again, and decides between equal ones.
    weights = []
    for broker in brokers:
        name, copy = broker.encode(), weighed.copy()
        copy.update(name)
        weights.append(copy.digest() + name)
    return tuple(each[_DIGEST_BYTES:].decode() for each in nlargest(REGISTRARS, weights))


class Registry:
    """Where the clients are whose registrar this broker is, as their brokers have said."""

    def __init__(self) -> None:
        # By client where it entered last, when, and whose it is.
        self._known: OrderedDict[str, tuple[BrokerId, int, str]] = OrderedDict()
        # Of each broker its clients.
        self._clients: dict[BrokerId, set[str]] = {}

    def place(self, client_id: str) -> BrokerId | None:
        """Where a client is."""
        known = self._known.get(client_id)
        return None if known is None else known[0]

    def put(self, control: Entered) -> None:
        """A client is there, unless it is elsewhere by a later word, or another user's is."""
        client_id = control.client_id
        broker, at_us, user = self._known.get(client_id, ("", 0, control.user))
        is_later = (control.at_us, control.broker) >= (at_us, broker)
        if user == control.user and is_later:
            if client_id in self._known:
                self._take_out(client_id, broker)
            elif len(self._known) >= MOST_REGISTERED:
                oldest, (place, _, _) = self._known.popitem(last=False)
                self._take_out(oldest, place)
            self._known[client_id] = (control.broker, control.at_us, user)
            self._clients.setdefault(control.broker, set()).add(client_id)

    def _take_out(self, client_id: str, broker: BrokerId) -> None:
        clients = self._clients[broker]
        clients.discard(client_id)
        if not clients:
            del self._clients[broker]

    def end(self, client_id: str, broker: BrokerId) -> None:
        """It is there no more."""
        if self.place(client_id) == broker:
            del self._known[client_id]
            self._take_out(client_id, broker)

    def forget(self, broker: BrokerId) -> None:
        """A broker begins, or has left: it says anew who is there."""
        for client_id in self._clients.pop(broker, ()):
            del self._known[client_id]
