"""Registrars of a client: the brokers that know the broker of a session without expiry.

Rendezvous hashing finds them: each broker has a weight for a client identifier, and the heaviest
two are its registrars. So brokers that know the same members agree without messages; a broker that
joins or leaves changes them for few clients; and one of the two may be down.

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
# Beyond this, the clients announced longest ago are dropped.
MOST_REGISTERED = 1_048_576


def registrars(client_id: str, brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """The registrars of a client among these brokers."""
    weighed = blake2b(client_id.encode() + b"\0", digest_size=_DIGEST_BYTES)
    # The broker's name follows its weight, to be read back, and breaks ties.
    weights = []
    for broker in brokers:
        name, copy = broker.encode(), weighed.copy()
        copy.update(name)
        weights.append(copy.digest() + name)
    return tuple(each[_DIGEST_BYTES:].decode() for each in nlargest(REGISTRARS, weights))


class Registry:
    """The brokers of clients for which this broker is a registrar, as announced."""

    def __init__(self) -> None:
        # By client: its last broker, the fencing token, and its user.
        self._known: OrderedDict[str, tuple[BrokerId, int, str]] = OrderedDict()
        # The clients of each broker.
        self._clients: dict[BrokerId, set[str]] = {}

    def place(self, client_id: str) -> BrokerId | None:
        """The broker of a client."""
        known = self._known.get(client_id)
        return None if known is None else known[0]

    def put(self, control: Entered) -> None:
        """Record a client's broker, unless a later one is known, or another user's client."""
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
        """Remove a client from a broker."""
        if self.place(client_id) == broker:
            del self._known[client_id]
            self._take_out(client_id, broker)

    def forget(self, broker: BrokerId) -> None:
        """Remove the clients of a broker that starts or has left: it announces them anew."""
        for client_id in self._clients.pop(broker, ()):
            del self._known[client_id]
