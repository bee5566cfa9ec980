"""Clients' requests to a broker that has just started and does not know routes yet.

Publications wait, and later requests of their clients behind them; subscriptions do not wait,
because neighbours need them first.
"""

from __future__ import annotations

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.messages import Message, Publish, Subscribe, Together, Unsubscribe
from shoal.model import ClientId

# Beyond this clients wait, too.
MAX_BYTES = 8 * 2**20


class HeldBack:
    """Requests that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._requests: list[tuple[ClientId, Message, AckTracker | None]] = []
        self._clients: set[ClientId] = set()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Return whether no more should be asked."""
        return self._bytes > MAX_BYTES

    def keep(self, client: ClientId, request: Message, ack_tracker: AckTracker | None) -> bool:
        """Return whether this request waits."""
        if type(request) is Publish:
            self._bytes += sum(len(each.body) for each in request.publications)
        elif client not in self._clients or isinstance(request, Subscribe | Unsubscribe | Together):
            return False
        self._clients.add(client)
        self._requests.append((client, request, ack_tracker))
        return True

    def take(self) -> list[tuple[ClientId, Message, AckTracker | None]]:
        """All that waited; nothing does any more."""
        requests, self._requests = self._requests, []
        self._clients.clear()
        self._bytes = 0
        return requests
