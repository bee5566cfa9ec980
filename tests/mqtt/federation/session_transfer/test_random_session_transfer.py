"""Clients that move between brokers at random: nothing is lost, doubled or out of order."""

from __future__ import annotations

from random import Random

import pytest

from shoal.mqtt.codec.packets import (
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from shoal.mqtt.federation import time_slices
from shoal.mqtt.federation.session_transfer import moves
from tests.examples import examples, one_in
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network


class Roamer:
    """A subscriber that moves from broker to broker, and takes and acknowledges messages."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name
        self.client: Client | None = None
        self.taken: list[tuple[bytes, int]] = []
        self.held: set[int] = set()

    def go_to(self, broker: str) -> None:
        if self.client is not None and not self.client.closed:
            self.client.lose()
        self.client = self.network[broker].open()
        self.client.send(Connect(self.name, **KEPT))

    def move(self, broker: str, is_told: bool) -> None:
        """Move there, by itself or redirected by its broker."""
        if not is_told:
            self.go_to(broker)
        elif self.client is not None and self.client.connection.client_id is not None:
            site = self.client.broker_api
            if site.clients.broker_id != broker:
                site.carry_out(self.client.connection.redirect(broker, site.now_us))

    def look(self) -> None:
        """Take and acknowledge the messages."""
        client = self.client
        while client is not None and (packets := client.take()):
            for packet in packets:
                if isinstance(packet, Publish):
                    if packet.qos == 1:
                        self.taken.append((packet.payload, 1))
                        client.send(Puback(packet.packet_id))
                    elif packet.packet_id not in self.held:
                        self.held.add(packet.packet_id)
                        self.taken.append((packet.payload, 2))
                    if packet.qos == 2:
                        client.send(Pubrec(packet.packet_id))
                elif isinstance(packet, Pubrel):
                    self.held.discard(packet.packet_id)
                    client.send(Pubcomp(packet.packet_id))
                elif isinstance(packet, Disconnect) and packet.properties.server_reference:
                    self.go_to(packet.properties.server_reference)
                    client = self.client


def wait_for_all(network: Network, roamer: Roamer) -> None:
    for _ in range(40):
        network.settle()
        network.after(0.2)
        roamer.look()


@pytest.mark.parametrize("at_once", [1, time_slices.MOST_AT_ONCE])
@pytest.mark.parametrize("is_told", [False, True], ids=["by itself", "redirected"])
@pytest.mark.parametrize("seed", one_in(2, range(examples(25))))
def test_random_moves_lose_double_and_reorder_nothing(
    seed: int, is_told: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are slow and of random speed, and the client moves again soon.

    Its session is sent message by message, so that other events come in between, or as a whole. A
    redirected client receives everything once, at QoS 1 too.
    """
    monkeypatch.setattr(time_slices, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(moves, "ITEMS_AT_ONCE", at_once)
    roam(seed, is_told)


@pytest.mark.parametrize(("seed", "is_told"), [(72, False), (142, True)])
def test_a_late_message_overtakes_none_of_a_round_trip(seed: int, is_told: bool) -> None:
    """The session goes B1, B2, B4, B3, B2, and B1 still sends to B2."""
    roam(seed, is_told)


def roam(seed: int, is_told: bool) -> None:
    chance = Random(seed)
    names = ("B1", "B2", "B3", "B4")
    network = Network(*names)
    roamer = Roamer(network, "roamer")
    roamer.go_to("B1")
    assert roamer.client is not None
    roamer.client.take()
    roamer.client.subscribe("a", qos=2)
    publishers = [network[name].connect(f"p of {name}") for name in names]
    network.is_slow = True
    sent: list[list[tuple[bytes, int]]] = [[] for _ in publishers]
    for step in range(300):
        match chance.randrange(12):
            case 0 if chance.random() < 0.5:
                roamer.move(chance.choice(names), is_told)
            case 1 | 2 | 3:
                number = chance.randrange(len(publishers))
                payload, qos = b"%d %d" % (number, step), chance.choice((1, 2))
                publishers[number].publish("a", payload, qos=qos)
                sent[number].append((payload, qos))
            case 4 | 5:
                roamer.look()
            case _:
                network.step(chance)
        network.after(0.001)
    wait_for_all(network, roamer)
    if roamer.client.closed:
        assert not is_told, "redirected to one broker, and closed by it"
        roamer.go_to("B2")
        wait_for_all(network, roamer)
    for number, expected in enumerate(sent):
        prefix = b"%d " % number
        got = [each for each in roamer.taken if each[0].startswith(prefix)]
        once = [each for each in got if is_told or each[1] == 2]
        assert len(set(once)) == len(once), "twice"
        assert list(dict.fromkeys(got)) == expected, f"lost or out of order: seed {seed}"
