"""Home Assistant and Zigbee2MQTT discover each other: birth message, will, retained configurations.

Zigbee2MQTT publishes a retained configuration for each device below `homeassistant/`, and its state
with a will of the opposite. It publishes all again after Home Assistant's birth message. Both
reconnect by themselves.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.live.neighbours.neighbour import Place

DEVICES = 8
STATUS, BRIDGE = "homeassistant/status", "zigbee2mqtt/bridge/state"
ONLINE, OFFLINE = (json.dumps({"state": state}).encode() for state in ("online", "offline"))


def configuration(device: int) -> tuple[str, bytes]:
    said = {"unique_id": f"d{device}", "state_topic": f"zigbee2mqtt/d{device}"}
    return f"homeassistant/sensor/d{device}/config", json.dumps(said).encode()


CONFIGURATIONS = dict(map(configuration, range(DEVICES)))
# Retained messages while both are connected.
RETAINED = {**CONFIGURATIONS, BRIDGE: ONLINE}


class _Client:
    """paho as both use it, or nearly so: sessions end with the connection."""

    def __init__(self, place: Place, name: str, will: tuple[str, bytes, bool]) -> None:
        self._place = place
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name)
        topic, payload, retain = will
        self.client.will_set(topic, payload, qos=1, retain=retain)
        self.client.on_connect = lambda *_: self.connected()
        self.client.on_message = lambda client, data, message: self.record(message)

    def connected(self) -> None:
        raise NotImplementedError

    def record(self, message: paho.MQTTMessage) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.client.connect(self._place.host, self._place.port)
        self.client.loop_start()

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def vanish(self) -> None:
        """End as a switched-off machine does: without DISCONNECT."""
        self.client.loop_stop()
        found: Any = self.client.socket()
        found.close()


class Zigbee2Mqtt(_Client):
    """Announces its devices; `announced` counts the times."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "zigbee2mqtt", (BRIDGE, OFFLINE, True))
        self.announced = 0

    def connected(self) -> None:
        self.client.subscribe(STATUS, qos=1)
        self.client.publish(BRIDGE, ONLINE, qos=1, retain=True)
        self._announce()

    def record(self, message: paho.MQTTMessage) -> None:
        if message.payload == b"online":
            self._announce()

    def _announce(self) -> None:
        for topic, payload in CONFIGURATIONS.items():
            self.client.publish(topic, payload, qos=1, retain=True)
        self.announced += 1


class HomeAssistant(_Client):
    """Subscribes to all configurations; `found` has those received, and the states of bridges."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "homeassistant", (STATUS, b"offline", False))
        self.found: dict[str, bytes] = {}
        self.is_complete = threading.Event()

    def connected(self) -> None:
        self.client.subscribe([("homeassistant/#", 0), ("zigbee2mqtt/#", 0)])
        self.client.publish(STATUS, b"online", qos=0)

    def record(self, message: paho.MQTTMessage) -> None:
        if message.topic != STATUS:
            self.found[message.topic] = message.payload
            if self.found == RETAINED:
                self.is_complete.set()
