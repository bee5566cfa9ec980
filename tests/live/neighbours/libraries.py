"""paho and aiomqtt, with their defaults except for a lasting session."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.live.neighbours.mosquitto import MOSQUITTO, Mosquitto
from tests.live.neighbours.neighbour import (
    EVERYBODY,
    PAUSE_S,
    STATE,
    Neighbour,
    Place,
    kinds,
    topic,
)

RETRY_S = 0.2


class Paho(Neighbour):
    """Reconnects by itself, and retransmits unacknowledged publications."""

    name = "paho"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=self.name, clean_session=False
        )
        self._client.on_connect = self._connected
        self._client.on_message = lambda client, data, message: self.record(
            message.topic, message.payload
        )
        self._client.on_publish = self._published
        self._acknowledged: set[int] = set()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._publish_all)

    def start(self) -> None:
        self._client.connect(self.place.host, self.place.port)
        self._client.loop_start()
        self._thread.start()

    def _connected(self, client: paho.Client, *_: Any) -> None:
        client.subscribe(EVERYBODY, qos=1)

    def _published(self, client: paho.Client, data: object, mid: int, *_: Any) -> None:
        with self._changed:
            self._acknowledged.add(mid)
            self._changed.notify()

    def _publish_all(self) -> None:
        number = 0
        while not self.is_over.wait(PAUSE_S):
            for kind in kinds(number):
                info = self._client.publish(
                    topic(self.name, kind), str(number), qos=1, retain=kind == STATE
                )
                if not self._is_acknowledged(info.mid):
                    return
                self.acknowledge(number, kind)
            number += 1

    def _is_acknowledged(self, mid: int) -> bool:
        """Wait for the acknowledgement, or the client's end."""
        with self._changed:
            while mid not in self._acknowledged:
                if self.is_gone.is_set():
                    return False
                self._changed.wait(RETRY_S)
            self._acknowledged.clear()
        return True

    def stop_publishing(self) -> None:
        super().stop_publishing()
        self._thread.join()

    def end(self) -> None:
        super().end()
        self._client.disconnect()
        self._client.loop_stop()


class Aiomqtt(Neighbour):
    """Reconnects in a loop, as its documentation says."""

    name = "aiomqtt"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._next: tuple[int, int] = 0, 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    async def _run(self) -> None:
        while not self.is_gone.is_set():
            try:
                async with aiomqtt.Client(
                    self.place.host, self.place.port, identifier=self.name, clean_session=False
                ) as client:
                    await client.subscribe(EVERYBODY, qos=1)
                    await asyncio.gather(self._listen(client), self._publish_all(client))
            except (aiomqtt.MqttError, EndError):
                await asyncio.sleep(RETRY_S)

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            self.record(str(message.topic), message.payload)

    async def _publish_all(self, client: aiomqtt.Client) -> None:
        while not self.is_gone.is_set():
            await asyncio.sleep(PAUSE_S)
            number, at = self._next
            if self.is_over.is_set() and not at:
                continue
            kind = kinds(number)[at]
            await client.publish(
                topic(self.name, kind), str(number), qos=1, retain=kind == STATE, timeout=5
            )
            self.acknowledge(number, kind)
            self._next = (number, 1) if at + 1 < len(kinds(number)) else (number + 1, 0)
        raise EndError

    def end(self) -> None:
        super().end()
        self._thread.join()


class EndError(Exception):
    """The client has been told to end."""


class Bridged(Paho):
    """paho at a mosquitto that has a bridge to the network.

    States go outwards only: with `both`, mosquitto publishes all its retained messages after each
    reconnect, even if older than the other side's.
    """

    name = "bridge"
    missing = "" if MOSQUITTO else "mosquitto is not installed (Debian: mosquitto)"

    def __init__(self, place: Place) -> None:
        self._mosquitto = Mosquitto(
            place.folder / "mosquitto",
            f"connection day\naddress {place.host}:{place.port}\nrestart_timeout 1\n"
            f"topic {EVERYBODY} both 1\ntopic {topic(self.name, STATE)} out 1\n",
        )
        host, _, port = self._mosquitto.address.rpartition(":")
        super().__init__(Place(host, int(port), place.folder))

    def end(self) -> None:
        super().end()
        self._mosquitto.stop()
