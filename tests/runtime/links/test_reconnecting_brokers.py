"""Brokers that are apart for a while: they start one after the other, or a link is cut."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from shoal.overlays.tree import exchange
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network as network_of
from tests.runtime.one_service import running
from tests.runtime.processes import Client, Processes, not_started, processes, wait_until

# Brokers wait for each other, without spools.
SETTLED = {"folder": "data", "sync": "never", "acknowledge": "settled"}


def retained(network: Processes, broker: str) -> set[bytes]:
    """The retained messages that a new subscriber there receives."""
    with network.client(broker, f"asks-{broker}", expiry_s=0) as client:
        client.subscribe("#", 1)
        time.sleep(0.1)
        return set(client.payloads)


def is_up(network: Processes, broker: str) -> bool:
    return all(link["state"] == "up" for link in network.status(broker)["links"])


@pytest.mark.soak
def test_nothing_is_acknowledged_while_a_former_neighbour_starts_late(tmp_path: Path) -> None:
    with processes(tmp_path, 2, storage=SETTLED) as network:
        with network.client("B2", "away") as away:
            away.subscribe("a", 1)
        network.knows("B1", 3)
        network.kill("B1", "B2")
        network.start("B1")
        with network.client("B1", "p") as publisher:
            sent = [publisher.paho.publish("a", b"%d" % number, 1) for number in range(20)]
            time.sleep(exchange.WAIT_US / 1e6 + 2)
            assert not any(each.is_published() for each in sent)
            network.start("B2")
            wait_until(lambda: all(each.is_published() for each in sent))
        with network.client("B2", "away") as away:
            wait_until(lambda: len(away.payloads) == 20)


@on_asyncio
async def test_a_former_neighbour_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "WAIT_US", 200_000)
    storage = SETTLED | {"folder": str(tmp_path)}
    both = network_of(2, storage=storage)
    async with running(both, "B1") as (one,):
        await until(lambda: one.node.is_ready)  # no broker knows B2
        async with running(both, "B2"):
            await until(lambda: all(row["state"] == "up" for row in one.links.status()))
            await until(lambda: one.front_end.journal.neighbours == ("B2",))
    async with running(both, "B1") as (one,):
        await asyncio.sleep(0.5)
        assert not one.node.is_ready
        async with running(both, "B2"):
            await until(lambda: one.node.is_ready)
    # A broker that is not in the network is not waited for.
    alone = msgspec.structs.replace(both, links=(), brokers=both.brokers[:1])
    async with running(alone, "B1") as (one,):
        await until(lambda: one.node.is_ready)


def test_two_reconnected_parts_agree_on_retained_messages(
    tmp_path: Path,
) -> None:
    limits = {"give_up_us": 500_000}
    with (
        not_started(tmp_path, 4, link_limits=limits, storage=SETTLED) as network,
        network.lay_cable("B2", "B3") as cable,
    ):
        network.start("B1", "B2", "B3", "B4")
        wait_until(lambda: all(is_up(network, name) for name in ("B1", "B2", "B3", "B4")))
        with network.client("B1", "p1") as one, network.client("B4", "p4") as four:
            retain(one, "a", b"before")
            cable.cut()
            wait_until(lambda: has_given_up(network, "B2") and has_given_up(network, "B3"))
            retain(one, "a", b"first")
            retain(one, "b", b"one")
            retain(four, "a", b"second")
            retain(four, "c", b"four")
            cable.mend()
            for name in ("B1", "B2", "B3", "B4"):
                wait_until(partial(knows_all, network, name))


def knows_all(network: Processes, broker: str) -> bool:
    return retained(network, broker) == {b"second", b"one", b"four"}


def retain(client: Client, topic: str, payload: bytes) -> None:
    client.paho.publish(topic, payload, 1, retain=True).wait_for_publish(PATIENCE_S)


def has_given_up(network: Processes, broker: str) -> bool:
    return bool(network.status(broker)["counts"].get("links_down"))
