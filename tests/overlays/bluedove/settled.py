"""Clusters at rest, and requests to them."""

from __future__ import annotations

from shoal.broker.messages import Subscribe
from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.messages import (
    SubscriptionStored,
)
from tests.broker.transcript import subscription
from tests.overlays.bluedove.cluster import Cluster, parameters

X = Dimension(attribute="x")


def made(later: str = "", **options) -> Cluster:  # type: ignore[no-untyped-def]
    """Two dispatchers and matchers M1 to M4, each with a quarter of x and y."""
    cluster = Cluster(parameters(**options), later)
    cluster.run(2)
    return cluster


def subscribe(cluster: Cluster, name: str, text: str, at: str = "D1", client: str = "C") -> None:
    cluster.ask(at, client, Subscribe(subscription(name, text, client)))
    cluster.settle()


def stored(cluster: Cluster) -> list[str]:
    return [
        message.subscription_id
        for _, _, message in cluster.notified
        if isinstance(message, SubscriptionStored)
    ]
