"""Plain clients of a week: paho with one address each; they reconnect by themselves."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from typing import Any

import paho.mqtt.client as paho

from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, wait_until

# The pause between two publications, and the bound on those under way.
PAUSE_S = 0.01
MOST_UNDER_WAY = 50
STATE = "state"


class Publisher:
    """Publishes numbers to `site/NAME` at a QoS; each tenth goes to `state/NAME`, retained."""

    def __init__(self, network: Processes, broker: str, name: str, qos: int) -> None:
        self.name, self.qos = name, qos
        # Packet identifier of each number, and the acknowledged ones. A publication made while the
        # client is disconnected is sent after its return.
        self.sent: list[int] = []
        self._done: set[int] = set()
        self._client = network.client(broker, name)
        self._client.paho.on_publish = lambda _, __, packet_id, *___: self._done.add(packet_id)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)

    def start(self) -> None:
        self._client.connect()
        self._thread.start()

    def _publish(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            if sum(each not in self._done for each in self.sent[-200:]) < MOST_UNDER_WAY:
                self._say(len(self.sent))

    def _say(self, number: int) -> None:
        payload = json.dumps({"n": number, "x": number % 10}).encode()
        self.sent.append(self._client.paho.publish(f"site/{self.name}", payload, self.qos).mid)
        if number % 10 == 0:
            self._client.paho.publish(f"{STATE}/{self.name}", b"%d" % number, 1, retain=True)

    @property
    def acknowledged(self) -> set[int]:
        """The acknowledged numbers."""
        return {number for number, each in enumerate(self.sent) if each in self._done}

    def goes_on(self, count: int = 20) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        """End publishing, and wait until everything is acknowledged."""
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        wait_until(lambda: self._done.issuperset(self.sent))

    def end(self) -> None:
        self._is_over.set()
        self._client.disconnect()


class Reader:
    """Subscribes in a lasting session, and records what it receives, by publisher."""

    def __init__(
        self, network: Processes, broker: str, name: str, topic_filter: str, qos: int = 2
    ) -> None:
        self.name, self.broker = name, broker
        self.came: dict[str, list[int]] = defaultdict(list)
        self._topic_filter, self._qos = topic_filter, qos
        self._client = network.client(broker, name)
        self._client.paho.on_message = self._hear

    def _hear(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        self.came[message.topic.rpartition("/")[2]].append(json.loads(message.payload)["n"])

    def start(self) -> None:
        self._client.connect()
        self._client.subscribe(self._topic_filter, self._qos)

    def pause(self) -> None:
        """Disconnect; the session stays."""
        self._client.disconnect()

    def resume(self) -> None:
        self._client.connect()

    def end(self) -> None:
        self._client.disconnect()


def retained(network: Processes, broker: str, count: int) -> dict[str, bytes]:
    """The retained states that a new subscriber receives."""
    found: dict[str, bytes] = {}
    client = network.client(broker, f"look at {broker} {time.time_ns()}", 0)
    client.paho.on_message = lambda _, __, each: found.__setitem__(each.topic, each.payload)
    with client:
        client.subscribe(f"{STATE}/#", 1)
        wait_until(lambda: len(found) >= count)
    return found
