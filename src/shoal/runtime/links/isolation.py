"""Detects a broker of a network that has no link, not even one that is down for a while.

Such a broker cannot know other brokers' state: it is not ready, and takes no publications from its
clients, which are therefore not acknowledged. A broker that knows no other broker is the whole
network.
"""

from __future__ import annotations

from shoal.runtime.driving.flushing import Phase
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.node import Node


class Isolation:
    """Of one broker; its node holds publications while there is a `problem`."""

    def __init__(self, node: Node, links: PeerLinks, directory: Directory) -> None:
        self._node = node
        self._links = links
        self._directory = directory
        node.at_flush(Phase.LINKS, self._look)

    @property
    def problem(self) -> str:
        """Return the problem as text; empty without one."""
        if self._links.neighbours:
            return ""
        others = sorted(each.name for each in self._directory.places if each.name != self._node.id)
        return f"a link to one of {', '.join(others)}" if others else ""

    def _look(self) -> None:
        self._node.hold(bool(self.problem), "no link")
