"""Clients that connect anywhere while an old connection stays open, and brokers are killed.

In the end each has one session at most, at its last broker, and no broker expects it elsewhere.
"""

from __future__ import annotations

from random import Random

import pytest

from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import NO_PROPERTIES
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from tests.examples import at_length
from tests.mqtt.broker_api import Client
from tests.seeds.sessions.session_network import KEPT, Network

CLIENTS = ("c0", "c1", "c2")


class Takeovers:
    """Some clients, each with all connections that it has ever opened."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"takeovers/{seed}")
        self.network = Network(random, random.randint(2, 7))
        self.network.settle(5)
        self.opened: list[Client] = []

    def play(self) -> None:
        random, network = self.random, self.network
        for _ in range(random.randint(20, 60)):
            sites = list(network.sites.values())
            match random.choices(("go", "lose", "settle", "kill", "start"), (10, 3, 8, 1, 3))[0]:
                case "go":
                    self.go(random.choice(CLIENTS), random.choice(sites).name)
                case "lose" if self.opened:
                    client = self.opened.pop(random.randrange(len(self.opened)))
                    if not client.closed:
                        client.lose()
                case "settle":
                    network.settle(random.choice((0.1, 0.2, 0.5, 2)))
                case "kill" if len(sites) > 1:
                    network.kill(random.choice(sites).name)
                case "start":
                    for name in sorted(set(network.names) - network.sites.keys()):
                        network.start(name)

    def go(self, name: str, broker: str) -> Client:
        self.network.now_us += 1  # no two connect at the very same time
        site = self.network.sites[broker]
        site.now_us = self.network.now_us
        client = site.open()
        properties = self.random.choice((NO_PROPERTIES, KEPT))
        is_clean = self.random.random() < 0.5
        client.send(Connect(name, clean_start=is_clean, properties=properties))
        self.opened.append(client)
        return client

    def end(self) -> None:
        """All brokers run, and each client connects once more."""
        network = self.network
        for name in sorted(set(network.names) - network.sites.keys()):
            network.start(name)
        network.settle(15)
        self.last = {}
        for name in CLIENTS:
            broker = self.random.choice(network.names)
            while self.last.get(name, (broker, None))[1] is None or self.last[name][1].closed:
                self.last[name] = (broker, self.go(name, broker))
                network.settle(5)
        network.settle(10)

    def check(self) -> None:
        network = self.network
        for name, (broker, client) in self.last.items():
            assert not client.closed, name
            opened = [each for each in self.opened if each.connection.client_id == name]
            assert [each for each in opened if not each.closed] == [client], name
            sessions = {
                each.name: each.clients.sessions.get(name) for each in network.sites.values()
            }
            # The source may keep it until everything that it waits for has come.
            at = [each for each, found in sessions.items() if found and found.going is None]
            assert at == [broker], name
            for other in set(network.names) - {broker}:
                side = self._session_transfer(other)
                assert side.homes.get(name) in (None, broker), (name, other)
                assert side.registry.place(name) in (None, broker), (name, other)

    def leave(self) -> None:
        """All leave for good; no departed client is kept."""
        for _, client in self.last.values():
            client.lose()
        self.network.settle(5)
        for broker in self.network.names:
            side = self._session_transfer(broker)
            for name in CLIENTS:
                place = side.homes.get(name) or side.registry.place(name)
                if place is not None:
                    assert name in self.network.sites[place].clients.sessions, (name, broker)

    def _session_transfer(self, broker: str) -> SessionTransfer:
        federation = self.network.sites[broker].clients.federation
        assert federation is not None
        return federation.session_transfer


@pytest.mark.parametrize("seed", [*range(8), 386, *at_length(range(8, 30))])
def test_random_takeovers_leave_one_session_per_client(seed: int) -> None:
    """386: a session ends, and another broker learns of its start only after that."""
    takeovers = Takeovers(seed)
    takeovers.play()
    takeovers.end()
    takeovers.check()
    takeovers.leave()
