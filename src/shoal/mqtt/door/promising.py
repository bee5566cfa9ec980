"""What clients of one broker promise to publish, and until when they wait with that.

Whoever publishes under a promise of its own reaches those that the network has told its broker of.
So what such a client sends behind its CONNECT is not taken before the machine is done with its
promises: what others have answered is here by then, or their links have been given up.  Systems
whose brokers do not say so are done at once; there a mark alone has to do
(`mqtt/federation/granting.py`), which may go another way than the promise.

>>> from shoal.model import EVERYTHING
>>> asked = []
>>> promising = Promising("B1", lambda client, request: asked.append(request))
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


class Promising:
    """The clients of one broker that advertise; `ask` asks the machine for one of them."""

    def __init__(self, broker_id: BrokerId, ask: Callable[[ClientId, Message], None]) -> None:
        self._broker_id = broker_id
        self._ask = ask
        self._promised: dict[ClientId, list[Advertisement]] = {}
        # What has yet to be heard of, each itself: its like may be of an earlier connection.
        self._unheard: dict[ClientId, list[Advertisement]] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._promised

    def of(self, client: ClientId) -> tuple[Filter, ...]:
        """What a client advertises; nothing if it may publish anything."""
        return tuple(each.filter for each in self._promised.get(client, ()))

    def begin(self, client: ClientId, filters: Sequence[Filter]) -> None:
        """From now on a client publishes under its own name, and only what these promise."""
        self.end(client)
        promised = [self.made(client, number, filter) for number, filter in enumerate(filters)]
        for each in promised:
            self._ask(client, Advertise(each))
        if promised:
            self._promised[client], self._unheard[client] = promised, [*promised]

    def end(self, client: ClientId) -> None:
        """The client is gone, or takes back what it promised."""
        self._unheard.pop(client, None)
        for each in self._promised.pop(client, ()):
            self._ask(client, Unadvertise(each.id))

    def made(self, client: ClientId, number: int, filter: Filter) -> Advertisement:
        """One of what a client promises."""
        # With the broker: a client that moves on advertises there before this is forgotten.
        id = f"{client}@{self._broker_id}/{number}"
        return Advertisement(id=id, publisher=client, filter=filter)

    # --- who waits ----------------------------------------------------------------------------

    def is_unheard(self, client: ClientId) -> bool:
        """Whether what a client publishes now might miss somebody."""
        return client in self._unheard

    def heard(self, client: ClientId, promise: Advertisement) -> None:
        """The machine is done with a promise; old ones do not matter."""
        left = [each for each in self._unheard.get(client, ()) if each is not promise]
        if left:
            self._unheard[client] = left
        else:
            self._unheard.pop(client, None)
