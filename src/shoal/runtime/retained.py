"""Retained messages of a live broker: listed a page at a time, and deleted.

A page has the topics that a few milliseconds find, or time slices of that length with other work
between them. A search continues at its `cursor`, which a page names and which is kept for a while.
Payloads are not listed: reading them is a subscriber's right.

The broker deletes a message as in MQTT, by publishing an empty one to its topic: every broker
forgets it, and current subscribers get the empty message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from shoal.matching.topics.filters import TopicError, read_topic_filter
from shoal.mqtt.messages import PublishedMessage
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.operations.admin import OPERATOR

# Messages of one page; how long it is searched for at a time, and altogether.
MOST_ON_A_PAGE = 200
TURN_S, PAGE_S = 0.003, 1.0
# Searches that are kept for the next page, and for how long.
MOST_CURSORS, CURSOR_S = 16, 30.0
# So many messages are deleted before others have their turn.
DELETED_AT_ONCE = 50
# Publisher of the empty messages.
DELETER = "$operator"
_QOS = 1

_log = logging.getLogger(__name__)


class _Cursor(NamedTuple):
    search: Iterator[PublishedMessage | None]
    used_s: float


class Retained:
    """One broker's."""

    def __init__(self, front_end: MqttFrontEnd) -> None:
        self._front_end = front_end
        self._cursors: OrderedDict[str, _Cursor] = OrderedDict()
        self._opened = 0

    async def page(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return retained topics that match `filter`, or continue at `cursor`.

        ValueError for a topic filter that MQTT does not allow, or a cursor that is not known.
        """
        search = self._search(query)
        rows: list[dict[str, Any]] = []
        end_s = time.monotonic() + PAGE_S
        while time.monotonic() < end_s:
            if await self._fill(rows, search):
                return {"retained": rows, "next": None}
            if len(rows) >= MOST_ON_A_PAGE:
                break
        return {"retained": rows, "next": urlencode({"cursor": self._keep_cursor(search)})}

    async def _fill(
        self, rows: list[dict[str, Any]], search: Iterator[PublishedMessage | None]
    ) -> bool:
        """Search for a turn; whether that was all."""
        now_us, turn_s = self._front_end.node.clock.now_us(), time.monotonic() + TURN_S
        for message in search:
            if message is not None:
                rows.append(_row(message, now_us))
            if len(rows) >= MOST_ON_A_PAGE:
                return False
            if time.monotonic() > turn_s:
                await asyncio.sleep(0)
                return False
        return True

    def _search(self, query: Mapping[str, str]) -> Iterator[PublishedMessage | None]:
        self._forget_old()
        if (name := query.get("cursor")) is not None:
            cursor = self._cursors.pop(name, None)
            if cursor is None:
                raise ValueError("cursor: this listing was left for too long; begin it again")
            return cursor.search
        return self._search_retained(query.get("filter", ""))

    def _search_retained(self, topic_filter: str) -> Iterator[PublishedMessage | None]:
        try:
            read_topic_filter(topic_filter)
        except TopicError as error:
            raise ValueError(f"filter: {error}") from None
        now_us = self._front_end.node.clock.now_us()
        return self._front_end.clients.retained.search(topic_filter, now_us)

    def _keep_cursor(self, search: Iterator[PublishedMessage | None]) -> str:
        self._opened += 1
        name = str(self._opened)
        self._cursors[name] = _Cursor(search, time.monotonic())
        while len(self._cursors) > MOST_CURSORS:
            self._cursors.popitem(last=False)
        return name

    def _forget_old(self) -> None:
        oldest_s = time.monotonic() - CURSOR_S
        for name in [name for name, each in self._cursors.items() if each.used_s < oldest_s]:
            del self._cursors[name]

    async def delete(self, said: Mapping[str, str]) -> str:
        """Delete retained messages on topics that match `filter`; return the reason of a
        failure.
        """
        topic_filter = said.get("filter", "")
        try:
            search = self._search_retained(topic_filter)
        except ValueError as error:
            return str(error)
        if topic_filter.startswith("$"):
            return f"{topic_filter}: topics that begin with $ are the broker's own"
        deleted = 0
        for number, message in enumerate(search, 1):
            if message is not None:
                self._publish_empty(message.topic)
                deleted += 1
            if not number % DELETED_AT_ONCE:
                await self._have_done()
        await self._have_done()
        extra = {"user": said.get(OPERATOR, ""), "where": topic_filter, "count": deleted}
        _log.info("retained messages deleted", extra=extra)
        return "" if deleted else f"nothing is retained on {topic_filter}"

    def _publish_empty(self, topic: str) -> None:
        now_us = self._front_end.node.clock.now_us()
        empty = PublishedMessage(topic, b"", DELETER, now_us, qos=_QOS, retain=True)
        self._front_end.clients.publish(empty, now_us)

    async def _have_done(self) -> None:
        front_end = self._front_end
        front_end.carry_out(front_end.clients.take_effects())
        front_end.node.schedule_flush()
        await asyncio.sleep(0)
        # The next slice waits as clients do while the broker takes nothing.
        while front_end.clients.is_held:
            await asyncio.sleep(TURN_S)


def _row(message: PublishedMessage, now_us: int) -> dict[str, Any]:
    left_us = None if message.expires_us is None else message.expires_us - now_us
    return {
        "topic": message.topic,
        "bytes": len(message.payload),
        "qos": message.qos,
        "publisher": message.publisher,
        # Of the clock of the broker where it was published.
        "published_s": message.published_us / 1e6,
        "expires_in_s": None if left_us is None else round(left_us / 1e6),
    }
