"""A broker that is away holds nobody back: what is for it is on disk, and comes when it is back."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.processes import Client, Processes, processes, wait_until

COUNT = 100
SOON = {"park_us": 100_000}


def publish(publisher: Client, numbers: range, qos: int) -> None:
    """All of them are acknowledged."""
    sent = [publisher.paho.publish("a/b", b"%d" % number, qos) for number in numbers]
    wait_until(lambda: all(each.is_published() for each in sent))


def subscribe(network: Processes, broker: str, name: str) -> None:
    with network.client(broker, name) as reader:
        reader.subscribe("a/#", 2)
    network.knows("B1", len(network.running) + 1)


def came(network: Processes, broker: str, name: str, count: int, qos: int) -> None:
    """All that was published, in its order, at QoS 2 once."""
    with network.client(broker, name) as reader:
        wait_until(lambda: len(set(reader.payloads)) == count)
        numbers = [int(payload) for payload in reader.payloads]
        assert list(dict.fromkeys(numbers)) == list(range(count))
        assert len(numbers) == count or qos == 1


@pytest.mark.parametrize("qos", [1, 2])
def test_a_broker_that_is_away_holds_nobody_back(tmp_path: Path, qos: int) -> None:
    """Also not for longer than the time after which it would count as gone."""
    with processes(tmp_path, 3, link_limits=SOON | {"give_up_us": 1_000_000}) as network:
        subscribe(network, "B3", "reader")
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT), qos)
            network.kill("B3")
            publish(publisher, range(COUNT, 2 * COUNT), qos)
            publish(publisher, range(2 * COUNT, 3 * COUNT), qos)
            assert publisher.session_present == [False]
        network.start("B3")
        came(network, "B3", "reader", 3 * COUNT, qos)


def test_a_broker_that_hangs_holds_nobody_back(tmp_path: Path) -> None:
    """It knows all it knew when it goes on, and what it was sent comes a second time."""
    limits = SOON | {"silence_us": 1_000_000}
    with processes(tmp_path, 3, link_limits=limits) as network:
        subscribe(network, "B3", "reader")
        with network.client("B1", "p") as publisher:
            sent = [publisher.paho.publish("a/b", b"%d" % number, 2) for number in range(COUNT)]
            network.running["B2"].send_signal(signal.SIGSTOP)
            wait_until(lambda: all(each.is_published() for each in sent))
            publish(publisher, range(COUNT, 2 * COUNT), 2)
            network.running["B2"].send_signal(signal.SIGCONT)
            publish(publisher, range(2 * COUNT, 3 * COUNT), 2)
        came(network, "B3", "reader", 3 * COUNT, 2)


@pytest.mark.parametrize("killed", ["B1", "B2"])
def test_a_spool_outlives_its_broker(tmp_path: Path, killed: str) -> None:
    """One neighbour after the other is killed; the last to start is the one that had a spool."""
    with processes(tmp_path, 3, link_limits=SOON) as network:
        subscribe(network, "B3", "reader")
        away = "B3" if killed == "B2" else "B2"
        with network.client("B1", "p") as publisher:
            network.kill(away)
            publish(publisher, range(COUNT), 2)
        network.kill(*network.running)
        network.start("B3", *({"B1", "B2"} - {killed}))
        network.start(killed)
        came(network, "B3", "reader", COUNT, 2)


def test_who_is_away_since_the_start_misses_nothing(tmp_path: Path) -> None:
    with processes(tmp_path, 2) as network:
        subscribe(network, "B2", "reader")
        network.kill("B1", "B2")
        network.start("B1")
        with network.client("B1", "p") as publisher:
            publish(publisher, range(COUNT), 2)
        network.start("B2")
        came(network, "B2", "reader", COUNT, 2)


def test_beyond_its_bound_a_spool_takes_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """What it does not take is refused, or acknowledged when the other broker is back."""
    storage = {"folder": "data", "sync": "never", "maximum_absent_bytes": 30_000}
    with processes(tmp_path, 2, link_limits=SOON, storage=storage) as network:
        subscribe(network, "B2", "reader")
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
            # What came just before it was full is acknowledged now.
            wait_until(lambda: len(done) + len(refused) == len(numbers))
            with network.client("B2", "reader") as reader:
                owed = sorted(numbers[mid] for mid in done)
                wait_until(lambda: set(owed) <= set(map(int, reader.payloads)))
                assert list(dict.fromkeys(map(int, reader.payloads))) == owed
