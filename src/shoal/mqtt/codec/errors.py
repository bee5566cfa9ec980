"""Protocol errors of a peer: a reason code and a text."""

from __future__ import annotations

from shoal.mqtt.codec.reason_codes import ReasonCode


class MqttError(ValueError):
    """A peer violated the standard; the connection ends with this reason code."""

    def __init__(self, reason_code: ReasonCode, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code


def malformed(message: str) -> MqttError:
    """Bytes that are not an MQTT packet."""
    return MqttError(ReasonCode.MALFORMED_PACKET, message)


def protocol_error(message: str) -> MqttError:
    """A packet that is readable, but not allowed, or not in this state."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, message)
