"""What a peer did wrong, as a reason code and in words."""

from __future__ import annotations

from shoal.mqtt.codec.reason_codes import ReasonCode


class MqttError(ValueError):
    """A peer broke a rule of the standard; the connection ends with this reason code."""

    def __init__(self, reason_code: ReasonCode, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code


def malformed(message: str) -> MqttError:
    """Bytes that cannot be read as the standard says."""
    return MqttError(ReasonCode.MALFORMED_PACKET, message)


def protocol_error(message: str) -> MqttError:
    """Readable, but not allowed, or not allowed now."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, message)
