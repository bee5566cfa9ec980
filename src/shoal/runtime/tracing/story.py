"""The story of one message, put together from the spans of all brokers: pure.

>>> hop = {"source": "", "at_us": 1_000, "waited_us": 0, "took_us": 500, "targets": ["B2"],
...     "deliveries": 0}
>>> client = {"client": "c", "filter": "a/#", "qos": 1, "at_us": 9_000, "state": "delivered",
...     "verdict": "", "why": "", "ended_us": 12_000}
>>> about = {"key": "p/1", "label": "", "publisher": "p", "topic": "a/b", "published_us": 1_000,
...     "bytes": 3, "attributes": {}, "left_out": 0}
>>> entered = {"client": "p", "user": "", "qos": 1, "at_us": 1_000, "settled_us": 20_000}
>>> story = tell({
...     "B1": about | {"entered": entered, "hops": [hop], "clients": []},
...     "B2": about | {"entered": None, "clients": [client],
...         "hops": [hop | {"source": "B1", "at_us": 6_000, "targets": []}]}})
>>> [(row.depth, row.name, row.from_ms, row.state) for row in story.rows]
[(0, 'p', 0.0, 'settled'), (1, 'B1', 0.0, ''), (2, 'B2', 5.0, ''), (3, 'c', 8.0, 'delivered')]
>>> story.headline
'1 of 1 subscriber has it, after 11 ms at the latest'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from shoal.model import BrokerId
from shoal.runtime.tracing.spans import DELIVERED, DROPPED, NO, SENT, WAITING

MISSING = "missing"
_LATE = {DROPPED: 0, MISSING: 1, WAITING: 2, SENT: 3}
_DEEPEST = 32

Record = Mapping[str, Any]


class StoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a story: the publisher, a broker, or a subscriber; in ms since the message came.

    `from_ms` is its begin there, `to_ms` the end of its handling, `ended_ms` its acknowledgement,
    None if there is none (yet). `text` says what it is about, `verdict` has the values that decide
    a filter, `why` the reason why a subscriber does not have the message.
    """

    depth: int
    kind: str
    name: str
    broker: BrokerId
    from_ms: float
    to_ms: float
    ended_ms: float | None = None
    state: str = ""
    text: str = ""
    verdict: str = ""
    why: str = ""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """The story of one message; `missing` are the rows of who does not have it, the worst first."""

    key: str
    label: str
    publisher: str
    topic: str
    published_us: int
    bytes: int
    attributes: dict[str, Any]
    headline: str
    missing: list[StoryRow]
    rows: list[StoryRow]
    left_out: int


def tell(records: Mapping[BrokerId, Record]) -> Story:
    """Put the records of one message together; at least one broker has one."""
    first = next(
        (each for each in records.values() if each["entered"] is not None),
        next(iter(records.values())),
    )
    rows = list(_Telling(records, first).rows())
    attributes = max((each["attributes"] for each in records.values()), key=len)
    missing = [row for row in rows if row.state in _LATE]
    return Story(
        key=first["key"],
        label=next((each["label"] for each in records.values() if each["label"]), ""),
        publisher=next((each["publisher"] for each in records.values() if each["publisher"]), ""),
        topic=first["topic"],
        published_us=first["published_us"],
        bytes=max(each["bytes"] for each in records.values()),
        attributes=dict(attributes),
        headline=_headline(rows),
        missing=sorted(missing, key=lambda row: _LATE[row.state]),
        rows=rows,
        left_out=sum(each["left_out"] for each in records.values()),
    )


class _Telling:
    """Walks from the first broker along the hops; each broker has a clock of its own."""

    def __init__(self, records: Mapping[BrokerId, Record], first: Record) -> None:
        self._records, self._first = records, first
        self._seen: set[BrokerId] = set()
        entered = first["entered"]
        self._base_us = entered["at_us"] if entered is not None else first["published_us"]

    def rows(self) -> Iterator[StoryRow]:
        entered = self._first["entered"]
        if entered is not None:
            settled_us = entered["settled_us"]
            user = f" (user {entered['user']})" if entered["user"] else ""
            yield StoryRow(
                depth=0,
                kind="publisher",
                name=entered["client"],
                broker=self._name_of(self._first),
                from_ms=0.0,
                to_ms=0.0,
                ended_ms=None if settled_us is None else self._ms(settled_us),
                state="" if settled_us is None else "settled",
                text=f"publishes at QoS {entered['qos']}{user}",
            )
        for broker, record in self._records.items():
            starts = record["entered"] is not None and not record["hops"]
            if starts or any(not hop["source"] for hop in record["hops"]):
                yield from self._broker(broker, 1, 0, 0.0)
        for broker in self._records:  # brokers whose neighbour has no spans
            if broker not in self._seen:
                yield from self._broker(broker, 1, 0, 0.0)

    def _name_of(self, record: Record) -> BrokerId:
        return next(name for name, each in self._records.items() if each is record)

    def _ms(self, at_us: int, shift_us: int = 0) -> float:
        since_us: int = at_us + shift_us - self._base_us
        return round(since_us / 1000, 3)

    def _broker(
        self, broker: BrokerId, depth: int, shift_us: int, sent_ms: float
    ) -> Iterator[StoryRow]:
        """A broker and everything behind it; `shift_us` sets its clock to the first broker's."""
        if broker in self._seen or depth > _DEEPEST:
            return
        self._seen.add(broker)
        record = self._records.get(broker)
        if record is None:
            yield StoryRow(
                depth=depth,
                kind="broker",
                name=broker,
                broker=broker,
                from_ms=sent_ms,
                to_ms=sent_ms,
                state=MISSING,
                why="it has no spans of the message: it is away, or the message is on its way",
            )
            return
        hops = record["hops"]
        text = ""
        from_ms = to_ms = sent_ms
        targets: list[BrokerId] = []
        if hops:
            came_us = min(hop["at_us"] for hop in hops)
            if self._ms(came_us, shift_us) < sent_ms:  # it cannot come before it was sent
                ahead_ms = round(sent_ms - self._ms(came_us, shift_us), 3)
                shift_us += round(1000 * ahead_ms)
                text = f"its clock is {ahead_ms:g} ms behind; "
            from_ms = self._ms(came_us, shift_us)
            ends = (hop["at_us"] + hop["waited_us"] + hop["took_us"] for hop in hops)
            to_ms = self._ms(max(ends), shift_us)
            targets = list(dict.fromkeys(each for hop in hops for each in hop["targets"]))
        text += f"sends it to {', '.join(targets)}" if targets else "sends it no further"
        if hops and hops[0]["source"]:
            text = f"from {hops[0]['source']}; {text}"
        yield StoryRow(
            depth=depth,
            kind="broker",
            name=broker,
            broker=broker,
            from_ms=from_ms,
            to_ms=to_ms,
            text=text,
        )
        for span in record["clients"]:
            yield self._client(span, broker, depth + 1, shift_us)
        for target in targets:
            yield from self._broker(target, depth + 1, shift_us, to_ms)

    def _client(self, span: Record, broker: BrokerId, depth: int, shift_us: int) -> StoryRow:
        at_ms = self._ms(span["at_us"], shift_us)
        ended_us = span["ended_us"]
        return StoryRow(
            depth=depth,
            kind="client",
            name=span["client"],
            broker=broker,
            from_ms=at_ms,
            to_ms=at_ms,
            ended_ms=None if ended_us is None else self._ms(ended_us, shift_us),
            state=span["state"],
            text=span["filter"],
            verdict=span["verdict"],
            why=span["why"],
        )


def _headline(rows: list[StoryRow]) -> str:
    wanted = [row for row in rows if row.kind == "client" and row.state != NO]
    has = [row for row in wanted if row.state == DELIVERED]
    refused = sum(row.kind == "client" and row.state == NO for row in rows)
    if not wanted:
        text = "no subscriber's filter matches it"
    else:
        plural = "subscriber has it" if len(wanted) == 1 else "subscribers have it"
        text = f"{len(has):,} of {len(wanted):,} {plural}"
        if has:
            last_ms = max(row.ended_ms or row.from_ms for row in has)
            text += f", after {last_ms:.3g} ms at the latest"
    if not refused:
        return text
    says = "1 filter on its topic says no" if refused == 1 else f"{refused:,} filters say no"
    return f"{text}; {says}"


def keys_of(answers: Mapping[BrokerId, Any], most: int) -> list[str]:
    """The keys in brokers' answers to `/traces?key=…`: a label may stand for several.

    A broker that has no subscriber of a message knows its key only, not its label.
    """
    keys = {record["key"]: None for answer in answers.values() for record in answer["traces"]}
    return list(keys)[-most:]


def stories(answers: Mapping[BrokerId, Any]) -> list[Story]:
    """The stories in brokers' answers to `/traces?key=…`; a label may stand for several."""
    found: dict[str, dict[BrokerId, Record]] = {}
    for broker, answer in answers.items():
        for record in answer["traces"]:
            found.setdefault(record["key"], {})[broker] = record
    return [tell(records) for records in found.values()]


def summaries(answers: Mapping[BrokerId, Any]) -> list[dict[str, Any]]:
    """A line for each traced message in brokers' answers to `/traces`, the newest first."""
    found: dict[str, dict[str, Any]] = {}
    for answer in answers.values():
        for row in answer["traces"]:
            known = found.setdefault(row["key"], {**row, "states": {}})
            known["label"] = known["label"] or row["label"]
            known["publisher"] = known["publisher"] or row["publisher"]
            for state, count in row["states"].items():
                known["states"][state] = known["states"].get(state, 0) + count
    return sorted(found.values(), key=lambda row: -int(row["published_us"]))
