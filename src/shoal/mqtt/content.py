"""What of an MQTT message a content filter sees, and where clients say what they want or promise.

The attributes of a message are its user properties, the top-level fields of its payload if that is
JSON (see `Json`), and those of its topic: `` `$topic` `` whole, `` `$topic.0` `` and
so on level by level, `` `$levels` `` how many there are; `` `$retain` `` is TRUE if it is to be
retained.  A user property has no type, so its value is
read as `read_plain_value` reads it; it takes the place of a field of the same name.  Fields that
are null, lists or objects, those behind the first MAX_FIELDS, texts of more than MAX_TEXT
characters, and names that begin with `$`, are no attributes.

>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> from shoal.mqtt.messages import Message
>>> from shoal.mqtt.codec.properties import Properties
>>> sent = Properties(content_type="application/json", user_properties=(("carrier", "UA"),))
>>> payload = b'{"dep_delay": 41}'
>>> attributes_of(Message("flights", payload, publisher="", published_us=0, properties=sent))
{'$topic': 'flights', '$levels': 1, '$topic.0': 'flights', 'dep_delay': 41, 'carrier': 'UA'}
>>> reader = FilterReader((("$where", "carrier = 'UA'"),), DEFAULT_LIMITS)
>>> reader.read("flights?dep_delay>25").topic_filter
'flights'
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from shoal.broker.wire import MAX_PARTS, WireError, check_size
from shoal.language import (
    FilterSyntaxError,
    may_have_query,
    parse,
    parse_topic_query,
    read_plain_value,
)
from shoal.ledger import remembered
from shoal.model import (
    EVERYTHING,
    INTEGER_MAX,
    INTEGER_MIN,
    And,
    Attributes,
    Filter,
    FilterError,
    Or,
    Value,
)
from shoal.model.entities import MAX_ATTRIBUTES
from shoal.mqtt.codec.fields import REMEMBERED_TOPIC_BYTES
from shoal.mqtt.codec.properties import UserProperties
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message

TOPIC_ATTRIBUTE = "$topic"
LEVELS_ATTRIBUTE = "$levels"
RETAIN_ATTRIBUTE = "$retain"
# Levels that have an attribute of their own; deeper ones are told apart by the broker they reach.
MAX_LEVEL_ATTRIBUTES = 8
# Characters of a text that filters see: each LIKE goes through it, and there may be thousands.
MAX_TEXT = 16_384
# Fields of a JSON object that are looked at; a broker that looks at 100,000 does nothing else.
MAX_FIELDS = 10_000
# The user property of a SUBSCRIBE that holds a filter in SQL; several must all be TRUE.
WHERE = "$where"
# The user property of a CONNECT that names what a client will publish; several are an OR.
ADVERTISE = "$advertise"
# Values of a list that are looked at in about the time of a test.
VALUES_PER_TEST = 16
# Work, as `serving.TURN` counts it: to read so many bytes of a filter is one at worst; to file a
# topic filter, here and in the machine, or a test of a normal form, is so much.
BYTES_PER_WORK = 2
FILTER_WORK = 8
WORK_PER_TEST = 3
# What a subscription takes in memory, here and in the machine; and more for each level of a topic
# filter with wildcards, for each test, and each value of a list.
SUBSCRIPTION_BYTES = 4_000
LEVEL_BYTES = 250
TEST_BYTES = 600
VALUE_BYTES = 80
_WILDCARDS = frozenset("+#")
# Which payloads are JSON: those whose content type says so (`declared`), also those without content
# type that begin as an object (`auto`: 3.1.1 has no content types), or none.
Json = Literal["auto", "declared", "never"]
# What may be the first byte of an object.
_MAY_BEGIN = frozenset((b"{", b" ", b"\t", b"\n", b"\r"))
# White space in front of an object that is looked through.
_WHITE_SPACE = 64
# What a filter may have, so that there is room for the tests of its topic (see `network`).
MAX_FILTER_PARTS = MAX_PARTS - 2 * MAX_LEVEL_ATTRIBUTES
_JSON = "application/json"
# Names that begin so are not the client's to give.
_RESERVED = "$"

_decode_json = msgspec.json.Decoder().decode


class ContentFilterError(ValueError):
    """A filter that a client subscribes with, or advertises, cannot be read; says where and why."""


class FilterQuotaError(ContentFilterError):
    """One packet asks for more than one may."""


class SubscriptionFilter(NamedTuple):
    """What one topic filter of a SUBSCRIBE lets through: of topics, and of content."""

    topic_filter: str
    content: Filter


def attributes_of(message: Message, json: Json = "auto") -> Attributes:
    """What filters see, read when it is first asked for; a broker that routed it has read it.

    It is remembered until the message is handed to all: it takes some ten times its bytes.
    """
    attributes = message.attributes
    if attributes is None:
        attributes = message.attributes = read_attributes(message, json)
    return attributes


def level_attribute(number: int) -> str:
    """The name of one level of a topic."""
    return f"{TOPIC_ATTRIBUTE}.{number}"


def read_attributes(message: Message, json: Json) -> Attributes:
    """What filters see; whatever cannot be an attribute is left out."""
    topic = message.topic
    short = len(topic) <= REMEMBERED_TOPIC_BYTES
    attributes = _short_topic_attributes(topic).copy() if short else _topic_attributes(topic)
    if message.retain:
        attributes[RETAIN_ATTRIBUTE] = True
    payload = message.payload
    if payload[:1] in _MAY_BEGIN and json != "never" and _is_json(message, json):
        _add_fields(payload, attributes)
    for name, text in message.properties.user_properties:
        if name and name[0] != _RESERVED:
            value = read_plain_value(text)
            if len(text) > MAX_TEXT and type(value) is str and len(value) > MAX_TEXT:
                attributes.pop(name, None)  # it takes the place of a field all the same
            else:
                attributes[name] = value
    if len(attributes) > MAX_ATTRIBUTES:
        return dict(list(attributes.items())[:MAX_ATTRIBUTES])
    return attributes


def _topic_attributes(topic: str) -> dict[str, Value]:
    levels = topic.split("/")
    attributes: dict[str, Value] = {TOPIC_ATTRIBUTE: topic, LEVELS_ATTRIBUTE: len(levels)}
    for number, level in enumerate(levels[:MAX_LEVEL_ATTRIBUTES]):
        attributes[level_attribute(number)] = level
    return attributes


_short_topic_attributes = remembered("attributes of topics", most=1_024, bytes_each=1_500)(
    _topic_attributes
)


def _is_json(message: Message, json: Json) -> bool:
    """Also with parameters (`application/json; charset=utf-8`) and in capitals."""
    content_type = message.properties.content_type
    if content_type is None:
        return json == "auto" and message.payload[:_WHITE_SPACE].lstrip()[:1] == b"{"
    if content_type == _JSON:
        return True
    return content_type.partition(";")[0].strip().lower() == _JSON


def _add_fields(payload: bytes, attributes: dict[str, Value]) -> None:
    try:
        fields: Any = _decode_json(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    if type(fields) is not dict:
        return
    for name, value in islice(fields.items(), MAX_FIELDS):
        kind = type(value)
        if not name or name[0] == _RESERVED:
            continue
        if kind is float or kind is bool:
            attributes[name] = value
        elif kind is str:
            if len(value) <= MAX_TEXT:
                attributes[name] = value
        elif kind is int:
            if INTEGER_MIN <= value <= INTEGER_MAX:
                attributes[name] = value
            else:
                # Past the largest double too, it is no attribute.
                with suppress(OverflowError):
                    attributes[name] = float(value)


class FilterReader:
    """Reads the content filters of one SUBSCRIBE, as far as the limits of a packet go.

    `$where`, which holds for all its topic filters, is parsed once.
    """

    def __init__(self, user_properties: UserProperties, limits: Limits) -> None:
        self._limits = limits
        self._left_bytes = limits.maximum_filter_bytes
        self._left_tests = limits.maximum_filter_tests
        self._where, self._where_tests = EVERYTHING, 0
        self._problem: ContentFilterError | None = None
        self._work = 0
        try:
            texts = [text for name, text in user_properties if name == WHERE]
            for text in texts:
                self._take_bytes(text)
            if texts:
                parts = [_parse(text, WHERE) for text in texts]
                self._where = parts[0] if len(parts) == 1 else _all_of(parts)
                _check(self._where, WHERE)
                self._where_tests = _count_tests(self._where)
                self._take_tests(0, self._where_tests)
        except ContentFilterError as error:
            self._problem = error

    def read(self, text: str) -> SubscriptionFilter:
        """What one topic filter lets through; ContentFilterError if unreadable or too much."""
        if self._problem is not None:
            raise self._problem
        topic_filter, content, tests = text, self._where, self._where_tests
        if self._limits.queries_in_topic_filters and may_have_query(text):
            topic_filter, content = self._read_query(text)
            tests = tests if content is self._where else _count_tests(content)
        self._take_tests(tests)
        return SubscriptionFilter(topic_filter, content)

    def _read_query(self, text: str) -> tuple[str, Filter]:
        """The topic filter without its query; and what both the query and `$where` ask."""
        self._take_bytes(text)
        try:
            topic_filter, query = parse_topic_query(text)
        except FilterSyntaxError as error:
            raise ContentFilterError(f"topic filter: {error.one_line}") from None
        where = self._where
        if query == EVERYTHING:
            return topic_filter, where
        if where == EVERYTHING:
            _check(query, WHERE)
            return topic_filter, query
        # Before any work is done on them together, which then is little.
        needed = self._where_tests + len(where.normal_form) * _count_tests(query)
        self._take_tests(0, needed)
        content = _all_of([query, Filter(Or(tuple(And(each) for each in where.normal_form)))])
        _check(content, WHERE)
        return topic_filter, content

    def _take_bytes(self, text: str) -> None:
        self._left_bytes -= len(text.encode())
        if self._left_bytes < 0:
            raise FilterQuotaError(
                f"more than {self._limits.maximum_filter_bytes} bytes of filters in one packet"
            )
        self._work += len(text) // BYTES_PER_WORK

    def _take_tests(self, count: int, needed: int = 0) -> None:
        if max(count, needed) > self._left_tests:
            raise FilterQuotaError(
                f"more than {self._limits.maximum_filter_tests} tests in the filters of one packet"
            )
        self._left_tests -= count
        self._work += WORK_PER_TEST * count

    def take_work(self) -> int:
        """How much was done since this was last asked, and is to be done with what was read."""
        work, self._work = self._work, 0
        return work


def _all_of(parts: list[Filter]) -> Filter:
    return Filter(And(tuple(part.expression for part in parts)))


def _count_tests(content: Filter) -> int:
    """How many tests there are in a filter's normal form; a long list of values is several."""
    return sum(
        1 + (len(test.operand) // VALUES_PER_TEST if isinstance(test.operand, tuple) else 0)
        for conjunction in content.normal_form
        for test in conjunction
    )


def work_on(content: Filter) -> int:
    """How much work it is to file a subscription to such content, or to take it out."""
    return FILTER_WORK + WORK_PER_TEST * _count_tests(content)


def bytes_of(topic_filter: str, content: Filter) -> int:
    """About what a subscription to such topics and content takes in memory."""
    levels = topic_filter.count("/") + 1 if _WILDCARDS & set(topic_filter) else 0
    size = SUBSCRIPTION_BYTES + 2 * len(topic_filter) + LEVEL_BYTES * levels
    for conjunction in content.normal_form if content != EVERYTHING else ():
        for test in conjunction:
            size += TEST_BYTES
            if isinstance(test.operand, tuple):
                size += VALUE_BYTES * len(test.operand)
            elif isinstance(test.operand, str):
                size += 2 * len(test.operand)
    return size


def read_advertisements(user_properties: UserProperties, limits: Limits) -> tuple[Filter, ...]:
    """What the user properties of a CONNECT advertise; ContentFilterError if it cannot be read."""
    texts = [text for name, text in user_properties if name == ADVERTISE]
    if sum(len(text.encode()) for text in texts) > limits.maximum_filter_bytes:
        raise FilterQuotaError(f"{ADVERTISE}: more than {limits.maximum_filter_bytes} bytes")
    filters = tuple(_parse(text, ADVERTISE) for text in texts)
    for each in filters:
        _check(each, ADVERTISE)
    if sum(map(_count_tests, filters)) > limits.maximum_filter_tests:
        raise FilterQuotaError(f"{ADVERTISE}: more than {limits.maximum_filter_tests} tests")
    return filters


def _parse(text: str, what: str) -> Filter:
    try:
        return parse(text)
    except FilterSyntaxError as error:
        raise ContentFilterError(f"{what}: {error.one_line}") from None


def _check(content: Filter, what: str) -> None:
    """ContentFilterError for what no index can take in, or no link carry."""
    try:
        content.normal_form  # noqa: B018  # computed here so that its error is met here
        check_size(content.expression, MAX_FILTER_PARTS)
    except (FilterError, WireError) as error:
        raise ContentFilterError(f"{what}: {error}") from None
