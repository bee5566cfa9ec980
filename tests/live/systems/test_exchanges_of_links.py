"""Processes exchange links all the time under QoS 1 and 2, and are killed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from shoal.overlays.registry import SYSTEMS
from tests.examples import at_length
from tests.restless import NAMES, SYSTEM
from tests.runtime.processes import Client, Processes, processes, wait_until
from tests.runtime.test_tls import Authority

BROKERS = sorted(NAMES)


@contextmanager
def restless(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_secure: bool = False
) -> Iterator[Processes]:
    monkeypatch.setitem(SYSTEMS, SYSTEM.name, SYSTEM)
    monkeypatch.setenv("SHOAL_SYSTEMS", "tests.flooding,tests.restless")
    changes = {"tls": certificates(folder / "tls")} if is_secure else {}
    with processes(folder, len(BROKERS), system=SYSTEM.name, **changes) as network:
        yield network


def certificates(folder: Path) -> dict[str, Any]:
    """The brokers' certificates, and the network's section about them."""
    authority = Authority(folder)
    for name in BROKERS:
        authority.issue(name)
    section: dict[str, Any] = msgspec.to_builtins(authority.section)
    return section


def exchanged(network: Processes) -> int:
    """The exchanges that the running brokers have begun and committed."""
    return sum(network.status(name)["tables"]["exchanged"] for name in BROKERS)


def goes_on(network: Processes) -> None:
    """Wait for another exchange."""
    before = exchanged(network)
    wait_until(lambda: exchanged(network) > before)


def links(network: Processes) -> set[tuple[str, str]]:
    return {
        (name, row["neighbour"])
        for name in BROKERS
        for row in network.status(name)["links"]
        if row["state"] == "up"
    }


def has_each_in_order(client: Client, count: int) -> bool:
    first = list(dict.fromkeys(client.payloads))
    return first == [b"%d" % number for number in range(count)]


def test_publications_after_suback_arrive_while_links_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        restless(tmp_path, monkeypatch) as network,
        network.client("B1", "one") as one,
        network.client("B2", "two") as two,
        network.client("B3", "three") as three,
    ):
        two.subscribe("all", 2)
        three.subscribe("all", 2)
        said = []
        for number in range(60):
            topic = f"t/{number}"
            three.subscribe(topic, 1)
            said.append(two.paho.publish(topic, b"asked for", qos=1))
            said += [
                one.paho.publish("all", b"%d" % (10 * number + each), qos=2) for each in range(10)
            ]
        wait_until(lambda: all(each.is_published() for each in said))
        wait_until(lambda: three.payloads.count(b"asked for") == 60)
        wait_until(lambda: len(two.payloads) == 600 and len(three.payloads) == 660)
        three.payloads = [each for each in three.payloads if each != b"asked for"]
        assert has_each_in_order(two, 600)
        assert has_each_in_order(three, 600)
        wait_until(lambda: exchanged(network) >= 10)


@pytest.mark.soak
@pytest.mark.parametrize(("qos", "is_secure"), [(2, True), *at_length([(1, False), (2, False)])])
def test_kills_during_exchanges_lose_nothing_and_leave_one_tree(
    qos: int, is_secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing acknowledged is lost, QoS 2 arrives once, and the links end as one tree.

    Encrypted links, too: each new one shows certificates.
    """
    with (
        restless(tmp_path, monkeypatch, is_secure=is_secure) as network,
        network.client("B1", "one") as one,
        network.client("B2", "two") as two,
        network.client("B3", "three") as three,
    ):
        for each in (two, three):
            each.subscribe("all", qos)
        said = []
        for name in BROKERS:
            wait_until(
                one.paho.is_connected
            )  # otherwise paho reports queued publications as failed
            for _ in range(200):
                said.append(one.paho.publish("all", b"%d" % len(said), qos=qos))
                time.sleep(0.002)
            goes_on(network)
            network.kill(name)
            network.start(name)
            wait_until(lambda: all(not network.status(each)["missing"] for each in BROKERS))
        wait_until(lambda: all(each.is_published() for each in said))
        wait_until(lambda: all(len({*each.payloads}) == 600 for each in (two, three)))
        for each in (two, three):
            assert has_each_in_order(each, 600)
            if qos == 2:
                assert len(each.payloads) == 600
        goes_on(network)
        wait_until(lambda: len(links(network)) == 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_random_kills_during_exchanges_lose_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers are killed one after the other, at any step of an exchange; QoS 2 arrives once, in
    order.
    """
    random = Random(seed)
    with (
        restless(tmp_path, monkeypatch) as network,
        network.client("B1", "one") as one,
        network.client("B2", "two") as two,
        network.client("B3", "three") as three,
    ):
        for each in (two, three):
            each.subscribe("all", 2)
        said = []
        for _ in range(6):
            wait_until(one.paho.is_connected)
            goes_on(network)
            for _ in range(100):
                said.append(one.paho.publish("all", b"%d" % len(said), qos=2))
            time.sleep(random.random() / 4)
            name = random.choice(BROKERS)
            network.kill(name)
            network.start(name)
            wait_until(lambda: all(not network.status(each)["missing"] for each in BROKERS))
        wait_until(lambda: all(each.is_published() for each in said))
        wait_until(lambda: all(len({*each.payloads}) == len(said) for each in (two, three)))
        for each in (two, three):
            assert has_each_in_order(each, len(said))
            assert len(each.payloads) == len(said)
        goes_on(network)
        wait_until(lambda: len(links(network)) == 4)
