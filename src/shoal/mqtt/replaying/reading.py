"""Effect: read a part of this broker's log."""

from __future__ import annotations

import msgspec

from shoal.mqtt.federation.controls import LogAsked


class ReadLog(msgspec.Struct, frozen=True):
    """Read what is asked for, in slices, and pass the answer to `LogReplays.told`."""

    asked: LogAsked
