"""What a broker's caches and tables take in memory, for people and metrics."""

from __future__ import annotations

from typing import Any

from shoal.ledger import Ledger
from shoal.mqtt.sessions.delivering.backlog import Backlog

# Users who are named, those that take the most first.
MOST_USERS = 10


def memory_of(ledger: Ledger, backlog: Backlog) -> dict[str, Any]:
    """Rows of the ledger, the largest first, and the users who take the most."""
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
            for user, share in backlog.heaviest(MOST_USERS)
        ],
    }
