"""Reads the body of each kind of packet except PUBLISH, strictly, for both versions.

Every function takes a `FieldReader` that holds exactly the body, and the version; a violation of
the standard raises MqttError with the reason code that the standard demands.

Source: MQTT Version 5.0 and 3.1.1, section 3; the identifiers of broken rules are those of 5.0.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.mqtt.codec.errors import MqttError, malformed, protocol_error
from shoal.mqtt.codec.fields import FieldReader
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5, WILL, PacketType
from shoal.mqtt.codec.packets import (
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    WillFields,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties, read_properties
from shoal.mqtt.codec.reason_codes import (
    ALLOWED_REASON_CODES,
    REASON_CODES_BY_RETURN_CODE,
    ReasonCode,
)
from shoal.mqtt.codec.requests import read_requests, read_topic_filters

_RESERVED, _CLEAN, _WILL, _WILL_QOS, _WILL_RETAIN, _PASSWORD, _USERNAME = (
    0x01, 0x02, 0x04, 0x18, 0x20, 0x40, 0x80,
)  # fmt: skip
# 3.1 is served as 3.1.1: only the protocol name and rules that 3.1 leaves open differ.
_MQTT_3_1 = ("MQIsdp", 3)
_MQTT_3_1_1 = ("MQTT", MQTT_3_1_1)
# The bit of the protocol level that mosquitto's bridges set.
_BRIDGE = 0x80
_MQTT_3_1_NAME = b"\0\6MQIsdp"


class UnsupportedVersionError(MqttError):
    """A CONNECT of another protocol version; `version` is one in which an answer can be written."""

    def __init__(self, version: int, message: str) -> None:
        super().__init__(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, message)
        self.version = version


def is_3_1(data: bytes, body: int) -> bool:
    """Whether the CONNECT with its body at this position is of MQTT 3.1, by its protocol name."""
    return data.startswith(_MQTT_3_1_NAME, body)


def read_connect_version(reader: FieldReader) -> tuple[int, bool]:
    """The version at the start of a CONNECT, and whether its client is a bridge.

    Protocol name and level [MQTT-3.1.2-1, MQTT-3.1.2-2]; bridges of 3.1 and 3.1.1 set the level's
    highest bit, and read a 3.1.1 answer without that bit as a refusal of bridge mode.
    """
    name = reader.string("protocol name")
    level = reader.byte("protocol version")
    if name == "MQTT" and level in (MQTT_3_1_1, MQTT_5):
        return level, False
    if (name, level & ~_BRIDGE) in (_MQTT_3_1, _MQTT_3_1_1):
        return MQTT_3_1_1, level >= _BRIDGE
    if name not in ("MQTT", "MQIsdp"):
        raise malformed(f"CONNECT: protocol name {name[:20]!r} is not 'MQTT'")
    answer = MQTT_5 if MQTT_5 < level < _BRIDGE else MQTT_3_1_1
    raise UnsupportedVersionError(answer, f"protocol version {level} is not supported; use 5 or 4")


def read_connect(
    reader: FieldReader, version: int, *, is_lenient: bool = False, is_bridge: bool = False
) -> Connect:
    """Read a CONNECT behind its protocol version; `is_lenient` ignores flags without a meaning."""
    flags = reader.byte("connect flags")
    if is_lenient:
        flags = _meaningful(flags)
    _check_connect_flags(flags, version)
    keep_alive_s = reader.two_bytes("keep alive")
    properties = _properties(reader, version, PacketType.CONNECT)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise protocol_error("CONNECT has authentication data without a method")
    client_id = reader.string("client identifier")
    will = _read_will(reader, version, flags) if flags & _WILL else None
    username = reader.name("user name") if flags & _USERNAME else None
    password = reader.binary("password") if flags & _PASSWORD else None
    reader.expect_end()
    return Connect(
        client_id=client_id,
        clean_start=bool(flags & _CLEAN),
        keep_alive_s=keep_alive_s,
        version=version,
        username=username,
        password=password,
        will=will,
        properties=properties,
        is_bridge=is_bridge,
    )


def _meaningful(flags: int) -> int:
    """Clear the flags that 3.1 does not forbid, as other brokers do."""
    flags &= ~_RESERVED
    if not flags & _WILL:
        flags &= ~(_WILL_QOS | _WILL_RETAIN)
    return flags


def _check_connect_flags(flags: int, version: int) -> None:
    if flags & _RESERVED:
        raise malformed("CONNECT: the reserved flag is set [MQTT-3.1.2-3]")
    if flags & _WILL_QOS == _WILL_QOS:
        raise malformed("CONNECT: the will's QoS is 3 [MQTT-3.1.2-12]")
    if not flags & _WILL and flags & (_WILL_QOS | _WILL_RETAIN):
        raise malformed("CONNECT: QoS or retain of a will that is not there [MQTT-3.1.2-11]")
    if version == MQTT_3_1_1 and flags & _PASSWORD and not flags & _USERNAME:
        raise malformed("CONNECT: a password without a user name")


def _read_will(reader: FieldReader, version: int, flags: int) -> WillFields:
    properties = read_properties(reader, WILL) if version == MQTT_5 else NO_PROPERTIES
    topic = reader.name("will topic")
    payload = reader.binary("will payload")
    return WillFields(
        topic, payload, (flags & _WILL_QOS) >> 3, bool(flags & _WILL_RETAIN), properties
    )


def _read_connack(reader: FieldReader, version: int) -> Connack:
    flags = reader.byte("flags")
    if flags > 1:
        raise malformed("CONNACK: a reserved flag is set [MQTT-3.2.2-1]")
    number = reader.byte("reason code")
    if version == MQTT_3_1_1:
        code = REASON_CODES_BY_RETURN_CODE.get(number)
        if code is None:
            raise protocol_error(f"CONNACK cannot have return code {number}")
    else:
        code = _code(number, PacketType.CONNACK)
    properties = _properties(reader, version, PacketType.CONNACK)
    reader.expect_end()
    return Connack(code, bool(flags), properties)


def _reads_acknowledgement(
    kind: type[Acknowledgement], packet_type: PacketType
) -> Callable[[FieldReader, int], Packet]:
    def read(reader: FieldReader, version: int) -> Acknowledgement:
        packet_id = _packet_id(reader)
        if version == MQTT_3_1_1:
            reader.expect_end()
        if reader.at_end:
            return kind(packet_id)
        code = _code(reader.byte("reason code"), packet_type)
        if reader.at_end:
            return kind(packet_id, code)
        properties = read_properties(reader, packet_type)
        reader.expect_end()
        return kind(packet_id, code, properties)

    return read


def _read_subscribe(reader: FieldReader, version: int) -> Subscribe:
    packet_id = _request_id(reader)
    properties = _properties(reader, version, PacketType.SUBSCRIBE)
    if len(properties.subscription_identifiers) > 1:
        raise protocol_error("SUBSCRIBE has its subscription identifier twice")
    if reader.at_end:
        raise protocol_error("SUBSCRIBE without a topic filter [MQTT-3.8.3-2]")
    requests = read_requests(reader, version)
    return Subscribe(packet_id, tuple(requests), properties, reader.rest())


def _read_suback(reader: FieldReader, version: int) -> Suback:
    packet_id = _packet_id(reader)
    properties = _properties(reader, version, PacketType.SUBACK)
    codes = tuple(_code(number, PacketType.SUBACK) for number in reader.rest())
    return Suback(packet_id, codes, properties)


def _read_unsubscribe(reader: FieldReader, version: int) -> Unsubscribe:
    packet_id = _request_id(reader)
    properties = _properties(reader, version, PacketType.UNSUBSCRIBE)
    if reader.at_end:
        raise protocol_error("UNSUBSCRIBE without a topic filter [MQTT-3.10.3-2]")
    topic_filters = read_topic_filters(reader)
    return Unsubscribe(packet_id, tuple(topic_filters), properties, reader.rest())


def _read_unsuback(reader: FieldReader, version: int) -> Unsuback:
    packet_id = _packet_id(reader)
    properties = _properties(reader, version, PacketType.UNSUBACK)
    if version == MQTT_3_1_1:
        reader.expect_end()
    codes = tuple(_code(number, PacketType.UNSUBACK) for number in reader.rest())
    return Unsuback(packet_id, codes, properties)


def _read_pingreq(reader: FieldReader, version: int) -> Pingreq:
    reader.expect_end()
    return Pingreq()


def _read_pingresp(reader: FieldReader, version: int) -> Pingresp:
    reader.expect_end()
    return Pingresp()


def _read_disconnect(reader: FieldReader, version: int) -> Disconnect:
    if version == MQTT_3_1_1:
        reader.expect_end()
    code, properties = _code_and_properties(reader, PacketType.DISCONNECT)
    return Disconnect(code, properties)


def _read_auth(reader: FieldReader, version: int) -> Auth:
    if version == MQTT_3_1_1:
        raise malformed("packet type 15 is reserved in MQTT 3.1.1")
    code, properties = _code_and_properties(reader, PacketType.AUTH)
    return Auth(code, properties)


def _code_and_properties(
    reader: FieldReader, packet_type: PacketType
) -> tuple[ReasonCode, Properties]:
    """A reason code and properties; both may be left out."""
    if reader.at_end:
        return ReasonCode.SUCCESS, NO_PROPERTIES
    code = _code(reader.byte("reason code"), packet_type)
    if reader.at_end:
        return code, NO_PROPERTIES
    properties = read_properties(reader, packet_type)
    reader.expect_end()
    return code, properties


def _properties(reader: FieldReader, version: int, packet_type: PacketType) -> Properties:
    return read_properties(reader, packet_type) if version == MQTT_5 else NO_PROPERTIES


def _packet_id(reader: FieldReader) -> int:
    packet_id = reader.two_bytes("packet identifier")
    if not packet_id:
        raise protocol_error("the packet identifier is 0 [MQTT-2.2.1-3]")
    return packet_id


def _request_id(reader: FieldReader) -> int:
    packet_id = reader.two_bytes("packet identifier")
    if not packet_id:
        raise malformed("the packet identifier is 0 [MQTT-2.2.1-3]")
    return packet_id


def _code(number: int, packet_type: PacketType) -> ReasonCode:
    code = ALLOWED_REASON_CODES[packet_type].get(number)
    if code is None:
        raise protocol_error(f"{packet_type.name} cannot have reason code 0x{number:02X}")
    return code


READERS: dict[int, Callable[[FieldReader, int], Packet]] = {
    PacketType.CONNACK: _read_connack,
    PacketType.PUBACK: _reads_acknowledgement(Puback, PacketType.PUBACK),
    PacketType.PUBREC: _reads_acknowledgement(Pubrec, PacketType.PUBREC),
    PacketType.PUBREL: _reads_acknowledgement(Pubrel, PacketType.PUBREL),
    PacketType.PUBCOMP: _reads_acknowledgement(Pubcomp, PacketType.PUBCOMP),
    PacketType.SUBSCRIBE: _read_subscribe,
    PacketType.SUBACK: _read_suback,
    PacketType.UNSUBSCRIBE: _read_unsubscribe,
    PacketType.UNSUBACK: _read_unsuback,
    PacketType.PINGREQ: _read_pingreq,
    PacketType.PINGRESP: _read_pingresp,
    PacketType.DISCONNECT: _read_disconnect,
    PacketType.AUTH: _read_auth,
}
