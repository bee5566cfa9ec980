"""Parts of a broker's status: its MQTT side, and the version of shoal."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any

from shoal.mqtt.broker_clients import BrokerClients


@cache
def version() -> str:
    """Return the version of shoal."""
    return metadata.version("shoal")


def mqtt_status(clients: BrokerClients) -> dict[str, Any]:
    """Counts of the MQTT side: clients, their subscriptions and queues, publications, refusals."""
    statistics = clients.statistics
    return {
        "connected": statistics.connected,
        "sessions": len(clients.sessions),
        "subscriptions": clients.subscriptions.count,
        "retained": len(clients.retained),
        "publications": statistics.publications_received,
        "deliveries": statistics.deliveries,
        "dropped": clients.sessions.dropped,
        "refused": statistics.publications_refused,
        "unread_payloads": statistics.unread_payloads,
        "superseded": statistics.superseded,
        "suppressed": statistics.suppressed,
        "forgotten_keys": statistics.forgotten_keys,
        "slowed": statistics.slowed,
        "refusals": [
            {"what": what, "reason": reason, "count": count}
            for (what, reason), count in statistics.notices.refusals.items()
        ],
        "subscription_bytes": clients.subscriptions.bytes,
        "queued_bytes": clients.backlog.bytes,
        "queues_are_full": clients.backlog.is_full,
    }
