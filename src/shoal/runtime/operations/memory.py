"""Memory of a broker's caches and tables, for people and metrics."""

from __future__ import annotations

from typing import Any

from shoal.ledger import Ledger
from shoal.mqtt.broker_clients import BrokerClients

# Users and publishers that are named, those that take the most first.
MOST_USERS = 10


def memory_of(ledger: Ledger, clients: BrokerClients) -> dict[str, Any]:
    """Rows of the ledger, the largest first, and the users and publishers that take the most.

    Of a retained message every broker knows the client that published it, and no user: with the
    client's session here, its user is named.
    """
    sessions = clients.sessions
    return {
        "tables": [row._asdict() for row in ledger.rows()],
        "users": [
            {
                "user": user,
                "queued_bytes": share.bytes,
                "subscription_bytes": share.subscription_bytes,
                "will_bytes": share.will_bytes,
                "sessions": share.sessions,
            }
            for user, share in clients.backlog.heaviest(MOST_USERS)
        ],
        "publishers": [
            {
                "client": client,
                "user": session.user if (session := sessions.get(client)) is not None else "",
                "retained_bytes": size,
            }
            for client, size in clients.retained.heaviest(MOST_USERS)
        ],
    }
