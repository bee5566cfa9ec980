"""Brokers are killed while sessions move between them, or while their clients connect elsewhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, processes

MESSAGES = 3
SESSIONS = 40


class Raw:
    """A blocking client without behaviour of its own."""

    def __init__(self, network: Processes, broker: str, name: str, expiry_s: int = 600) -> None:
        address = network.network.broker(broker).address("mqtt")
        assert address is not None
        self.socket = socket.create_connection((address.host, address.port), PATIENCE_S)
        self._decoder = Decoder(5)
        self._inbox: list[Packet] = []
        properties = Properties(session_expiry_interval_s=expiry_s)
        self.send(Connect(name, clean_start=False, properties=properties))

    def send(self, packet: Packet) -> None:
        self.socket.sendall(encode(packet, 5))

    def take(self, kind: type[Any]) -> Any:
        """The next packet, which is of this kind; None if the connection ends before."""
        while not self._inbox:
            data = self.socket.recv(65_536)
            if not data:
                return None
            self._inbox += self._decoder.feed(data)
        packet = self._inbox.pop(0)
        assert isinstance(packet, kind), packet
        return packet

    def close(self) -> None:
        self.socket.close()


@contextmanager
def connect_until_admitted(
    network: Processes, broker: str, name: str, expiry_s: int = 600
) -> Iterator[Raw]:
    """A client that connects until its broker admits it; `connack` is the last answer."""
    deadline_s = time.monotonic() + 3 * PATIENCE_S
    while True:
        assert time.monotonic() < deadline_s, "not admitted"
        try:
            client = Raw(network, broker, name, expiry_s)
            connack = client.take(Connack)
        except OSError:
            connack = None
        if connack is not None and not connack.reason_code:
            break
        client.close()
        time.sleep(0.2)
    client.connack = connack  # type: ignore[attr-defined]
    try:
        yield client
    finally:
        client.close()


def subscribe(network: Processes, broker: str, name: str, topic: str = "a") -> None:
    with connect_until_admitted(network, broker, name) as client:
        client.send(Subscribe(1, (SubscriptionRequest(topic, 1),)))
        assert not client.take(Suback).reason_codes[0] > 2


def publish(network: Processes, broker: str, count: int) -> None:
    with connect_until_admitted(network, broker, "publisher", 0) as publisher:
        for number in range(1, count + 1):
            publisher.send(Publish("a", b"%d" % number, 1, packet_id=number))
        for _ in range(count):
            publisher.take(Puback)


def has_all(network: Processes, broker: str, name: str) -> None:
    with connect_until_admitted(network, broker, name) as client:
        assert client.connack.session_present  # type: ignore[attr-defined]
        for number in range(1, MESSAGES + 1):
            packet = client.take(Publish)
            assert packet.payload == b"%d" % number
            client.send(Puback(packet.packet_id))


@pytest.mark.parametrize("down_s", [0.5, pytest.param(13, marks=pytest.mark.soak)])
def test_a_client_elsewhere_gets_its_session_when_its_killed_broker_is_back(
    tmp_path: Path, down_s: float
) -> None:
    with processes(tmp_path, 2) as network:
        subscribe(network, "B2", "s")
        publish(network, "B2", MESSAGES)
        network.kill("B2")
        hasty = Raw(network, "B1", "s")
        time.sleep(0.3)
        hasty.close()
        time.sleep(down_s)
        network.start("B2")
        has_all(network, "B2", "s")
        with connect_until_admitted(network, "B1", "s") as client:
            assert client.connack.session_present  # type: ignore[attr-defined]


@pytest.mark.parametrize("killed", ["B1", "B2"])
def test_a_broker_killed_while_sessions_arrive_loses_none(tmp_path: Path, killed: str) -> None:
    names = [f"s{number}" for number in range(SESSIONS)]
    with processes(tmp_path, 2) as network:
        for name in names:
            subscribe(network, "B2", name)
        publish(network, "B2", MESSAGES)
        moving = [Raw(network, "B1", name) for name in names]
        time.sleep(0.1)
        network.kill(killed)
        for each in moving:
            each.close()
        network.start(killed)
        for number, name in enumerate(names):
            has_all(network, "B1" if number % 2 else "B2", name)


@pytest.mark.parametrize("expiry_s", [0, pytest.param(600, marks=pytest.mark.soak)])
def test_a_group_receives_all_while_a_members_broker_is_killed(
    tmp_path: Path, expiry_s: int
) -> None:
    count = 40
    with processes(tmp_path, 2) as network:
        subscribe(network, "B1", "stays", "$share/g/a")
        with (
            connect_until_admitted(network, "B1", "stays") as stays,
            connect_until_admitted(network, "B2", "goes", expiry_s) as goes,
        ):
            goes.send(Subscribe(1, (SubscriptionRequest("$share/g/a", 1),)))
            goes.take(Suback)
            network.kill("B2")
            publisher = Raw(network, "B1", "p", 0)
            publisher.take(Connack)
            for number in range(1, count + 1):
                publisher.send(Publish("a", b"%d" % number, 1, packet_id=number))
            time.sleep(0.5)
            network.start("B2")
            got = sorted(int(stays.take(Publish).payload) for _ in range(count))
            assert got == list(range(1, count + 1))
            for _ in range(count):
                publisher.take(Puback)
            publisher.close()
