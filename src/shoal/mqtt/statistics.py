"""Counters of a broker's MQTT side, and the $SYS topics that publish them.

>>> Statistics(started_us=0).texts(now_us=61_000_000)["$SYS/broker/uptime"]
'61 seconds'
"""

from __future__ import annotations

from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.notices import Notices, Party

PREFIX = "$SYS/broker/"


class Statistics:
    """Counters since the start."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "connected",
        "connected_maximum",
        "deliveries",
        "forgotten_keys",
        "notices",
        "packets_received",
        "packets_sent",
        "protocol_errors",
        "publications_dropped",
        "publications_received",
        "publications_refused",
        "published",
        "retained",
        "routed",
        "sessions",
        "slowed",
        "started_us",
        "subscriptions",
        "superseded",
        "suppressed",
        "unread_payloads",
    )

    def __init__(self, started_us: int) -> None:
        self.started_us = started_us
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.packets_sent = 0
        self.publications_received = 0
        self.publications_refused = 0
        self.publications_dropped = 0
        # How often a client above its rate was suspended.
        self.slowed = 0
        self.deliveries = 0
        self.protocol_errors = 0
        # Publications with a payload that should be JSON and is not.
        self.unread_payloads = 0
        # Conflation: messages that a newer one replaced, those that had not changed, and keys that
        # were forgotten for others.
        self.superseded = 0
        self.suppressed = 0
        self.forgotten_keys = 0
        # One of the messages published last by clients of this broker, and one of those routed to
        # its
        # clients last; the driver samples them and resets them to None.
        self.published: object = None
        self.routed: object = None
        # Refusals by reason, and notices for an operator.
        self.notices = Notices()
        # Current numbers.
        self.connected = 0
        self.connected_maximum = 0
        self.sessions = 0
        self.subscriptions = 0
        self.retained = 0

    def entered(self) -> None:
        """One more client is connected."""
        self.connected += 1
        self.connected_maximum = max(self.connected, self.connected_maximum)

    def count_unread(self, client_id: str, topic: str, why: str) -> None:
        """Count a payload that looks like JSON, or is declared as JSON, and could not be read."""
        self.unread_payloads += 1
        self.notices.note("payload not read", Party(client_id, None, None), topic, why)

    def texts(self, now_us: int) -> dict[str, str]:
        """The payload of each $SYS topic."""
        uptime_s = (now_us - self.started_us) // MICROSECONDS
        numbers = {
            "clients/connected": self.connected,
            "clients/disconnected": self.sessions - self.connected,
            "clients/total": self.sessions,
            "clients/maximum": self.connected_maximum,
            "messages/received": self.packets_received,
            "messages/sent": self.packets_sent,
            "bytes/received": self.bytes_received,
            "bytes/sent": self.bytes_sent,
            "publish/messages/received": self.publications_received,
            "publish/messages/sent": self.deliveries,
            "publish/messages/dropped": self.publications_dropped,
            "publish/messages/refused": self.publications_refused,
            "publish/messages/superseded": self.superseded,
            "publish/messages/suppressed": self.suppressed,
            "publish/payloads/unread": self.unread_payloads,
            "protocol errors": self.protocol_errors,
            "retained messages/count": self.retained,
            "subscriptions/count": self.subscriptions,
        }
        texts = {PREFIX + name: str(number) for name, number in numbers.items()}
        return {PREFIX + "uptime": f"{uptime_s} seconds", **texts}
