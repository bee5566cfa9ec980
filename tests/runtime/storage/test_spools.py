"""A disconnected broker delays no one: its messages are on disk, and arrive after its return."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from tests.runtime.processes import Client, Processes, processes, wait_until
from tests.runtime.storage.test_ack_tracker import Publisher, arrived, numbers

COUNT = 50
SOON = {"park_us": 100_000}


def publish(publisher: Client, numbers: range) -> None:
    """All publications are acknowledged."""
    sent = [publisher.paho.publish("a/b", b"%d" % number, 2) for number in numbers]
    wait_until(lambda: all(each.is_published() for each in sent))


def subscribe(network: Processes, *brokers: str) -> None:
    """Readers that disconnect; the first broker knows them."""
    for broker in brokers:
        with network.client(broker, f"reader at {broker}") as reader:
            reader.subscribe("a/#", 2)
    network.knows("B1", len(network.running) + len(brokers))


def all_arrived(network: Processes, broker: str, count: int) -> None:
    """All publications, in order, once."""
    with network.client(broker, f"reader at {broker}") as reader:
        wait_until(lambda: len(reader.payloads) >= count)
        assert [int(payload) for payload in reader.payloads] == list(range(count))


def test_a_disconnected_broker_delays_no_publisher(tmp_path: Path) -> None:
    """Also if it is down for longer than the time after which it would count as dead."""
    with processes(tmp_path, 3, link_limits=SOON | {"give_up_us": 1_000_000}) as network:
        subscribe(network, "B3")
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT))
            network.kill("B3")
            publish(publisher, range(COUNT, 2 * COUNT))
            publish(publisher, range(2 * COUNT, 3 * COUNT))
            assert publisher.session_present == [False]
        network.start("B3")
        all_arrived(network, "B3", 3 * COUNT)


def test_a_hanging_broker_delays_no_publisher(tmp_path: Path) -> None:
    """It resumes with its state, and its messages come a second time."""
    limits = SOON | {"silence_us": 1_000_000}
    with processes(tmp_path, 3, link_limits=limits) as network:
        subscribe(network, "B3")
        with network.client("B1", "p") as publisher:
            sent = [publisher.paho.publish("a/b", b"%d" % number, 2) for number in range(COUNT)]
            network.running["B2"].send_signal(signal.SIGSTOP)
            wait_until(lambda: all(each.is_published() for each in sent))
            publish(publisher, range(COUNT, 2 * COUNT))
            network.running["B2"].send_signal(signal.SIGCONT)
            publish(publisher, range(2 * COUNT, 3 * COUNT))
        all_arrived(network, "B3", 3 * COUNT)


@pytest.mark.parametrize("killed", ["B1", "B2"])
def test_a_spool_outlives_its_broker(tmp_path: Path, killed: str) -> None:
    """The neighbours are killed in turn; the last to start is the one that had a spool."""
    with processes(tmp_path, 3, link_limits=SOON) as network:
        subscribe(network, "B3")
        away = "B3" if killed == "B2" else "B2"
        with network.client("B1", "p") as publisher:
            network.kill(away)
            publish(publisher, range(COUNT))
        network.kill(*network.running)
        network.start("B3", *({"B1", "B2"} - {killed}))
        network.start(killed)
        all_arrived(network, "B3", COUNT)


def test_a_broker_missing_since_the_start_misses_nothing(tmp_path: Path) -> None:
    with processes(tmp_path, 2) as network:
        subscribe(network, "B2")
        network.kill("B1", "B2")
        network.start("B1")
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT))
        network.start("B2")
        all_arrived(network, "B2", COUNT)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_killed_brokers_that_stay_down_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Any of them, also two at once, for moments or long; publishers and a reader at each end."""
    random = Random(seed)
    names, count = ("B1", "B2", "B3"), 20_000
    limits = {"maximum_queued_messages": 1_000_000}
    with processes(tmp_path, 3, link_limits=SOON, limits=limits) as network:
        subscribe(network, "B1", "B3")
        publishers = {
            qos: Publisher(place(network, broker), qos, comes_back=True, count=count)
            for qos, broker in ((1, "B1"), (2, "B3"))
        }

        async def publish() -> None:
            await asyncio.gather(*(each.run() for each in publishers.values()))

        publishing = Thread(target=asyncio.run, args=(publish(),))
        publishing.start()
        while publishing.is_alive():
            killed = random.sample(names, random.randint(1, 2))
            network.kill(*killed)
            time.sleep(random.choice((0, 1, 8)))
            network.start(*killed)
            time.sleep(random.uniform(0, 3))
        for end in ("B1", "B3"):
            with network.client(end, f"reader at {end}") as reader:
                for qos in (1, 2):
                    arrived(reader, qos, set(range(count)))
                    found = numbers(reader, qos)
                    once = list(dict.fromkeys(found))
                    assert once == list(range(count))
                    assert found == once or qos == 1


def place(network: Processes, broker: str) -> tuple[str, int]:
    address = network.network.broker(broker).address("mqtt")
    assert address is not None
    return address.host, address.port


def test_a_full_spool_loses_nothing(tmp_path: Path) -> None:
    """Messages beyond it are refused, or acknowledged when the other broker is back."""
    storage = {"folder": "data", "sync": "never", "maximum_absent_bytes": 30_000}
    with processes(tmp_path, 2, link_limits=SOON, storage=storage) as network:
        subscribe(network, "B2")
        with network.client("B1", "p") as publisher:
            refused: set[int] = set()
            done: set[int] = set()

            def told(client: object, data: object, mid: int, code: Any, _: object) -> None:
                (refused if code.is_failure else done).add(mid)

            publisher.paho.on_publish = told
            network.kill("B2")
            numbers: dict[int, int] = {}
            while not refused:
                number = len(numbers)
                numbers[publisher.paho.publish("a/b", b"%d" % number, 1).mid] = number
                time.sleep(0.001)
            assert done
            network.start("B2")
            # The messages just before the bound are acknowledged now.
            wait_until(lambda: len(done) + len(refused) == len(numbers))
            with network.client("B2", "reader at B2") as reader:
                owed = sorted(numbers[mid] for mid in done)
                wait_until(lambda: set(owed) <= set(map(int, reader.payloads)))
                assert list(dict.fromkeys(map(int, reader.payloads))) == owed
