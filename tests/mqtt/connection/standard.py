"""Shared parts of the conformance tests: versions, reason codes, pairs of clients."""

from __future__ import annotations

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Connack
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import BrokerApi, Client

VERSIONS = (MQTT_3_1_1, MQTT_5)
CODES = ReasonCode


def identified(*identifiers: int) -> Properties:
    return Properties(subscription_identifiers=identifiers)


def kept(seconds: int = 60) -> Properties:
    return Properties(session_expiry_interval_s=seconds)


def pair(version: int = MQTT_5) -> tuple[Client, Client]:
    broker_api = BrokerApi()
    return broker_api.connect("publisher"), broker_api.connect("subscriber", version)


def subscribed_to_all(version: int = MQTT_5, **fields: object) -> tuple[Client, Client]:
    """A publisher of MQTT 5 and a subscriber to everything at QoS 2."""
    broker_api = BrokerApi()
    subscriber = broker_api.connect("subscriber", version, **fields)
    subscriber.subscribe("#", qos=2)
    return broker_api.connect("publisher"), subscriber


def refused(client: Client) -> Connack:
    """The CONNACK that ended the connection."""
    assert client.closed
    [connack] = client.take()
    assert isinstance(connack, Connack)
    assert not connack.session_present  # [MQTT-3.2.2-6]
    return connack
