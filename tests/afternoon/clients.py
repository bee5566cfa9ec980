"""Publishers and subscribers that go to another broker when theirs does not answer.

A publisher sends numbers, with `x` from 0 to 9 in JSON, to `site/NAME` at QoS 1.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import shoal
from tests.runtime.processes import Paho

# A client that is not connected for so long tries the next of its brokers.
PATIENT_S = 4.0
POLL_S = 0.5
PAUSE_S = 0.25
MOST_UNACKNOWLEDGED = 40
EXPIRY_S = 100_000
# Of ten values of `x` the filter lets 7, 8 and 9 through.
FILTER = "x > 6"
VERSIONS = {"3.1.1": paho.MQTTv311, "5": paho.MQTTv5}

Ports = Sequence[tuple[str, int]]


class Publisher(Protocol):
    """A client whose acknowledged numbers are known."""

    name: str
    # The number of the next publication.
    next: int
    acknowledged: set[int]

    @property
    def broker(self) -> str: ...

    def start(self) -> None: ...

    def end(self) -> None: ...


class Subscriber:
    """The numbers that a client has received, by publisher."""

    def __init__(self, name: str, ports: Ports, wants: Callable[[int], bool]) -> None:
        self.name = name
        self.wants = wants
        self.received: dict[str, set[int]] = {}
        self._ports = ports
        self._at = 0

    @property
    def broker(self) -> str:
        """The broker to which it connects."""
        return self._ports[self._at][0]

    def start(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def record(self, topic: str, payload: str | bytes) -> None:
        number = int(json.loads(payload)["n"])
        self.received.setdefault(topic.rpartition("/")[2], set()).add(number)


def wants_all(number: int) -> bool:
    """Whether a subscriber without a filter wants this number: always."""
    return number >= 0


def passes_filter(number: int) -> bool:
    """Whether `FILTER` lets a publication of this number through."""
    return number % 10 > 6


class _Roaming:
    """A paho client with a lasting session; it goes round its brokers until one answers."""

    def __init__(self, name: str, ports: Ports, version: str) -> None:
        self.ports = ports
        self.at = 0
        self.is_v5 = version == "5"
        options: dict[str, Any] = {} if self.is_v5 else {"clean_session": False}
        self.paho = Paho(CallbackAPIVersion.VERSION2, name, protocol=VERSIONS[version], **options)
        self.paho.reconnect_delay_set(1, 2)
        self._is_over = threading.Event()

    def start(self) -> None:
        options: dict[str, Any] = {}
        if self.is_v5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = EXPIRY_S
            options = {"clean_start": False, "properties": properties}
        self.paho.connect_async("127.0.0.1", self.ports[0][1], 10, **options)
        self.paho.loop_start()
        threading.Thread(target=self._roam, daemon=True).start()

    def _roam(self) -> None:
        since_s = time.monotonic()
        while not self._is_over.wait(POLL_S):
            if self.paho.is_connected():
                since_s = time.monotonic()
            elif time.monotonic() - since_s > PATIENT_S:
                since_s = time.monotonic()
                self.at = (self.at + 1) % len(self.ports)
                # paho reconnects to the port that it knows.
                self.paho._port = self.ports[self.at][1]

    def end(self) -> None:
        self._is_over.set()
        self.paho.disconnect()
        self.paho.loop_stop()


class PahoPublisher:
    """A publisher that follows no redirect."""

    def __init__(self, name: str, ports: Ports, version: str = "5") -> None:
        self.name = name
        self.next = 0
        self.acknowledged: set[int] = set()
        self._client = _Roaming(name, ports, version)
        self._client.paho.on_publish = self._on_publish
        # Numbers by packet identifier, until they are acknowledged or refused.
        self._sent: dict[int, int] = {}
        # Answers that came before `publish` returned: whether they acknowledge.
        self._early: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)

    @property
    def broker(self) -> str:
        return self._client.ports[self._client.at][0]

    def start(self) -> None:
        self._client.start()
        self._thread.start()

    def _publish(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            if len(self._sent) >= MOST_UNACKNOWLEDGED:
                continue
            number, self.next = self.next, self.next + 1
            payload = json.dumps({"n": number, "x": number % 10})
            # Without the lock: paho calls `_on_publish` while it holds a lock that this needs.
            packet_id = self._client.paho.publish(f"site/{self.name}", payload, 1).mid
            with self._lock:
                self._sent[packet_id] = number
                if packet_id in self._early:
                    self._answer(packet_id, is_taken=self._early.pop(packet_id))

    def _on_publish(self, _: Any, __: Any, packet_id: int, reason: Any, ___: Any) -> None:
        with self._lock:
            if packet_id in self._sent:
                self._answer(packet_id, is_taken=not reason.is_failure)
            else:
                self._early[packet_id] = not reason.is_failure

    def _answer(self, packet_id: int, *, is_taken: bool) -> None:
        number = self._sent.pop(packet_id)
        if is_taken:
            self.acknowledged.add(number)

    def end(self) -> None:
        """Publish nothing more; the last acknowledgements may come."""
        self._is_over.set()
        self._thread.join()
        deadline_s = time.monotonic() + PATIENT_S
        while self._sent and time.monotonic() < deadline_s:
            time.sleep(POLL_S / 10)
        self._client.end()


class PahoSubscriber(Subscriber):
    """A subscriber that subscribes when its broker has no session of it."""

    def __init__(self, name: str, ports: Ports, version: str = "5", content: str = "") -> None:
        super().__init__(name, ports, passes_filter if content else wants_all)
        self._content = content
        self._client = _Roaming(name, ports, version)
        self._client.paho.on_connect = self._on_connect
        self._client.paho.on_message = lambda _, __, each: self.record(each.topic, each.payload)

    @property
    def broker(self) -> str:
        return self._ports[self._client.at][0]

    def _on_connect(self, client: paho.Client, _: Any, flags: Any, reason: Any, __: Any) -> None:
        if reason.is_failure or flags.session_present:
            return
        properties = Properties(PacketTypes.SUBSCRIBE) if self._content else None
        if properties is not None:
            properties.UserProperty = ("$where", self._content)
        client.subscribe("site/+", 1, properties=properties)

    def start(self) -> None:
        self._client.start()

    def end(self) -> None:
        self._client.end()


class Follower:
    """shoal's own client: it advertises, and follows when the network moves its publisher."""

    def __init__(self, name: str, ports: Ports) -> None:
        self.name = name
        self.next = 0
        self.acknowledged: set[int] = set()
        self._brokers = {f"127.0.0.1:{port}": broker for broker, port in ports}
        self._client: shoal.Client | None = None
        self._first = f"127.0.0.1:{ports[0][1]}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._publish()), daemon=True)

    @property
    def broker(self) -> str:
        """The broker to which it is connected; empty if the network's file does not list it."""
        return self._brokers.get(self._client.address if self._client else self._first, "")

    def start(self) -> None:
        self._thread.start()

    async def _publish(self) -> None:
        async with shoal.Client(self._first, self.name, advertise=["x >= 0"]) as self._client:
            while not self._is_over.is_set():
                number, self.next = self.next, self.next + 1
                payload = json.dumps({"n": number, "x": number % 10}).encode()
                with suppress(shoal.ClientError):
                    await self._client.publish(f"site/{self.name}", payload, qos=1)
                    self.acknowledged.add(number)
                await asyncio.sleep(PAUSE_S)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENT_S)
