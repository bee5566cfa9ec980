"""Killed and restarted brokers keep their promises, as real clients see them."""

from __future__ import annotations

import signal
from pathlib import Path
from socket import MSG_WAITALL, socket

import pytest

from tests.runtime.processes import Client, processes, wait_until

COUNT = 400


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]


def publish(publisher: Client, count: int, qos: int) -> list[object]:
    return [publisher.paho.publish("a/b", b"%d" % number, qos) for number in range(count)]


# QoS, number of brokers, the publisher's broker, the subscribers' brokers, the killed brokers.
KILLS = [
    (1, 1, "B1", "B1", "B1"),
    pytest.param(2, 1, "B1", "B1", "B1", marks=pytest.mark.soak),
    pytest.param(2, 2, "B1", "B2", "B1", marks=pytest.mark.soak),
    (2, 2, "B1", "B2", "B2"),
    (2, 3, "B1", "B3", "B2"),
]


@pytest.mark.parametrize(("qos", "brokers", "source", "target", "killed"), KILLS)
def test_brokers_killed_under_load_keep_their_promises(
    tmp_path: Path, qos: int, brokers: int, source: str, target: str, killed: str
) -> None:
    with processes(tmp_path, brokers) as network:
        with network.client(target, "away") as away:
            away.subscribe("a/#", qos)
        network.knows(source, brokers + 1)
        with network.client(target, "there") as there, network.client(source, "p") as publisher:
            there.subscribe("+/+", qos)  # not one that the other covers
            network.knows(source, brokers + 2)
            sent = publish(publisher, COUNT, qos)
            wait_until(lambda: len(there.payloads) > COUNT // 4)
            network.kill(killed)
            network.start(killed)
            wait_until(lambda: all(each.is_published() for each in sent))  # type: ignore[attr-defined]
            wait_until(lambda: len(set(there.payloads)) == COUNT)
            with network.client(target, "away") as again:
                wait_until(lambda: len(set(again.payloads)) == COUNT)
                assert again.session_present == [True]
                for found in (numbers(there.payloads), numbers(again.payloads)):
                    if qos == 2:
                        assert found == list(range(COUNT))
                    assert list(dict.fromkeys(found)) == list(range(COUNT))


def test_the_tests_client_does_not_republish_released_messages() -> None:
    """paho itself does, which looks like a broker's duplicate on a slow machine."""
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = Client(*listener.getsockname(), "p", expiry_s=600)
        client.paho.reconnect_delay_set(0, 0)
        client.paho.connect_async(*listener.getsockname(), clean_start=False)
        client.paho.loop_start()
        with Peer(listener) as peer:
            client.paho.publish("a", b"x", 2)
            assert peer.hears() == 0x34
            peer.says(bytes((0x50, 2, 0, 1)))
            assert peer.hears() == 0x62
        for _ in range(3):  # no answer comes
            listener.accept()[0].close()
        with Peer(listener) as peer:
            assert peer.hears() == 0x62
        client.disconnect()


class Peer:
    """The server's side of the next connection, from CONNACK on."""

    def __init__(self, listener: socket) -> None:
        self._socket, _ = listener.accept()
        assert self.hears() == 0x10
        self.says(bytes((0x20, 3, 0, 0, 0)))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def says(self, packet: bytes) -> None:
        self._socket.sendall(packet)

    def hears(self) -> int:
        """The first byte of the next packet, which is short."""
        head = self._socket.recv(2, MSG_WAITALL)
        self._socket.recv(head[1], MSG_WAITALL)
        return head[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_restarted_network_keeps_sessions_and_retained_messages(
    tmp_path: Path, how: signal.Signals
) -> None:
    names = ("B1", "B2", "B3")
    with processes(tmp_path, 3) as network:
        with network.client("B1", "reader") as reader:
            reader.subscribe("a/#", 2)
        with network.client("B1", "p") as publisher:
            sent = [
                *publish(publisher, 20, 2),
                publisher.paho.publish("state", b"on", 1, retain=True),
            ]
            wait_until(lambda: all(each.is_published() for each in sent))  # type: ignore[attr-defined]
        network.kill(*names, how=how)
        network.start(*names)
        # The session follows its client to another broker, and retained messages are everywhere.
        with network.client("B3", "reader") as reader:
            reader.subscribe("state", 1)
            wait_until(lambda: len(reader.payloads) == 21)
            reader.payloads.remove(b"on")
            assert numbers(reader.payloads) == list(range(20))
