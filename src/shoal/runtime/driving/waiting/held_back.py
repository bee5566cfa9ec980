"""What clients ask before a broker that has just started knows where publications go.

Publications wait, and what their clients ask behind them; subscriptions do not, since neighbours
are to hear of them first.
"""

from __future__ import annotations

from shoal.broker.custody import Custody
from shoal.broker.messages import Message, Publish, Subscribe, Together, Unsubscribe
from shoal.model import ClientId

# Beyond this clients wait, too.
MAX_BYTES = 8 * 2**20


class HeldBack:
    """Requests that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._requests: list[tuple[ClientId, Message, Custody | None]] = []
        self._clients: set[ClientId] = set()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more should be asked."""
        return self._bytes > MAX_BYTES

    def keep(self, client: ClientId, request: Message, custody: Custody | None) -> bool:
        """Whether this request waits."""
        if type(request) is Publish:
            self._bytes += sum(len(each.body) for each in request.publications)
        elif client not in self._clients or isinstance(request, Subscribe | Unsubscribe | Together):
            return False
        self._clients.add(client)
        self._requests.append((client, request, custody))
        return True

    def take(self) -> list[tuple[ClientId, Message, Custody | None]]:
        """All that waited; nothing does any more."""
        requests, self._requests = self._requests, []
        self._clients.clear()
        self._bytes = 0
        return requests
