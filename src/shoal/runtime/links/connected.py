"""Which connection is which link's, and which have not said yet whose they are."""

from __future__ import annotations

from shoal.runtime.links.handing_on import Link
from shoal.runtime.links.peer_connections import PeerConnection

# Connections that have not said who they are; more are closed as they come.
MAX_STRANGERS = 100


class Connected:
    """All connections of a broker's links, strangers' among them."""

    def __init__(self) -> None:
        self._links: dict[PeerConnection, Link] = {}
        self._strangers: set[PeerConnection] = set()

    @property
    def are_many(self) -> bool:
        """Whether no more strangers may come."""
        return len(self._strangers) >= MAX_STRANGERS

    @property
    def all(self) -> list[PeerConnection]:
        return [*self._links, *self._strangers]

    def opened(self, connection: PeerConnection) -> None:
        """One that has not said whose it is."""
        self._strangers.add(connection)

    def hand_over(self, connection: PeerConnection) -> None:
        """A stranger's is no link's: somebody else has it."""
        self._strangers.discard(connection)

    def greet(self, connection: PeerConnection, link: Link) -> None:
        """It is this link's from now on, which says who it is."""
        self._strangers.discard(connection)
        self._links[connection] = link
        link.connection = connection
        connection.say(link.session.hello())

    def link_of(self, connection: PeerConnection) -> Link | None:
        """Whose it is; None before it has said so, and when a newer one has taken its place."""
        return self._links.get(connection)

    def drop(self, connection: PeerConnection) -> Link | None:
        """It is nobody's any more; whose it was."""
        self._strangers.discard(connection)
        return self._links.pop(connection, None)
