"""Maps connections to links, and holds connections without a hello."""

from __future__ import annotations

from shoal.runtime.links.link_scheduler import PeerLink
from shoal.runtime.links.peer_connections import PeerConnection

# Connections without a hello; more are closed on arrival.
MAX_STRANGERS = 100


class ConnectedPeers:
    """All connections of a broker's links, strangers' among them."""

    def __init__(self) -> None:
        self._links: dict[PeerConnection, PeerLink] = {}
        self._strangers: set[PeerConnection] = set()

    @property
    def are_many(self) -> bool:
        """Return whether no more strangers may come."""
        return len(self._strangers) >= MAX_STRANGERS

    @property
    def all(self) -> list[PeerConnection]:
        return [*self._links, *self._strangers]

    def opened(self, connection: PeerConnection) -> None:
        """Add a connection without a hello."""
        self._strangers.add(connection)

    def release(self, connection: PeerConnection) -> None:
        """Remove a connection that belongs to no link; another component has it."""
        self._strangers.discard(connection)

    def greet(self, connection: PeerConnection, link: PeerLink) -> None:
        """Assign the connection to the link that its hello names."""
        self._strangers.discard(connection)
        self._links[connection] = link
        link.connection = connection
        connection.say(link.session.hello())

    def link_of(self, connection: PeerConnection) -> PeerLink | None:
        """Return the connection's link; None before its hello, and after a newer connection has
        replaced it.
        """
        return self._links.get(connection)

    def drop(self, connection: PeerConnection) -> PeerLink | None:
        """Forget a connection, and return its link."""
        self._strangers.discard(connection)
        return self._links.pop(connection, None)
