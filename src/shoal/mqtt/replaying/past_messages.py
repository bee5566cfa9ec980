"""Publications as records of a log, and records as messages for a client.

>>> record = LogRecord(5, "p", 7, "a", b"hi", 1, properties=RecordProperties(content_type="text"))
>>> message = past_message(record)
>>> message.published_us, message.key, message.properties.content_type
(5, None, 'text')
>>> with_gap(message, "B2: 3 publications are missing").properties.user_properties
(('$gap', 'B2: 3 publications are missing'),)
"""

from __future__ import annotations

import msgspec

from shoal.log.records import LogRecord, RecordProperties
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.messages import PublishedMessage

# The user property of a message that names publications which are missing before it.
GAP = "$gap"


_NONE = RecordProperties()


def record_of(message: PublishedMessage, number: int) -> LogRecord:
    """The record of a publication."""
    properties = message.properties
    return LogRecord(
        message.published_us,
        message.publisher,
        number,
        message.topic,
        message.payload,
        message.qos,
        message.retain,
        None if properties is NO_PROPERTIES else _kept(properties),
    )


def _kept(properties: Properties) -> RecordProperties | None:
    """The properties of a PUBLISH that its subscribers get; None if there are none."""
    found = RecordProperties(
        properties.content_type,
        properties.user_properties,
        properties.response_topic,
        properties.correlation_data,
        properties.payload_format_indicator,
        properties.message_expiry_interval_s,
    )
    return None if found == _NONE else found


def past_message(record: LogRecord) -> PublishedMessage:
    """The message of a record.

    It has no key: a copy of it that is under way for another subscription is none of it.
    """
    return PublishedMessage(
        record.topic,
        record.payload,
        record.publisher,
        record.time_us,
        record.qos,
        record.retain,
        NO_PROPERTIES if record.properties is None else _properties(record.properties),
    )


def with_gap(message: PublishedMessage, gap: str) -> PublishedMessage:
    """A copy for one client, with the sentence about publications that are missing before it."""
    properties = message.properties
    named = (*properties.user_properties, (GAP, gap))
    found = PublishedMessage(
        message.topic,
        message.payload,
        message.publisher,
        message.published_us,
        message.qos,
        message.retain,
        msgspec.structs.replace(properties, user_properties=named),
    )
    found.key, found.expires_us = message.key, message.expires_us
    return found


def _properties(kept: RecordProperties) -> Properties:
    return Properties(
        content_type=kept.content_type,
        user_properties=kept.user_properties,
        response_topic=kept.response_topic,
        correlation_data=kept.correlation_data,
        payload_format_indicator=kept.payload_format_indicator,
        message_expiry_interval_s=kept.message_expiry_interval_s,
    )
