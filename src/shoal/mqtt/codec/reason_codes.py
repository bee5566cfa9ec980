"""Reason codes of MQTT 5, the packets that may carry each, and the return codes of 3.1.1.

>>> ReasonCode.TOPIC_FILTER_INVALID, CONNECT_RETURN_CODES[ReasonCode.NOT_AUTHORIZED]
(<ReasonCode.TOPIC_FILTER_INVALID: 143>, 5)

Source: MQTT Version 5.0, section 2.4 and the section of each packet; MQTT Version 3.1.1, 3.2.2.3.
"""

from __future__ import annotations

import enum

from shoal.mqtt.codec.packet_types import PacketType

# The first reason code of failures.
FIRST_ERROR = 0x80


class ReasonCode(enum.IntEnum):
    """The result of a request, or the reason for the end of a connection."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def _codes(*values: int) -> dict[int, ReasonCode]:
    return {value: ReasonCode(value) for value in values}


_RECEIVED = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
_RELEASED = _codes(0x00, 0x92)

# The reason codes of each packet that has them, by number.
ALLOWED_REASON_CODES: dict[int, dict[int, ReasonCode]] = {
    PacketType.CONNACK: _codes(
        0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F
    ),
    PacketType.PUBACK: _RECEIVED,
    PacketType.PUBREC: _RECEIVED,
    PacketType.PUBREL: _RELEASED,
    PacketType.PUBCOMP: _RELEASED,
    PacketType.SUBACK: _codes(
        0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2
    ),
    PacketType.UNSUBACK: _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),
    PacketType.DISCONNECT: _codes(
        0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90,
        *range(0x93, 0xA3),
    ),
    PacketType.AUTH: _codes(0x00, 0x18, 0x19),
}  # fmt: skip

# The reason codes that redirect a client to another server.
ELSEWHERE = frozenset((ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_MOVED))

# Return codes of CONNACK in 3.1.1. Other reason codes end the connection without an answer.
CONNECT_RETURN_CODES: dict[ReasonCode, int] = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.CONNECTION_RATE_EXCEEDED: 3,
    ReasonCode.USE_ANOTHER_SERVER: 3,
    ReasonCode.SERVER_MOVED: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
    ReasonCode.BANNED: 5,
}
# The first reason code for each 3.1.1 return code.
REASON_CODES_BY_RETURN_CODE: dict[int, ReasonCode] = {
    number: code for code, number in reversed(CONNECT_RETURN_CODES.items())
}
