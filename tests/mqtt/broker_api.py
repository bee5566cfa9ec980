"""A broker's MQTT side with clients around it, in memory, under a clock of the test.

>>> broker_api = BrokerApi()
>>> alice, bob = broker_api.connect("alice"), broker_api.connect("bob", version=4)
>>> alice.subscribe("a/#", qos=1)
Suback(packet_id=1, reason_codes=(<ReasonCode.GRANTED_QOS_1: 1>,), properties=Properties())
>>> bob.publish("a/b", b"hi", qos=1)
[Puback(packet_id=1, reason_code=<ReasonCode.SUCCESS: 0>, properties=Properties())]
>>> [(packet.topic, packet.payload, packet.qos) for packet in alice.take()]
[('a/b', b'hi', 1)]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.mqtt.access import Access
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    WillFields,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Ask, ClientEffect, Close, HalfClose, Write
from shoal.mqtt.federation.controls import LogAsked
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.replaying.reading import ReadLog

# The CONNECT of a client with a lasting session.
KEPT: dict[str, Any] = {
    "clean_start": False,
    "properties": Properties(session_expiry_interval_s=1_000),
}

SECOND = 1_000_000


class BrokerApi:
    """One broker's MQTT side; `statistics_interval_s=0` switches $SYS off."""

    def __init__(self, access: Access | None = None, **limits: Any) -> None:
        self.now_us = 1_000 * SECOND
        settings = MqttLimits(**{"statistics_interval_s": 0, "server_keep_alive_s": 0, **limits})
        self.clients = BrokerClients("B1", self.now_us, limits=settings, access=access)
        self.requests: list[Any] = []
        self.questions: list[LogAsked] = []
        self._ends: dict[Connection, Client] = {}

    def open(self, version: int = MQTT_5, **transport: Any) -> Client:
        """A network connection without any packet yet."""
        connection = self.clients.open(self.now_us, **transport)
        client = Client(self, connection, version)
        self._ends[connection] = client
        return client

    def connect(self, client_id: str = "", version: int = MQTT_5, **fields: Any) -> Client:
        """A connected client; `properties` are CONNECT's, its CONNACK is `client.connack`."""
        client = self.open(version)
        client.send(Connect(client_id=client_id, version=version, **fields))
        client.connack, *client._inbox = client.take()
        assert isinstance(client.connack, Connack)
        assert client.connack.reason_code is ReasonCode.SUCCESS, client.connack
        return client

    def after(self, seconds: float) -> None:
        """Let time pass; every timer due fires."""
        end_us = self.now_us + round(seconds * SECOND)
        while True:
            deadline_us = self.clients.deadline_us
            if deadline_us is None or deadline_us > end_us:
                break
            self.now_us = max(self.now_us, deadline_us)
            self.carry_out(self.clients.advance(self.now_us))
        self.now_us = end_us

    def take_held(self) -> None:
        """Handle the held packets of clients that need not wait longer, as a driver does."""
        for connection in list(self._ends):
            if connection.holds and not connection.must_wait:
                self.carry_out(connection.take_held(self.now_us))

    def carry_out(self, effects: Iterable[ClientEffect]) -> None:
        for effect in effects:
            match effect:
                case Write(connection, data):
                    self._ends[connection].read(data)
                case HalfClose(connection):
                    self._ends[connection].half_closed = True
                case Close(connection):
                    self._ends[connection].closed = True
                case Ask(input):
                    self.requests.append(input)
                case ReadLog(asked):
                    self.questions.append(asked)


class Client:
    """A client without behaviour of its own; packets wait until `take`."""

    def __init__(self, broker_api: BrokerApi, connection: Connection, version: int) -> None:
        self.broker_api = broker_api
        self.connection = connection
        self.version = version
        self.connack: Any = None
        self.closed = False
        self.half_closed = False
        self.written = b""
        # Whether it reads; random input may have changed its version.
        self.is_listening = True
        self._decoder = Decoder(version)
        self._inbox: list[Packet] = []
        self._last_id = 0

    def read(self, data: bytes) -> None:
        assert not self.closed, "written to after the connection was closed"
        assert not self.half_closed, "written to after this side was closed"
        self.written += data
        if not self.is_listening:
            return
        self._inbox += self._decoder.feed(data)
        assert self._decoder.failure is None, self._decoder.failure

    def take(self) -> list[Any]:
        """The packets that arrived since the last call."""
        inbox, self._inbox = self._inbox, []
        return inbox

    def send(self, *packets: Packet) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes | str) -> None:
        """Bytes, or their hexadecimal text."""
        raw = bytes.fromhex(data) if isinstance(data, str) else data
        self.broker_api.carry_out(self.connection.receive(raw, self.broker_api.now_us))
        while self.connection.holds and not self.connection.must_wait:
            self.broker_api.carry_out(self.connection.take_held(self.broker_api.now_us))

    def lose(self) -> None:
        """Break the network connection."""
        self.closed = True
        self.broker_api.carry_out(self.connection.lost(self.broker_api.now_us))

    def disconnect(self, code: ReasonCode = ReasonCode.SUCCESS, **properties: Any) -> None:
        self.send(Disconnect(code, Properties(**properties)))
        assert self.closed

    def subscribe(
        self,
        topic_filter: str,
        qos: int = 0,
        properties: Properties = NO_PROPERTIES,
        **options: Any,
    ) -> Suback:
        """Subscribe, and return the SUBACK; other packets remain for `take`."""
        request = SubscriptionRequest(topic_filter, qos, **options)
        self.send(Subscribe(self._new_id(), (request,), properties))
        return self._take_first(Suback)

    def unsubscribe(self, *topic_filters: str) -> Unsuback:
        self.send(Unsubscribe(self._new_id(), topic_filters))
        return self._take_first(Unsuback)

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> list[Any]:
        """Publish, and release at QoS 2; returns the acknowledgements."""
        packet_id = self._new_id() if qos else 0
        self.send(Publish(topic, payload, qos, retain, False, packet_id, properties))
        answers: list[Any] = []
        if qos == 1:
            answers.append(self._take_first(Puback))
        if qos == 2:
            answers.append(self._take_first(Pubrec))
            if answers[0].reason_code < 0x80:
                self.send(Pubrel(packet_id))
                answers.append(self._take_first(Pubcomp))
        return answers

    def take_publications(self) -> list[Publish]:
        """Take and acknowledge the packets, which must all be publications."""
        publications: list[Publish] = []
        while packets := self.take():
            for packet in packets:
                match packet:
                    case Publish():
                        publications.append(packet)
                        if packet.qos == 1:
                            self.send(Puback(packet.packet_id))
                        elif packet.qos == 2:
                            self.send(Pubrec(packet.packet_id))
                    case Pubrel():
                        self.send(Pubcomp(packet.packet_id))
                    case _:
                        raise AssertionError(f"{packet} is no publication")
        return publications

    def take_payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.take_publications()]

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _take_first(self, kind: type) -> Any:
        for number, packet in enumerate(self._inbox):
            if isinstance(packet, kind):
                return self._inbox.pop(number)
        raise AssertionError(f"no {kind.__name__} among {self._inbox}")


def will(topic: str, payload: bytes = b"gone", **fields: Any) -> WillFields:
    return WillFields(topic, payload, **fields)
