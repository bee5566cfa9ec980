"""The fifteen kinds of MQTT packet, and the bits that the first byte of each must have.

>>> PacketType.SUBSCRIBE, RESERVED_FLAGS[PacketType.SUBSCRIBE]
(<PacketType.SUBSCRIBE: 8>, 2)

Source: MQTT Version 5.0, sections 2.1.2 and 2.1.3.
"""

from __future__ import annotations

import enum

MQTT_3_1_1 = 4
MQTT_5 = 5


class PacketType(enum.IntEnum):
    """The packet type, in the upper half of a packet's first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


# The will within CONNECT has properties of its own; 0 is no packet's type.
WILL = 0

# The lower half of the first byte, for every packet but PUBLISH [MQTT-2.1.3-1].
RESERVED_FLAGS: dict[PacketType, int] = {
    kind: 2 if kind in (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE) else 0
    for kind in PacketType
    if kind is not PacketType.PUBLISH
}
