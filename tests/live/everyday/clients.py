"""Plain clients of an ordinary day: paho, each with one address and a session that stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.runtime.addresses import Address
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Paho

# A writer waits for so long: a broker that is down, or has no room, comes back before.
LONGEST_S = 3 * PATIENCE_S


class Heard(NamedTuple):
    """One message, by whom it was published and as which of his."""

    writer: str
    number: int


class Plain:
    """One client of one broker; it connects again by itself."""

    def __init__(self, where: Address, name: str, *, version: int = mqtt.MQTTv5) -> None:
        self.name = name
        self.heard: list[Heard] = []
        self.is_new = version == mqtt.MQTTv5
        old: dict[str, Any] = {} if self.is_new else {"clean_session": False}
        self.paho = Paho(CallbackAPIVersion.VERSION2, name, protocol=version, **old)
        self.paho.reconnect_delay_set(1, 1)
        self.paho.on_message = self._on_message
        self._granted = threading.Event()
        self.paho.on_subscribe = lambda *_: self._granted.set()
        self.paho.connect(where.host, where.port, **(kept() if self.is_new else {}))
        self.paho.loop_start()

    def subscribe(self, topic: str, qos: int) -> None:
        self.paho.subscribe(topic, qos)
        assert self._granted.wait(PATIENCE_S)

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        said = json.loads(message.payload)
        self.heard.append(Heard(said["writer"], said["n"]))


class Writer(Plain):
    """Publishes one message after the other, and now and then one that is retained."""

    def __init__(self, where: Address, name: str, qos: int, version: int = mqtt.MQTTv5) -> None:
        super().__init__(where, name, version=version)
        self.qos = qos
        self.acknowledged: list[int] = []
        self.state = -1
        self._answers: dict[int, bool] = {}
        self._answered = threading.Condition()
        self._is_over = threading.Event()
        self.paho.on_publish = self._on_publish
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def end(self) -> None:
        """Once what was published last is acknowledged."""
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._is_over.wait(0.01):
            said = {"writer": self.name, "n": number, "even": 1 - number % 2}
            if self._publish(f"day/{self.name}", said, self.qos, False):
                self.acknowledged.append(number)
            if number % 10 == 0 and self._publish(f"state/{self.name}", said, 1, True):
                self.state = number
            number += 1

    def _publish(self, topic: str, said: dict[str, Any], qos: int, retain: bool) -> bool:
        """One at a time, as paho may send what is new before what it has to send again."""
        mid = self.paho.publish(topic, json.dumps(said), qos, retain).mid
        with self._answered:
            assert self._answered.wait_for(lambda: mid in self._answers, LONGEST_S), said
            return self._answers.pop(mid)

    def _on_publish(self, _client: Any, _data: Any, mid: int, reason: Any, _more: Any) -> None:
        with self._answered:
            self._answers[mid] = not reason.is_failure
            self._answered.notify()


def kept() -> dict[str, Any]:
    """How an MQTT 5 client connects whose session stays."""
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 600
    return {"clean_start": False, "properties": properties}


def retained(where: Address, topics: set[str], wait: Callable[[Callable[[], bool]], None]) -> Any:
    """What is retained on these topics at a broker."""
    found: dict[str, int] = {}
    client = Paho(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)

    def hear(_client: Any, _data: Any, message: Any) -> None:
        found[message.topic] = json.loads(message.payload)["n"]

    client.on_message = hear
    client.on_connect = lambda *_: client.subscribe("state/#", 1)
    client.connect(where.host, where.port)
    client.loop_start()
    try:
        wait(lambda: set(found) == topics)
    finally:
        client.disconnect()
        client.loop_stop()
    return found
