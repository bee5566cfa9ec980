"""A starting broker begins no session anew that began elsewhere during its down time."""

from __future__ import annotations

from random import Random

import pytest

from tests.examples import at_length
from tests.seeds.sessions.random_sessions import Publisher, Subscriber
from tests.seeds.sessions.session_network import Network


@pytest.mark.parametrize("seed", [*range(8), *at_length(range(8, 20))])
@pytest.mark.parametrize("down", [1, 2])
def test_a_client_of_a_starting_broker_finds_its_session_elsewhere(seed: int, down: int) -> None:
    """The client connects before the first link, with the links, or later."""
    random = Random(seed)
    network = Network(random, 4)
    network.settle(3)
    started = random.sample(network.names, down)
    home = random.choice([name for name in network.names if name not in started])
    for name in started:
        network.kill(name)
    subscriber, publisher = Subscriber(network, "s"), Publisher(network, "p", home)
    for person in (subscriber, publisher):
        person.go_to(home)
        for _ in range(2):
            network.settle(3)
            person.look()
    assert subscriber.is_subscribed
    subscriber.leave()
    publisher.publish(2)
    network.settle(1)
    for name in started:
        network.start(name)
    for _ in range(random.randrange(30)):
        network.connect()
        network.flush()
        if network.buffers:
            network.move(*random.choice(list(network.buffers)), random.choice((50, 1_000)))
        network.pass_time(random.choice((0.001, 0.01)))
    subscriber.go_to(random.choice(started))
    for _ in range(50):
        network.settle(0.2)
        for person in (subscriber, publisher):
            person.look()
    assert publisher.acknowledged == [(b"p 1", 2)]
    assert subscriber.taken == [(b"p 1", 2)]
