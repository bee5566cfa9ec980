"""Content filters of MQTT clients: the attributes of a message, and the syntax of filters.

The attributes of a message are those of its topic and its payload (see `shoal.attributes`), and its
user properties; `` `$retain` `` is TRUE for a retained publication. A user property has no type:
`read_plain_value` reads its value. A user property replaces a payload field of the same name.
Clients cannot set attributes whose names begin with `$`.

>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> from shoal.mqtt.messages import PublishedMessage
>>> from shoal.mqtt.codec.properties import Properties
>>> sent = Properties(content_type="application/json", user_properties=(("carrier", "UA"),))
>>> payload = b'{"dep_delay": 41}'
>>> message = PublishedMessage("flights", payload, "", 0, properties=sent)
>>> attributes_of(message)["carrier"], attributes_of(message)["dep_delay"]
('UA', 41)
>>> reader = FilterReader((("$where", "carrier = 'UA'"),), DEFAULT_LIMITS)
>>> reader.read("flights?dep_delay>25").topic_filter
'flights'
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.attributes import MAX_LEVEL_ATTRIBUTES, Json, message_attributes
from shoal.broker.wire import MAX_PARTS, WireError, check_size
from shoal.language import (
    CostlyFilterError,
    FilterSyntaxError,
    TopicQuery,
    may_have_query,
    parse,
    read_topic_query,
)
from shoal.language.conflation_rules import (
    ConflationCostError,
    ConflationRule,
    ConflationRuleError,
    read_conflation,
)
from shoal.language.query import CHANGED, EVERY
from shoal.model import (
    EVERYTHING,
    And,
    Attributes,
    Filter,
    FilterCostError,
    FilterError,
    Or,
    Predicate,
)
from shoal.model.expressions import cost_of, derived_expression, is_derived
from shoal.mqtt.codec.properties import UserProperties
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.statistics import Statistics

# The user property of a SUBSCRIBE that holds a filter in SQL; several are combined with AND.
WHERE = "$where"
# The user property of a SUBSCRIBE that asks for the past from a time on (see `replaying`).
FROM = "$from"
# The user property of a CONNECT that advertises publications; several are combined with OR.
ADVERTISE = "$advertise"
# Values of a list that take about the time of one test.
VALUES_PER_TEST = 16
# Steps of an expression's evaluation that count as one test.
STEPS_PER_TEST = 64
# Work in the units of `serving.TURN`. Reading this many bytes of a filter is one unit at worst;
# installing a topic filter, here and in the machine, or one test of a normal form takes more.
BYTES_PER_WORK = 2
FILTER_WORK = 8
WORK_PER_TEST = 3
# Memory of a subscription, here and in the machine; and the additional memory of each level of a
# topic filter with wildcards, of each test, and of each value of a list.
SUBSCRIPTION_BYTES = 4_000
LEVEL_BYTES = 250
TEST_BYTES = 600
VALUE_BYTES = 80
# Memory of an expression, parsed and ready for evaluation, for each character of it.
EXPRESSION_FACTOR = 20
_WILDCARDS = frozenset("+#")
# The most tests of a filter: the tests of its topic need the rest (see `network`).
MAX_FILTER_PARTS = MAX_PARTS - 2 * MAX_LEVEL_ATTRIBUTES


class ContentFilterError(ValueError):
    """A filter of a subscription or an advertisement cannot be read; says where and why."""


class FilterQuotaError(ContentFilterError):
    """The filters of one packet are larger than the limits allow."""


class SubscriptionFilter(NamedTuple):
    """The topic filter and the content filter of one entry of a SUBSCRIBE.

    `since` is the text of `$from`, empty without it; `conflation` is the rule of `$every` and
    `$changed`.
    """

    topic_filter: str
    content: Filter
    since: str = ""
    conflation: ConflationRule | None = None


class AttributeReader:
    """Reads the attributes of one broker's messages, and counts unreadable payloads.

    `json` selects the payloads that are parsed.
    """

    def __init__(self, json: Json = "auto", statistics: Statistics | None = None) -> None:
        self.json = json
        self._statistics = statistics

    def attributes_of(self, message: PublishedMessage) -> Attributes:
        """The attributes of a message, parsed at the first call; messages of other brokers have
        them.

        They stay with the message until its fan-out ends: they take some ten times its bytes.
        """
        attributes = message.attributes
        if attributes is None:
            attributes, unread = read_attributes(message, self.json)
            message.attributes = attributes
            if unread and self._statistics is not None:
                self._statistics.count_unread(message.publisher, message.topic, unread)
        return attributes


def attributes_of(message: PublishedMessage, json: Json = "auto") -> Attributes:
    """The attributes of a message, without counting."""
    return read_attributes(message, json)[0]


def read_attributes(message: PublishedMessage, json: Json) -> tuple[Attributes, str]:
    """The attributes, and the reason why a payload that looks like JSON was not parsed."""
    properties = message.properties
    return message_attributes(
        message.topic,
        message.payload,
        properties.content_type,
        properties.user_properties,
        is_retained=message.retain,
        json=json,
    )


class FilterReader:
    """Reads the content filters of one SUBSCRIBE, within the limits of a packet.

    `$where`, which holds for all topic filters of the packet, is parsed once.
    """

    def __init__(self, user_properties: UserProperties, limits: MqttLimits) -> None:
        self._limits = limits
        self._left_bytes = limits.maximum_filter_bytes
        self._left_tests = limits.maximum_filter_tests
        self._where, self._where_tests = EVERYTHING, 0
        self._problem: ContentFilterError | None = None
        self._work = 0
        self._since = self._every = self._changed = ""
        self._conflation: ConflationRule | None = None
        try:
            self._since = _since_of(user_properties)
            self._every = self._single(user_properties, EVERY)
            self._changed = self._single(user_properties, CHANGED)
            self._conflation = _read_conflation(self._every, self._changed)
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
        """Split one topic filter; ContentFilterError if it is unreadable or too large."""
        if self._problem is not None:
            raise self._problem
        query, content, tests = TopicQuery(text, EVERYTHING), self._where, self._where_tests
        if self._limits.queries_in_topic_filters and may_have_query(text):
            query = self._read_query(text)
            content = self._joined(query.content)
            tests = tests if content is self._where else _count_tests(content)
        self._take_tests(tests)
        if query.since and self._since and query.since != self._since:
            raise ContentFilterError(f"{FROM}: two times, {self._since!r} and {query.since!r}")
        conflation = self._conflation
        if query.every or query.changed:
            conflation = _read_conflation(
                _one_of(EVERY, self._every, query.every),
                _one_of(CHANGED, self._changed, query.changed),
            )
        if conflation is not None:
            self._take_tests(conflation.work)
        since = query.since or self._since
        return SubscriptionFilter(query.topic_filter, content, since, conflation)

    def _single(self, user_properties: UserProperties, name: str) -> str:
        """The text of a user property that stands once; empty without it."""
        found = [text for each, text in user_properties if each == name]
        if len(found) > 1 or "" in found:
            raise ContentFilterError(f"{name} stands once, and is not empty")
        for text in found:
            self._take_bytes(text)
        return found[0] if found else ""

    def _read_query(self, text: str) -> TopicQuery:
        self._take_bytes(text)
        try:
            return read_topic_query(text)
        except CostlyFilterError as error:
            raise FilterQuotaError(f"topic filter: {error.one_line}") from None
        except FilterSyntaxError as error:
            raise ContentFilterError(f"topic filter: {error.one_line}") from None

    def _joined(self, query: Filter) -> Filter:
        """The conjunction of a query and `$where`."""
        where = self._where
        if query == EVERYTHING:
            return where
        if where == EVERYTHING:
            _check(query, WHERE)
            return query
        # Check the limit before the conjunction is computed, which then takes little time.
        needed = self._where_tests + len(where.normal_form) * _count_tests(query)
        self._take_tests(0, needed)
        content = _all_of([query, Filter(Or(tuple(And(each) for each in where.normal_form)))])
        _check(content, WHERE)
        return content

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
        """The work since the last call, including the work to install the filters."""
        work, self._work = self._work, 0
        return work


def _since_of(user_properties: UserProperties) -> str:
    found = [text for name, text in user_properties if name == FROM]
    if len(found) > 1 or "" in found:
        raise ContentFilterError(f"{FROM} stands once, with one time: '-10m', or an ISO time")
    return found[0] if found else ""


def _one_of(name: str, property: str, query: str) -> str:
    """The text of a user property or of the query of a topic filter."""
    if property and query and property.strip() != query.strip():
        raise ContentFilterError(f"{name}: two texts, {property!r} and {query!r}")
    return query or property


def _read_conflation(every: str, changed: str) -> ConflationRule | None:
    try:
        return read_conflation(every, changed)
    except ConflationCostError as error:
        raise FilterQuotaError(str(error)) from None
    except ConflationRuleError as error:
        raise ContentFilterError(str(error)) from None


def _all_of(parts: list[Filter]) -> Filter:
    return Filter(And(tuple(part.expression for part in parts)))


def _count_tests(content: Filter) -> int:
    """The number of tests in a filter's normal form; a long list of values counts as several, and
    so does a costly expression.
    """
    return sum(_tests_of(test) for conjunction in content.normal_form for test in conjunction)


def _tests_of(test: Predicate) -> int:
    count = 1
    if isinstance(test.operand, tuple):
        count += len(test.operand) // VALUES_PER_TEST
    if is_derived(test.attribute):
        count += cost_of(derived_expression(test.attribute)) // STEPS_PER_TEST
    return count


def work_on(content: Filter) -> int:
    """The work to install or remove a subscription with this content filter."""
    return FILTER_WORK + WORK_PER_TEST * _count_tests(content)


def bytes_of(topic_filter: str, content: Filter) -> int:
    """The approximate memory of a subscription with this topic filter and content filter."""
    levels = topic_filter.count("/") + 1 if _WILDCARDS & set(topic_filter) else 0
    size = SUBSCRIPTION_BYTES + 2 * len(topic_filter) + LEVEL_BYTES * levels
    for conjunction in content.normal_form if content != EVERYTHING else ():
        for test in conjunction:
            size += TEST_BYTES
            if is_derived(test.attribute):  # its name is the expression
                size += EXPRESSION_FACTOR * len(test.attribute)
            if isinstance(test.operand, tuple):
                size += VALUE_BYTES * len(test.operand)
            elif isinstance(test.operand, str):
                size += 2 * len(test.operand)
    return size


def read_advertisements(user_properties: UserProperties, limits: MqttLimits) -> tuple[Filter, ...]:
    """The advertised filters of a CONNECT; ContentFilterError if one cannot be read."""
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
    except CostlyFilterError as error:
        raise FilterQuotaError(f"{what}: {error.one_line}") from None
    except FilterSyntaxError as error:
        raise ContentFilterError(f"{what}: {error.one_line}") from None


def _check(content: Filter, what: str) -> None:
    """Raise ContentFilterError for a filter that no index can install or no link can carry."""
    try:
        content.normal_form  # noqa: B018  # computed here, so that its error is raised here
        check_size(content.expression, MAX_FILTER_PARTS)
        content.check_cost()
    except FilterCostError as error:
        raise FilterQuotaError(f"{what}: {error}") from None
    except (FilterError, WireError) as error:
        raise ContentFilterError(f"{what}: {error}") from None
