"""A live broker's links by neighbour, and figures about all of them."""

from __future__ import annotations

from typing import Any

from shoal.broker.links.states import LinkSessionState
from shoal.ledger import LedgerMeasure
from shoal.model import BrokerId
from shoal.runtime.links.link_scheduler import PeerLink
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.storage.spool_files import Spools

_IN_SESSION = (LinkSessionState.UP, LinkSessionState.ENDING)


class LinkTable(dict[BrokerId, PeerLink]):
    """One that has ended stays until the other end has asked about it, or will not any more."""

    @property
    def delays_us(self) -> dict[BrokerId, int]:
        """Return how long a word takes to each neighbour, as far as that is measured."""
        found = {name: link.session.delay_us for name, link in self.items()}
        return {name: delay_us for name, delay_us in found.items() if delay_us is not None}

    @property
    def queues(self) -> dict[BrokerId, tuple[int, int]]:
        """Return queued messages and bytes per neighbour."""
        states = (*_IN_SESSION, LinkSessionState.AWAY, LinkSessionState.PARTING)
        return {
            name: link.session.queue for name, link in self.items() if link.session.state in states
        }

    def measure(self, settings: PeerSettings) -> LedgerMeasure:
        """Return the number of links, and their memory for the other ends."""
        size = sum(link.session.buffered_bytes for link in self.values())
        return LedgerMeasure(len(self), size, most_bytes=len(self) * settings.limits.limit_bytes)

    @property
    def are_drained(self) -> bool:
        """Return whether every neighbour that is there has taken all that was sent to it."""
        return not any(
            link.session.state in _IN_SESSION and link.session.buffered_bytes
            for link in self.values()
        )

    @property
    def neighbours(self) -> list[BrokerId]:
        """The brokers that there are links to."""
        return [name for name, link in sorted(self.items()) if not link.is_gone]

    def are_up_but_for(self, lost_us: int) -> bool:
        """Return whether all are up that are to be there, without those that were lost before a
        time.
        """
        return all(link.lost_us is None or link.lost_us < lost_us for link in self._down)

    @property
    def away(self) -> list[BrokerId]:
        """Return the neighbours with links that should be up, and are not."""
        return sorted(link.session.neighbour for link in self._down)

    @property
    def lost(self) -> list[BrokerId]:
        """Return those neighbours, and others whose link was up and is not."""
        broken = [
            name for name, link in self.items() if link.session.state is LinkSessionState.AWAY
        ]
        return sorted({*self.away, *broken})

    @property
    def _down(self) -> list[PeerLink]:
        links = [link for link in self.values() if link.is_lasting and not link.is_gone]
        return [link for link in links if link.session.state not in _IN_SESSION]

    def is_last(self, link: PeerLink) -> bool:
        """Return whether no other is up that is not about to end."""
        return not any(
            each is not link and each.session.state is LinkSessionState.UP for each in self.values()
        )

    def status(self, spools: Spools | None, now_us: int) -> list[dict[str, Any]]:
        """One row per link, for people and metrics."""
        return [
            self[name].status(0 if spools is None else spools.size(name), now_us)
            for name in self.neighbours
        ]
