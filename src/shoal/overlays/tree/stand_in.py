"""What is said in the place of a neighbour that was there before this broker started, and is not.

Its tables are not known until it is back.  Until then it counts as one that subscribes to
everything, so that nothing is missed that it may have subscribed to, and nobody waits for it; what
its stand-in said goes when it has said its own tables, as all that it had said before does.

>>> [type(input).__name__ for input in stand_in("B3", "B2")]
['LinkChanged', 'Received', 'Received', 'Received']
"""

from __future__ import annotations

from shoal.broker.effects import Input, LinkChanged, LinkState, Received
from shoal.broker.messages import Subscribe
from shoal.model import EVERYTHING, BrokerId, Subscription
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid


def stand_in(neighbour: BrokerId, broker: BrokerId) -> list[Input]:
    """Inputs for `broker`, whose neighbour is away since before it started."""
    name = f"absent/{neighbour}/{broker}"
    everything = Subscription(id=name, client=name, filter=EVERYTHING)
    return [
        LinkChanged(neighbour, LinkState.UP),
        Received(neighbour, AdvertisementsSaid()),
        Received(neighbour, Subscribe(everything)),
        Received(neighbour, SubscriptionsSaid()),
    ]
