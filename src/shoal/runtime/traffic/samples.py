"""The last sampled messages of a broker's clients, and how a filter answers them.

Filters are tried at the broker, so that payloads stay there; an example shows values of the
attributes that the filter asks for.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from shoal.attributes import Json
from shoal.language import format_filter, parse
from shoal.ledger import Ledger, LedgerMeasure
from shoal.matching import explain, matches
from shoal.matching.topics.filters import read_topic_filter, topic_matches
from shoal.model import EVERYTHING, And, Filter
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage

KEPT = 1_000
# Larger messages are not kept.
LONGEST = 4_096
# After so long other work has its turn.
TURN_S = 0.003
# Top-level parts of a filter that are counted each.
MOST_PARTS = 16
MOST_CHARACTERS = 400


class MessageSamples:
    """Those of one broker."""

    def __init__(self, json: Json) -> None:
        self._json = json
        self._kept: deque[PublishedMessage] = deque(maxlen=KEPT)

    def register(self, ledger: Ledger) -> None:
        ledger.register(
            "sampled messages",
            lambda: LedgerMeasure(
                len(self._kept),
                sum(message.size for message in self._kept),
                KEPT,
                KEPT * (LONGEST + 1_000),
            ),
        )

    def add(self, message: PublishedMessage) -> None:
        if message.size <= LONGEST:
            self._kept.append(message)

    async def try_filter(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Answer `topic` (a topic filter) and `where` (SQL): how many sampled messages match.

        `of` counts the messages on these topics; each of the `parts`, which AND joins, has the
        number of messages for which it is not TRUE; `example` explains the last message that does
        not match. ValueError for a filter that cannot be read.
        """
        topics = query.get("topic", "#")
        read_topic_filter(topics)
        where = query.get("where", "").strip()
        wanted = parse(where) if where else EVERYTHING
        expression = wanted.expression
        parts = expression.operands if isinstance(expression, And) else (expression,)
        tested = [Filter(part) for part in parts[:MOST_PARTS]] if where else []
        misses = [0] * len(tested)
        matched = of = 0
        example = ""
        turn_s = time.monotonic() + TURN_S
        for message in list(self._kept):
            if time.monotonic() > turn_s:
                await asyncio.sleep(0)
                turn_s = time.monotonic() + TURN_S
            if not topic_matches(topics, message.topic):
                continue
            of += 1
            attributes = attributes_of(message, self._json)
            for number, part in enumerate(tested):
                misses[number] += not matches(part, attributes)
            if matches(wanted, attributes):
                matched += 1
            else:
                example = explain(wanted, attributes).text()[:MOST_CHARACTERS]
            message.attributes = None
        return {
            "matched": matched,
            "of": of,
            "example": example,
            "parts": [
                {"text": format_filter(part), "misses": count}
                for part, count in zip(tested, misses, strict=True)
            ],
        }
