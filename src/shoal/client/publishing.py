"""Checks an application's publication, and makes its PUBLISH packet.

>>> make_publish("a", b"x", 1, attributes={"carrier": "UA"}).properties.user_properties
(('carrier', 'UA'),)
>>> make_publish("a", b"x", 3)
Traceback (most recent call last):
    ...
ValueError: qos is 0, 1 or 2, not 3
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.client.attributes import plain_text
from shoal.matching.given import checked
from shoal.matching.topics.filters import check_topic
from shoal.model import Attributes, Value, check_attributes
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties

# The prefix of the brokers' own attributes.
_RESERVED = "$"
# The user property that has brokers trace a message; its value is a label for `shoal story`.
TRACE = "$trace"


def check_qos(qos: int) -> None:
    """Raise ValueError unless it is a valid QoS."""
    if qos not in (0, 1, 2):
        raise ValueError(f"qos is 0, 1 or 2, not {qos!r}")


def check_payload(payload: object) -> None:
    """Raise TypeError unless it is bytes."""
    if not isinstance(payload, bytes):
        kind = type(payload).__name__
        hint = "; text.encode() makes them of a text" if isinstance(payload, str) else ""
        raise TypeError(f"the payload is bytes, not {kind}{hint}")


def make_publish(
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool = False,
    *,
    version: int = MQTT_5,
    attributes: Mapping[str, Value] | None = None,
    content_type: str | None = None,
    expiry_s: int | None = None,
    trace: str | None = None,
) -> Publish:
    """The packet; ValueError for an invalid topic, attributes or terms, TypeError for wrong
    types."""
    check_topic(topic)
    check_payload(payload)
    check_qos(qos)
    attributes = _values(attributes or {})
    for name in attributes:
        if name.startswith(_RESERVED):
            raise ValueError(f"attribute {name!r}: names that begin with $ are the broker's own")
    if version == MQTT_3_1_1 and attributes:
        raise ValueError("MQTT 3.1.1 has no attributes; publish them as JSON, or use 5")
    if version == MQTT_3_1_1 and expiry_s is not None:
        raise ValueError("MQTT 3.1.1 has no expiry; use 5")
    if version == MQTT_3_1_1 and trace is not None:
        raise ValueError("MQTT 3.1.1 cannot flag a message to be traced; use 5")
    said = [(name, plain_text(value)) for name, value in attributes.items()]
    if trace is not None:
        said.append((TRACE, trace))
    properties = Properties(
        content_type=content_type,
        message_expiry_interval_s=expiry_s,
        user_properties=tuple(said),
    )
    return Publish(topic, payload, qos, retain, properties=properties)


def _values(given: Mapping[str, Value]) -> Attributes:
    """The attributes, with numpy's scalars converted, without those that are None."""
    found = {name: value for name, value in checked(given).items() if value is not None}
    check_attributes(found)
    return found
