"""Brokers join a running network of processes, and leave it, under its clients."""

from __future__ import annotations

import time
from pathlib import Path

from tests.runtime.forked import Forked, order
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Client, Processes, processes, wait_until

COUNT = 400


def links(network: Processes, name: str) -> dict[str, str]:
    """A broker's neighbours, and the states of their links."""
    return {row["neighbour"]: row["state"] for row in network.status(name)["links"]}


def brokers(network: Processes, name: str) -> set[str]:
    return {row["broker"] for row in network.status(name)["brokers"]}


def gets(client: Client, *payloads: bytes) -> None:
    wait_until(lambda: client.payloads[-len(payloads) :] == list(payloads))


def test_a_joined_broker_is_linked_again_after_restarts(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as network:
        with network.client("B1", "old") as old:
            old.subscribe("a/#", 1)
            old.paho.publish("a/kept", b"kept", qos=1, retain=True).wait_for_publish(PATIENCE_S)
            network.join("B9", "B3")
            with network.client("B9", "new") as new:
                new.subscribe("a/#", 1)
                gets(new, b"kept")
                old.paho.publish("a/b", b"from B1", qos=1).wait_for_publish(PATIENCE_S)
                gets(new, b"from B1")
                new.paho.publish("a/c", b"from B9", qos=2).wait_for_publish(PATIENCE_S)
                gets(old, b"from B9")
            known = {"B1", "B2", "B3", "B9"}
            wait_until(lambda: all(brokers(network, name) == known for name in known))
        names = list(network.running)
        network.kill(*names)
        network.start(*names)
        wait_until(lambda: links(network, "B3") == {"B2": "up", "B9": "up"})
        wait_until(lambda: all(not network.status(name)["missing"] for name in names))
        assert links(network, "B9") == {"B3": "up"}
        assert all(brokers(network, name) == known for name in known)
        # Its client finds its session at its broker, and also at another.
        with network.client("B1", "new") as moved, network.client("B9", "old") as back:
            assert moved.session_present == back.session_present == [True]
            back.paho.publish("a/d", b"again", qos=1).wait_for_publish(PATIENCE_S)
            gets(moved, b"again")


def test_a_leaving_broker_hands_over_its_sessions_under_load(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, and QoS 2 arrives once, for disconnected clients, too."""
    with processes(tmp_path, 2) as network:
        network.join("B9", "B2")
        network.join("B5", "B9")  # behind the leaving broker
        away = network.client("B9", "away").connect()
        away.subscribe("a", 2)
        away.disconnect()
        with (
            network.client("B9", "there") as there,
            network.client("B5", "behind") as behind,
            network.client("B1", "p") as publisher,
        ):
            there.subscribe("a", 2)
            behind.subscribe("a", 2)
            said = [
                publisher.paho.publish("a", b"%d" % number, qos=2) for number in range(COUNT // 2)
            ]
            leaving = leave(network, "B9")
            for number in range(COUNT // 2, COUNT):
                said.append(publisher.paho.publish("a", b"%d" % number, qos=2))
                time.sleep(0.002)
            assert leaving.wait(2 * PATIENCE_S) == 0
            assert network.running.pop("B9").wait(PATIENCE_S) == 0
            for each in said:
                each.wait_for_publish(PATIENCE_S)
            before = list(there.payloads)
            wait_until(lambda: len(behind.payloads) >= COUNT)
        assert links(network, "B2") == {"B1": "up", "B5": "up"}
        assert brokers(network, "B1") == {"B1", "B2", "B5"}
        assert leave(network, "B9").wait(PATIENCE_S) == 2, "the broker has not left"
        with network.client("B1", "away") as back, network.client("B2", "there") as again:
            assert back.session_present == again.session_present == [True]
            wait_until(lambda: len(back.payloads) >= COUNT)
            wait_until(lambda: len(before) + len(again.payloads) >= COUNT)
        everything = [b"%d" % number for number in range(COUNT)]
        assert back.payloads == behind.payloads == everything
        assert sorted(before + again.payloads, key=int) == everything


def leave(network: Processes, name: str) -> Forked:
    admin = network.network.broker(name).admin
    assert admin is not None
    return order(network.folder, "leave", str(network.path), name, "--admin", admin)


def test_a_broker_with_a_spool_leaves_after_the_disconnected_broker_returns(
    tmp_path: Path,
) -> None:
    """It leaves after the disconnected broker's return, and everything on disk has arrived."""
    with processes(tmp_path, 3, link_limits={"park_us": 100_000}) as network:
        with network.client("B3", "reader") as reader:
            reader.subscribe("a", 2)
        network.knows("B1", 1 + len(network.running))  # each front end has one
        with network.client("B1", "p", 0) as publisher:
            network.kill("B2")
            said = [publisher.paho.publish("a", b"%d" % number, qos=2) for number in range(20)]
            wait_until(lambda: all(each.is_published() for each in said))
        assert leave(network, "B1").wait(2 * PATIENCE_S) == 2
        network.start("B2")
        wait_until(lambda: links(network, "B1") == {"B2": "up"})
        assert leave(network, "B1").wait(2 * PATIENCE_S) == 0
        wait_until(lambda: not network.status("B2")["missing"])
        with network.client("B3", "reader") as reader:
            wait_until(lambda: len(reader.payloads) == len(said))
            assert reader.payloads == [b"%d" % number for number in range(20)]
