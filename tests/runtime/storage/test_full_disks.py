"""Acknowledged publications are not lost if a broker's disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.processes import Processes, processes, wait_until
from tests.runtime.storage.test_spools import all_arrived, publish, subscribe

COUNT = 60
SOON = {"park_us": 100_000}


def fails(network: Processes, broker: str) -> bool:
    return bool(network.status(broker)["journal"]["is_failing"])


def fill(network: Processes, broker: str) -> None:
    """A broker's disk is full, and the broker knows it."""
    network.fill_disk(broker)
    with network.client(broker, "one more"):
        wait_until(lambda: fails(network, broker))


@pytest.mark.parametrize("where", ["B2", "B3"])
def test_messages_of_a_killed_full_broker_come_from_copies(tmp_path: Path, where: str) -> None:
    """Its neighbour has copies on disk: at the edge of the network and in the middle."""
    with processes(tmp_path, 3, link_limits=SOON) as network:
        subscribe(network, where)
        fill(network, where)
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT))
            network.kill(where)
            publish(publisher, range(COUNT, 2 * COUNT))
        network.start(where)
        all_arrived(network, where, 2 * COUNT)


def test_a_broker_with_room_again_settles_all_and_copies_are_dropped(tmp_path: Path) -> None:
    with processes(tmp_path, 3, link_limits=SOON) as network:
        subscribe(network, "B3")
        fill(network, "B3")
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT))
            network.empty_disk("B3")
            publish(publisher, range(COUNT, 2 * COUNT))
        links = lambda: network.status("B2")["links"]  # noqa: E731
        wait_until(lambda: not any(link["spooled_bytes"] for link in links()))
        network.kill("B1", "B2", "B3")
        network.start("B1", "B2", "B3")
        all_arrived(network, "B3", 2 * COUNT)


def test_a_full_broker_forwards_publications(tmp_path: Path) -> None:
    with processes(tmp_path, 3, link_limits=SOON) as network:
        subscribe(network, "B3")
        fill(network, "B2")
        with network.client("B1", "p") as publisher, network.client("B3", "live") as reader:
            reader.subscribe("a/#", 1)
            publish(publisher, range(COUNT))
            wait_until(lambda: len(reader.payloads) == COUNT)
        all_arrived(network, "B3", COUNT)


def test_without_copies_publications_are_acknowledged_once_on_disk(tmp_path: Path) -> None:
    """With `acknowledge = "settled"` the publisher waits."""
    storage = {"folder": "data", "sync": "never", "acknowledge": "settled"}
    with processes(tmp_path, 3, storage=storage) as network:
        subscribe(network, "B3")
        fill(network, "B3")
        with network.client("B1", "p") as publisher:
            sent = [publisher.paho.publish("a/b", b"%d" % number, 2) for number in range(COUNT)]
            network.knows("B1", 4)
            assert not any(each.is_published() for each in sent)
            network.empty_disk("B3")
            wait_until(lambda: all(each.is_published() for each in sent))
        network.kill("B3")
        network.start("B3")
        all_arrived(network, "B3", COUNT)


def test_a_client_gets_nothing_twice_at_qos_2_from_a_full_broker_that_is_killed(
    tmp_path: Path,
) -> None:
    with (
        processes(tmp_path, 2, link_limits=SOON) as network,
        network.client("B2", "reader at B2") as reader,
        network.client("B1", "p") as publisher,
    ):
        reader.subscribe("a/#", 2)
        network.knows("B1", 3)
        publish(publisher, range(COUNT))
        wait_until(lambda: len(reader.payloads) == COUNT)
        network.fill_disk("B2")
        publish(publisher, range(COUNT, 2 * COUNT))
        network.kill("B2")
        network.start("B2")
        wait_until(lambda: len(reader.payloads) >= 2 * COUNT)
        publish(publisher, range(2 * COUNT, 3 * COUNT))
        wait_until(lambda: len(reader.payloads) >= 3 * COUNT)
        network.fill_disk("B2")
        publish(publisher, range(3 * COUNT, 4 * COUNT))
        network.empty_disk("B2")
        wait_until(lambda: len(reader.payloads) >= 4 * COUNT)
        assert [int(payload) for payload in reader.payloads] == list(range(4 * COUNT))
