"""Publishers attached to one broker: their advertisements, and the numbers of their messages.

A publication outside its publisher's advertisements would reach only some of its subscribers, so it
is refused. Message identifiers are consecutive (relocation paper, 4.1), and none is reused: a new
client starts above all former ones. A publisher's advertisements here outlive its rows in the
routing table while it is being moved.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

import msgspec

from shoal.broker.effects import Effect, Notify
from shoal.broker.messages import Rejected, RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.matching import MatchIndex
from shoal.matching.given import checked
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    MessageId,
    Publication,
)


class LocalPublishers:
    """The publishers attached to one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._promises: dict[ClientId, MatchIndex] = {}
        # The next number of each publisher, and the first one of those that connect anew.
        self._next_numbers: dict[ClientId, int] = {}
        self._unused_number = 0

    def __contains__(self, client: ClientId) -> bool:
        """Whether the client has advertised here and not left."""
        return client in self._promises

    @property
    def clients(self) -> Collection[ClientId]:
        """The clients that have advertised here and not left."""
        return self._promises.keys()

    def attach(self, client: ClientId, advertisements: Iterable[Advertisement]) -> None:
        """Let a client publish here within these advertisements."""
        promises = self._promises.setdefault(client, MatchIndex())
        for advertisement in advertisements:
            promises.add(advertisement.id, advertisement.filter)

    def detach(self, client: ClientId) -> None:
        """Refuse the client's publications from now on."""
        self._promises.pop(client, None)
        self._unused_number = max(self._unused_number, self._next_numbers.pop(client, 0))

    def promises(self, client: ClientId) -> Container[AdvertisementId]:
        """The advertisements that the client has made here."""
        return self._promises.get(client, ())

    def take_back(self, client: ClientId, advertisement_id: AdvertisementId) -> None:
        """Remove an advertisement of a client; ProtocolError without one."""
        promises = self._promises.get(client)
        if promises is None or advertisement_id not in promises:
            raise ProtocolError(f"{client} has no advertisement {advertisement_id} here")
        promises.remove(advertisement_id)
        if not len(promises):
            self.detach(client)

    def accept(
        self, client: ClientId, publications: tuple[Publication, ...], out: list[Effect]
    ) -> tuple[RoutedPublication, ...]:
        """Number the publications within their publisher's advertisements.

        The others are refused one by one. Values are checked here, for all brokers on the path:
        TypeError or ValueError for one that no attribute can have.
        """
        promises = self._promises.get(client)
        if not promises:
            raise ProtocolError(f"{client} has not advertised at {self._broker}")
        number = self._next_numbers.get(client, self._unused_number)
        accepted = []
        promises_all = promises.matches_everything
        for publication in publications:
            attributes = checked(publication.attributes)
            if attributes is not publication.attributes:
                publication = msgspec.structs.replace(publication, attributes=attributes)
            if publication.publisher != client:
                owner = publication.publisher
                reason = f"publication {publication.sequence} belongs to {owner}, not to {client}"
            elif promises_all or promises.matches_any_checked(attributes):
                message_id = MessageId(self._broker, client, number)
                accepted.append(RoutedPublication(publication, message_id))
                number += 1
                continue
            else:
                reason = f"publication {publication.sequence} matches no advertisement of {client}"
            out.append(Notify(client, Rejected(reason)))
        self._next_numbers[client] = number
        return tuple(accepted)
