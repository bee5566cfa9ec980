"""What an operator asks about the clients of a live broker, answered a page at a time.

No page holds the broker up, however many clients there are and however much they ask for.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from shoal.language import format_filter
from shoal.model import FilterError
from shoal.mqtt.door.network import network_filter
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.runtime.doors.mqtt_door import MqttDoor

# After so long a page ends; and clients that are looked at for one.
TURN_S = 0.005
CLIENTS = 200


class Questions:
    """One broker's."""

    def __init__(self, door: MqttDoor) -> None:
        self._door = door

    @property
    def by_name(self) -> dict[str, Callable[[Mapping[str, str]], dict[str, Any]]]:
        """By the names that the admin port has for them; each takes the query."""
        return {"subscriptions": self._subscriptions}

    def _subscriptions(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What clients ask for: by `from` on, of which `skip` were named already."""
        first, skip = query.get("from", ""), int(query.get("skip", "0"))
        end_s = time.monotonic() + TURN_S
        rows: list[dict[str, Any]] = []
        clients = heapq.nsmallest(
            CLIENTS + 1, (each.client_id for each in self._sessions() if each.client_id >= first)
        )
        for client in clients[:CLIENTS]:
            skipped = skip if client == first else 0
            session = self._door.clients.sessions[client]
            for number, each in enumerate(islice(session.subscriptions.values(), skipped, None)):
                if rows and time.monotonic() > end_s:
                    return {"subscriptions": rows, "next": _query(client, skipped + number)}
                rows += _row(session, each)
        more = clients[CLIENTS:]
        return {"subscriptions": rows, "next": _query(more[0], 0) if more else None}

    def _sessions(self) -> Iterator[Session]:
        return iter(self._door.clients.sessions)


def _query(client: str, skip: int) -> str:
    return urlencode({"from": client, "skip": skip})


def _row(session: Session, subscription: ClientSubscription) -> Iterator[dict[str, Any]]:
    """What a subscription asks for, also as a filter about topics and content; if it has words."""
    wanted = network_filter(subscription.wanted_topics, subscription.content)
    try:
        filter, content = format_filter(wanted), format_filter(subscription.content)
    except FilterError:
        return
    yield {
        "client": session.client_id,
        "topic_filter": subscription.topic_filter,
        "where": content,
        "filter": filter,
        "qos": subscription.qos,
        "connected": session.outlet is not None,
    }
