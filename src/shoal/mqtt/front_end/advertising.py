"""Advertisements of one broker's clients, and how long their publications wait for them.

A publication under a client's own advertisement reaches the subscribers that the broker knows from
the network's answers to the advertisement. The broker therefore holds the packets of such a client
behind its CONNECT until the machine has finished its advertisements: all answers are here by then,
or their links were given up. Systems whose brokers do not report this count as finished at once;
there only a mark delays the client (`mqtt/federation/granting.py`), which may travel another way
than the advertisement.

>>> from shoal.model import EVERYTHING
>>> asked = []
>>> promising = ClientAdvertisements("B1", lambda client, request: asked.append(request))
>>> promising.begin("c", [EVERYTHING])
>>> asked[0].advertisement.id, promising.is_unheard("c")
('c@B1/0', True)
>>> promising.heard("c", asked[0].advertisement)
>>> promising.is_unheard("c")
False
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.broker.messages import Advertise, Message, Unadvertise
from shoal.model import Advertisement, BrokerId, ClientId, Filter


class ClientAdvertisements:
    """The advertising clients of one broker; `ask` sends a request to the machine."""

    def __init__(self, broker_id: BrokerId, ask: Callable[[ClientId, Message], None]) -> None:
        self._broker_id = broker_id
        self._ask = ask
        self._promised: dict[ClientId, list[Advertisement]] = {}
        # Unfinished advertisements, by identity: an equal one may belong to an earlier connection.
        self._unheard: dict[ClientId, list[Advertisement]] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._promised

    def advertised_by(self, client: ClientId) -> tuple[Filter, ...]:
        """The advertisements of a client; empty if it may publish anything."""
        return tuple(each.filter for each in self._promised.get(client, ()))

    def begin(self, client: ClientId, filters: Sequence[Filter]) -> None:
        """Let a client publish under its own name, within these advertisements."""
        self.end(client)
        promised = [self.made(client, number, filter) for number, filter in enumerate(filters)]
        for each in promised:
            self._ask(client, Advertise(each))
        if promised:
            self._promised[client], self._unheard[client] = promised, [*promised]

    def end(self, client: ClientId) -> None:
        """Withdraw the advertisements of a client."""
        self._unheard.pop(client, None)
        for each in self._promised.pop(client, ()):
            self._ask(client, Unadvertise(each.id))

    def made(self, client: ClientId, number: int, filter: Filter) -> Advertisement:
        """One advertisement of a client."""
        # The identifier has the broker: a moving client advertises there before this one is
        # withdrawn.
        id = f"{client}@{self._broker_id}/{number}"
        return Advertisement(id=id, publisher=client, filter=filter)

    # --- waiting ------------------------------------------------------------------------------

    def is_unheard(self, client: ClientId) -> bool:
        """Whether a publication of a client might still miss a subscriber."""
        return client in self._unheard

    def heard(self, client: ClientId, promise: Advertisement) -> None:
        """The machine has finished an advertisement; outdated ones are ignored."""
        left = [each for each in self._unheard.get(client, ()) if each is not promise]
        if left:
            self._unheard[client] = left
        else:
            self._unheard.pop(client, None)
