"""An operator's queries about the clients of a live broker, answered a page at a time.

No page holds the broker up, for any number of clients and subscriptions.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import msgspec

from shoal.attributes import TOPIC_ATTRIBUTE, Json
from shoal.broker.routing_decision import RoutingQuery
from shoal.conflation import key_name
from shoal.language import format_filter
from shoal.matching import FilterVerdict, explain, matches
from shoal.matching.topics.filters import check_topic, topic_matches
from shoal.model import Attributes, FilterError
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import attributes_of
from shoal.mqtt.front_end.network import network_filter
from shoal.mqtt.limits import NEVER_S
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription, Session, SubscriptionConflator
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.listing import StatusListing

# After so long a page ends; and clients that are looked at for one.
TURN_S = 0.005
CLIENTS = 200


class AdminQuestions:
    """One broker's."""

    def __init__(self, front_end: MqttFrontEnd, json: Json) -> None:
        self._front_end = front_end
        self._json = json
        self._listing = StatusListing(self._client_ids, self._is_here)

    @property
    def by_name(self) -> dict[str, Callable[[Mapping[str, str]], Awaitable[dict[str, Any]]]]:
        """By the names that the admin port has for them; each takes the query."""
        return {
            "clients": self._clients,
            "subscriptions": self._subscriptions,
            "why": self._why,
            "routing_decision": self._routing_decision,
            "survey": self._survey,
        }

    async def _clients(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return sessions, from `from` on; or only `client`."""
        if "client" in query:
            client = query["client"]
            names, more = [client] if self._is_here(client) else [], None
        else:
            names, more = await self._listing.page(query.get("from", ""), CLIENTS)
        rows = [self._client(self._front_end.clients.sessions[name]) for name in names]
        return {"clients": rows, "next": None if more is None else urlencode({"from": more})}

    def _client_ids(self) -> list[str]:
        return self._front_end.clients.sessions.client_ids()

    def _is_here(self, client: str) -> bool:
        """Return whether a client has a session here, and not only until it is elsewhere."""
        session = self._front_end.clients.sessions.get(client)
        return session is not None and not session.is_departed

    def _client(self, session: Session) -> dict[str, Any]:
        """Return a client's address and queue."""
        row: dict[str, Any] = {
            "client": session.client_id,
            "user": session.user,
            "address": None,
            "listener": None,
            "away_s": None,
            "going": session.going[0] if session.going is not None else None,
            # its expiry while the client is disconnected; None: it never expires
            "expiry_s": None if (kept := session.expiry_interval_s) == NEVER_S else kept,
            "subscriptions": len(session.subscriptions),
            "published": session.published,
            **_queue(session),
        }
        if session.session_writer is not None:
            connection = session.session_writer.connection
            said = connection.credentials
            row |= {"address": connection.party.address, "listener": said.listener}
        elif session.left_us is not None:
            row["away_s"] = round((self._front_end.node.clock.now_us() - session.left_us) / 1e6)
        return row

    async def _subscriptions(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return clients' subscriptions: from `from` on, after the first `skip`."""
        first, skip = query.get("from", ""), int(query.get("skip", "0"))
        clients, more = await self._listing.page(first, CLIENTS)
        end_s = time.monotonic() + TURN_S
        rows: list[dict[str, Any]] = []
        for client in clients:
            skipped = skip if client == first else 0
            session = self._front_end.clients.sessions[client]
            for number, each in enumerate(islice(session.subscriptions.values(), skipped, None)):
                if rows and time.monotonic() > end_s:
                    return {"subscriptions": rows, "next": _query(client, skipped + number)}
                rows += _row(session, each)
        return {"subscriptions": rows, "next": None if more is None else _query(more, 0)}

    async def _why(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Explain the delivery of a publication to a client, as far as this broker knows.

        The query has `client`, attributes as `_attributes` takes them, and, if it is known, the
        `publisher`; `skip` so many of the client's subscriptions.
        """
        publisher, attributes = query.get("publisher", ""), self._attributes(query)
        skip = int(query.get("skip", "0"))
        session = self._front_end.clients.sessions.get(query.get("client", ""))
        return {
            "session": None if session is None else self._explained(session, attributes, skip),
            "publisher": self._published_by(publisher, query["topic"], attributes),
        }

    async def _routing_decision(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a publication's next hops from here, whether clients here get it, and obstacles.

        The query has attributes as `_attributes` takes them, the `publisher`, and, for publications
        of a neighbour, its name as `source` and its routing data as `told`; `hops` is None if the
        system does not tell.
        """
        publisher, front_end = query.get("publisher", ""), self._front_end.clients.front_end
        if front_end is not None and not front_end.promising.advertised_by(publisher):
            publisher = front_end.client
        asked = RoutingQuery(
            attributes=self._attributes(query),
            publisher=publisher,
            source=query.get("source") or None,
            told=query.get("told", ""),
        )
        found = self._front_end.node.machine.routing_decision(asked)
        return {"hops": None} if found is None else msgspec.to_builtins(found)

    async def _survey(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """Return the system's data for a planner; None: it has none."""
        return {"survey": self._front_end.node.machine.survey}

    def _attributes(self, query: Mapping[str, str]) -> Attributes:
        """A publication's: `topic`, `payload` and `attributes` (user properties, a JSON object)."""
        topic, payload = query.get("topic", ""), query.get("payload", "").encode()
        check_topic(topic)
        try:
            given = msgspec.json.decode(query.get("attributes", "{}"), type=dict[str, str])
        except msgspec.DecodeError as error:
            raise ValueError(f"attributes: {error}") from None
        properties = Properties(user_properties=tuple(given.items()))
        message = PublishedMessage(
            topic, payload, publisher="", published_us=0, properties=properties
        )
        return attributes_of(message, self._json)

    def _explained(self, session: Session, attributes: Attributes, skip: int) -> dict[str, Any]:
        """A client's session, and why each of its subscriptions lets a publication through."""
        end_s = time.monotonic() + TURN_S
        rows: list[dict[str, Any]] = []
        more: int | None = None
        for number, each in enumerate(islice(session.subscriptions.values(), skip, None)):
            if rows and time.monotonic() > end_s:
                more = skip + number
                break
            now_us = self._front_end.node.clock.now_us()
            rows.append(_explained_subscription(each, attributes, now_us))
        return {
            "connected": session.session_writer is not None,
            "departed": session.is_departed,
            "user": session.user,
            **_queue(session),
            "subscriptions": rows,
            "next": more,
        }

    def _published_by(
        self, client: str, topic: str, attributes: Attributes
    ) -> dict[str, Any] | None:
        """Return facts about a publisher that is connected here."""
        connection = self._front_end.clients.connection(client)
        if connection is None or connection.session is None:
            return None
        front_end = self._front_end.clients.front_end
        promises = front_end.promising.advertised_by(client) if front_end is not None else ()
        permissions = self._front_end.clients.permissions(connection.session.user, client)
        return {
            "user": connection.session.user,
            "may_publish": permissions.may_publish(topic),
            "advertised": not promises or any(matches(each, attributes) for each in promises),
        }


def _queue(session: Session) -> dict[str, int]:
    """Return a client's queued messages and drops."""
    return {
        "in_flight": session.inflight,
        "waiting": session.queued,
        "waiting_bytes": session.waiting_bytes,
        "dropped": session.dropped,
    }


def _query(client: str, skip: int) -> str:
    return urlencode({"from": client, "skip": skip})


def _explained_subscription(
    subscription: ClientSubscription, attributes: Attributes, now_us: int
) -> dict[str, Any]:
    topic = str(attributes[TOPIC_ATTRIBUTE])
    row: dict[str, Any] = {
        "topic_filter": subscription.topic_filter,
        "qos": subscription.qos,
        "shared": subscription.shared,
        "no_local": subscription.no_local,
        "topic_matches": topic_matches(subscription.wanted_topics, topic),
        "content_matches": None,
        "why": "",
        "conflation": None,
    }
    if row["topic_matches"]:
        why = explain(subscription.content, attributes)
        row["content_matches"] = why.verdict is FilterVerdict.TRUE
        row["why"] = why.text()
        if row["content_matches"] and subscription.conflator is not None:
            row["conflation"] = _conflation(subscription.conflator, attributes, now_us)
    return row


def _conflation(
    conflator: SubscriptionConflator, attributes: Attributes, now_us: int
) -> dict[str, Any]:
    """The rule of a subscription, and what it would do to a publication that comes now.

    `held_s` is the rest of the interval, 0 if none runs.
    """
    rule = conflator.rule
    key = key_name(rule.key_of(str(attributes[TOPIC_ATTRIBUTE]), attributes))
    state = conflator.get(key)
    ends_us = None if state is None else state.ends_us
    return {
        "every": rule.every,
        "changed": rule.changed,
        "held_s": 0 if ends_us is None else round(max(0, ends_us - now_us) / 1e6, 1),
        "has_changed": conflator.has_changed(key, rule.values_of(attributes)),
    }


def _row(session: Session, subscription: ClientSubscription) -> Iterator[dict[str, Any]]:
    """Make rows of a subscription, also as a filter on topics and content, if it can be written
    so.
    """
    wanted = network_filter(subscription.wanted_topics, subscription.content)
    try:
        filter, content = format_filter(wanted), format_filter(subscription.content)
    except FilterError:
        return
    conflator = subscription.conflator
    yield {
        "client": session.client_id,
        "topic_filter": subscription.topic_filter,
        "where": content,
        "filter": filter,
        "qos": subscription.qos,
        "every": "" if conflator is None else conflator.rule.every,
        "changed": "" if conflator is None else conflator.rule.changed,
        "connected": session.session_writer is not None,
    }
