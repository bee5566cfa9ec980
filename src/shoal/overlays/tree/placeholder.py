"""A placeholder for a former neighbour that has not reconnected since this broker started.

Its tables are not known until it is back. Until then the placeholder subscribes to everything, so
that no subscription of the neighbour is missed, and no other broker waits for it. The placeholder's
rows are stale once the neighbour is back, and are removed at the end of its synchronisation.

>>> [type(input).__name__ for input in placeholder("B3", "B2")]
['LinkChanged', 'Received', 'Received', 'Received']
"""

from __future__ import annotations

from shoal.broker.effects import Input, LinkChanged, LinkState, Received
from shoal.broker.messages import Subscribe
from shoal.model import EVERYTHING, BrokerId, Subscription
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid


def placeholder(neighbour: BrokerId, broker: BrokerId) -> list[Input]:
    """Inputs for `broker` that stand for a neighbour disconnected since before the start."""
    name = f"absent/{neighbour}/{broker}"
    everything = Subscription(id=name, client=name, filter=EVERYTHING)
    return [
        LinkChanged(neighbour, LinkState.UP),
        Received(neighbour, AdvertisementsSaid()),
        Received(neighbour, Subscribe(everything)),
        Received(neighbour, SubscriptionsSaid()),
    ]
