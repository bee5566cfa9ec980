"""The properties of MQTT 5 packets: one table of their names, types and packets.

>>> from shoal.mqtt.codec.fields import FieldReader
>>> sent = Properties(content_type="application/json", user_properties=(("carrier", "UA"),))
>>> data = write_properties(sent, PacketType.PUBLISH)
>>> read_properties(FieldReader(data, "PUBLISH"), PacketType.PUBLISH) == sent
True

Source: MQTT Version 5.0, section 2.2.2 and the section of each packet.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from shoal.mqtt.codec.errors import MqttError, malformed, protocol_error
from shoal.mqtt.codec.fields import (
    FieldReader,
    read_string,
    write_binary,
    write_string,
    write_variable,
)
from shoal.mqtt.codec.packet_types import WILL, PacketType
from shoal.mqtt.codec.reason_codes import ReasonCode

UserProperties = tuple[tuple[str, str], ...]


class Properties(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """The properties of one packet; None and () where absent. `TABLE` has the packets of each."""

    payload_format_indicator: int | None = None
    message_expiry_interval_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval_s: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_interval_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: UserProperties = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifier_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES = Properties()
# User properties of one packet; hundreds of thousands of them would block the broker.
MAX_USER_PROPERTIES = 10_000


class _Type(enum.Enum):
    """The encoding of a property's value."""

    BYTE = "byte"
    TWO_BYTES = "two bytes"
    FOUR_BYTES = "four bytes"
    VARIABLE = "variable byte integer"
    STRING = "string"
    BINARY = "binary data"
    PAIR = "string pair"


def _reads(
    method: Callable[[FieldReader, str], Any],
) -> Callable[[bytes, int, int, str], tuple[Any, int]]:
    def read(data: bytes, position: int, end: int, what: str) -> tuple[Any, int]:
        reader = FieldReader(data, "the packet", position, end)
        return method(reader, what), reader.position

    return read


def _read_byte(data: bytes, position: int, end: int, what: str) -> tuple[int, int]:
    if position >= end:
        raise malformed(f"the packet ends before its {what}")
    return data[position], position + 1


def _read_four_bytes(data: bytes, position: int, end: int, what: str) -> tuple[int, int]:
    stop = position + 4
    if stop > end:
        raise malformed(f"the packet ends within its {what}")
    return int.from_bytes(data[position:stop], "big"), stop


_READERS: dict[_Type, Callable[[bytes, int, int, str], tuple[Any, int]]] = {
    _Type.BYTE: _read_byte,
    _Type.TWO_BYTES: _reads(FieldReader.two_bytes),
    _Type.FOUR_BYTES: _read_four_bytes,
    _Type.VARIABLE: _reads(FieldReader.variable),
    _Type.STRING: read_string,
    _Type.BINARY: _reads(FieldReader.binary),
    _Type.PAIR: read_string,
}
_WRITERS: dict[_Type, Callable[[Any], bytes]] = {
    _Type.BYTE: lambda value: value.to_bytes(1, "big"),
    _Type.TWO_BYTES: lambda value: value.to_bytes(2, "big"),
    _Type.FOUR_BYTES: lambda value: value.to_bytes(4, "big"),
    _Type.VARIABLE: write_variable,
    _Type.STRING: write_string,
    _Type.BINARY: write_binary,
    _Type.PAIR: lambda pair: write_string(pair[0]) + write_string(pair[1]),
}


def _truth(value: int) -> bool:
    return value <= 1


def _positive(value: int) -> bool:
    return value > 0


def _topic(value: str) -> bool:
    return bool(value) and "+" not in value and "#" not in value


class Property(NamedTuple):
    """One row of the table. `repeats`: a packet may have the property more than once."""

    identifier: int
    field: str
    type: _Type
    places: frozenset[int]
    allows: Callable[[Any], bool] | None = None
    repeats: bool = False
    error: ReasonCode = ReasonCode.PROTOCOL_ERROR


def _in(*places: int) -> frozenset[int]:
    return frozenset(places)


_MESSAGE = _in(PacketType.PUBLISH, WILL)
_CONNECT = _in(PacketType.CONNECT)
_CONNACK = _in(PacketType.CONNACK)
_OPENING = _CONNECT | _CONNACK
_AUTHENTICATION = _OPENING | {PacketType.AUTH}
_ACKNOWLEDGEMENTS = _in(
    PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP,
    PacketType.SUBACK, PacketType.UNSUBACK,
)  # fmt: skip
_ANSWERS = _ACKNOWLEDGEMENTS | _CONNACK | {PacketType.DISCONNECT, PacketType.AUTH}
_WITH_USER_PROPERTIES = (
    _ANSWERS | _MESSAGE | _CONNECT | {PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE}
)

TABLE: tuple[Property, ...] = (
    Property(0x01, "payload_format_indicator", _Type.BYTE, _MESSAGE, _truth),
    Property(0x02, "message_expiry_interval_s", _Type.FOUR_BYTES, _MESSAGE),
    Property(0x03, "content_type", _Type.STRING, _MESSAGE),
    Property(0x08, "response_topic", _Type.STRING, _MESSAGE, _topic),
    Property(0x09, "correlation_data", _Type.BINARY, _MESSAGE),
    Property(
        0x0B, "subscription_identifiers", _Type.VARIABLE,
        _in(PacketType.PUBLISH, PacketType.SUBSCRIBE), _positive, repeats=True,
    ),
    Property(
        0x11, "session_expiry_interval_s", _Type.FOUR_BYTES, _OPENING | {PacketType.DISCONNECT}
    ),
    Property(0x12, "assigned_client_identifier", _Type.STRING, _CONNACK),
    Property(0x13, "server_keep_alive_s", _Type.TWO_BYTES, _CONNACK),
    Property(0x15, "authentication_method", _Type.STRING, _AUTHENTICATION),
    Property(0x16, "authentication_data", _Type.BINARY, _AUTHENTICATION),
    Property(0x17, "request_problem_information", _Type.BYTE, _CONNECT, _truth),
    Property(0x18, "will_delay_interval_s", _Type.FOUR_BYTES, _in(WILL)),
    Property(0x19, "request_response_information", _Type.BYTE, _CONNECT, _truth),
    Property(0x1A, "response_information", _Type.STRING, _CONNACK),
    Property(0x1C, "server_reference", _Type.STRING, _CONNACK | {PacketType.DISCONNECT}),
    Property(0x1F, "reason_string", _Type.STRING, _ANSWERS),
    Property(0x21, "receive_maximum", _Type.TWO_BYTES, _OPENING, _positive),
    Property(0x22, "topic_alias_maximum", _Type.TWO_BYTES, _OPENING),
    Property(
        0x23, "topic_alias", _Type.TWO_BYTES, _in(PacketType.PUBLISH), _positive,
        error=ReasonCode.TOPIC_ALIAS_INVALID,
    ),
    Property(0x24, "maximum_qos", _Type.BYTE, _CONNACK, _truth),
    Property(0x25, "retain_available", _Type.BYTE, _CONNACK, _truth),
    Property(
        0x26, "user_properties", _Type.PAIR, _WITH_USER_PROPERTIES, repeats=True
    ),
    Property(0x27, "maximum_packet_size", _Type.FOUR_BYTES, _OPENING, _positive),
    Property(0x28, "wildcard_subscription_available", _Type.BYTE, _CONNACK, _truth),
    Property(0x29, "subscription_identifier_available", _Type.BYTE, _CONNACK, _truth),
    Property(0x2A, "shared_subscription_available", _Type.BYTE, _CONNACK, _truth),
)  # fmt: skip

_BY_PLACE: dict[int, tuple[Property, ...]] = {
    place: tuple(row for row in TABLE if place in row.places) for place in (WILL, *PacketType)
}

# The columns that reading needs, by identifier.
_READABLE = {
    place: {row.identifier: (row.field, _READERS[row.type], row.allows, row.error) for row in rows}
    for place, rows in _BY_PLACE.items()
}
_USER_PROPERTY = next(row.identifier for row in TABLE if row.field == "user_properties")
_UNKNOWN = ("", read_string, None, ReasonCode.MALFORMED_PACKET)


def place_name(place: int) -> str:
    """The name of a packet's type in errors."""
    return "will" if place == WILL else PacketType(place).name


def read_properties(reader: FieldReader, place: int) -> Properties:
    """Read the properties of a packet of this type, or of its will."""
    data, position, end = reader.part("properties")
    return _read(data, position, end, place)


def read_publish_properties(data: bytes, position: int, stop: int) -> tuple[Properties, int]:
    """The properties of a PUBLISH that ends at `stop`, and the start of its payload."""
    end = position + 1 + data[position] if position < stop else stop
    if end < stop and data[position] < 128:
        return _read(data, position + 1, end, PacketType.PUBLISH), end
    reader = FieldReader(data, "PUBLISH", position, stop)
    return read_properties(reader, PacketType.PUBLISH), reader.position


def _read(data: bytes, position: int, end: int, place: int) -> Properties:
    if position == end:
        return NO_PROPERTIES
    allowed = _READABLE[place]
    values: dict[str, Any] = {}
    user_properties: list[tuple[str, str]] = []
    identifiers: list[int] = []
    while position < end:
        # All identifiers are below 128: one byte each.
        if data[position] == _USER_PROPERTY:
            pair, position = _read_pair(data, position + 1, end)
            user_properties.append(pair)
            if len(user_properties) > MAX_USER_PROPERTIES:
                problem = f"{place_name(place)} has more than {MAX_USER_PROPERTIES} user properties"
                raise MqttError(ReasonCode.QUOTA_EXCEEDED, problem)
            continue
        field, read, allows, code = allowed.get(data[position], _UNKNOWN)
        if not field:
            raise malformed(f"{place_name(place)} cannot have property 0x{data[position]:02X}")
        value, position = read(data, position + 1, end, field)
        if allows is not None and not allows(value):
            raise MqttError(code, f"{place_name(place)}: {field} cannot be {value!r}")
        if field == "subscription_identifiers":
            identifiers.append(value)
        elif field in values:
            raise protocol_error(f"{place_name(place)} has {field} twice")
        else:
            values[field] = value
    if identifiers:
        values["subscription_identifiers"] = tuple(identifiers)
    if not values:
        return Properties(user_properties=tuple(user_properties))
    return Properties(user_properties=tuple(user_properties), **values)


def _read_pair(data: bytes, position: int, end: int) -> tuple[tuple[str, str], int]:
    """Read a user property; most packets with properties have several of them."""
    try:
        start = position + 2
        stop = start + (data[position] << 8 | data[position + 1])
        text_start = stop + 2
        text_stop = text_start + (data[stop] << 8 | data[stop + 1])
        if text_stop <= end:
            name, text = data[start:stop].decode(), data[text_start:text_stop].decode()
            if "\0" not in name and "\0" not in text:
                return (name, text), text_stop
    except (IndexError, UnicodeDecodeError):
        pass
    # The fast path failed: these readers raise the error.
    name, position = read_string(data, position, end, "user_properties")
    text, position = read_string(data, position, end, "user_properties")
    return (name, text), position


def write_properties(properties: Properties, place: int) -> bytes:
    """The properties with their length, as a packet of this type has them."""
    if properties is NO_PROPERTIES:
        return b"\x00"
    body = property_bytes(properties, place)
    return write_variable(len(body)) + body


def property_bytes(properties: Properties, place: int) -> bytes:
    """The properties without their length; those that the packet cannot have are left out."""
    written: list[bytes] = []
    for row in _BY_PLACE[place]:
        value = getattr(properties, row.field)
        if value is None or value == ():
            continue
        sign = bytes((row.identifier,))
        write = _WRITERS[row.type]
        for each in value if row.repeats else (value,):
            written += (sign, write(each))
    return b"".join(written)
