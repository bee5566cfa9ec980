"""Two brokers of which one may be killed, and clients that connect to them."""

from __future__ import annotations

from random import Random

import pytest

from tests.seeds.sessions.random_sessions import Subscriber
from tests.seeds.sessions.session_network import Network


@pytest.fixture
def network() -> Network:
    network = Network(Random(1), 2)
    network.settle(3)
    return network


def come(network: Network, *people: Subscriber, seconds: float = 1) -> None:
    network.settle(seconds)
    for each in people:
        each.look()
