"""As `random_sessions`, with subscribers whose hang-ups brokers do not notice at once.

A broker admits such a client after it has gone elsewhere, as it seems to wait still.
"""

from __future__ import annotations

from tests.mqtt.broker_api import Client
from tests.seeds.sessions.random_sessions import RESTLESS, RandomSessions, Subscriber
from tests.seeds.sessions.session_network import Network


class UnnoticedSubscriber(Subscriber):
    """Adds the connections that it leaves to `left`; one of them is noticed when it looks."""

    def __init__(self, network: Network, name: str, left: list[Client]) -> None:
        super().__init__(network, name)
        self._left = left

    def hang_up(self, client: Client) -> None:
        client.is_listening = False
        self._left.append(client)

    def look(self) -> None:
        super().look()
        if self._left and self.network.random.random() < 0.2:
            notice(self._left.pop(0))


class RandomHangUps(RandomSessions):
    """Plays such a network."""

    def __init__(self, seed: int) -> None:
        self._left: list[Client] = []
        super().__init__(seed, RESTLESS)

    def subscribers_of(self) -> list[Subscriber]:
        return [UnnoticedSubscriber(self.network, f"s{n}", self._left) for n in range(3)]

    def come_to_rest(self) -> None:
        while self._left:
            notice(self._left.pop())
        super().come_to_rest()


def notice(client: Client) -> None:
    """The broker of a connection notices its end."""
    if not client.closed:
        client.lose()


def play(seed: int) -> None:
    """Play a network; AssertionError if a promise is broken."""
    life = RandomHangUps(seed)
    life.play()
    life.end()
    life.check()
