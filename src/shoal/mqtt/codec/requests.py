"""The topic filters of a SUBSCRIBE or UNSUBSCRIBE, read in parts: a packet may have 100,000.

A decoder reads the first part; `sessions/request_slices.py` reads the others, `unread` in the
packet, in later time slices.

>>> from shoal.mqtt.codec.fields import write_string
>>> reader = FieldReader(write_string("a/b") + write_string("c"), "UNSUBSCRIBE")
>>> read_topic_filters(reader), reader.at_end
(['a/b', 'c'], True)

Source: MQTT Version 5.0, sections 3.8.3 and 3.10.3.
"""

from __future__ import annotations

from shoal.matching.topics.filters import TopicDepthError, TopicError, read_topic_filter
from shoal.mqtt.codec.errors import malformed, protocol_error
from shoal.mqtt.codec.fields import FieldReader
from shoal.mqtt.codec.packet_types import MQTT_3_1_1
from shoal.mqtt.codec.packets import SubscriptionRequest

# The most topic filters that one call reads, and the bytes after which it stops: some 2 ms.
MOST_AT_ONCE, MOST_BYTES = 500, 16_384
_SHARED = "$share/"
_NO_LOCAL, _RETAIN_AS_PUBLISHED, _OPTIONS_RESERVED = 0x04, 0x08, 0xC0


def read_requests(reader: FieldReader, version: int) -> list[SubscriptionRequest]:
    """The next topic filters of a SUBSCRIBE, with their options; MqttError for the first
    invalid."""
    requests: list[SubscriptionRequest] = []
    end = reader.position + MOST_BYTES
    while not reader.at_end and len(requests) < MOST_AT_ONCE and reader.position < end:
        topic_filter = _topic_filter(reader, "SUBSCRIBE")
        options = reader.byte("subscription options")
        if version == MQTT_3_1_1:
            if options > 2:
                raise malformed(f"SUBSCRIBE: requested QoS 0x{options:02X} [MQTT-3.8.3-4 of 3.1.1]")
            requests.append(SubscriptionRequest(topic_filter, options))
        else:
            requests.append(_subscription_request(topic_filter, options))
    return requests


def read_topic_filters(reader: FieldReader) -> list[str]:
    """Like `read_requests`, of an UNSUBSCRIBE."""
    topic_filters: list[str] = []
    end = reader.position + MOST_BYTES
    while not reader.at_end and len(topic_filters) < MOST_AT_ONCE and reader.position < end:
        topic_filters.append(_topic_filter(reader, "UNSUBSCRIBE"))
    return topic_filters


def _subscription_request(topic_filter: str, options: int) -> SubscriptionRequest:
    if options & _OPTIONS_RESERVED:
        raise malformed("SUBSCRIBE: reserved subscription options are set [MQTT-3.8.3-5]")
    qos, retain_handling = options & 3, options >> 4 & 3
    if qos == 3:
        raise protocol_error("SUBSCRIBE: the maximum QoS is 3")
    if retain_handling == 3:
        raise protocol_error("SUBSCRIBE: retain handling is 3")
    no_local = bool(options & _NO_LOCAL)
    if no_local and topic_filter.startswith(_SHARED):
        raise protocol_error("SUBSCRIBE: no-local on a shared subscription [MQTT-3.8.3-4]")
    return SubscriptionRequest(
        topic_filter, qos, no_local, bool(options & _RETAIN_AS_PUBLISHED), retain_handling
    )


def check_topic_filter(text: str) -> None:
    """Raise TopicError unless the text before a query is valid (sections 4.7 and 4.8.2)."""
    if "?" in text:
        read_topic_filter(_without_queries(text) or text)
    else:
        read_topic_filter(text)


def _without_queries(text: str) -> str:
    """The text before a query; the name of a group may have a query, too."""
    if text.startswith(_SHARED):
        group, slash, rest = text.removeprefix(_SHARED).partition("/")
        return f"{_SHARED}{group.partition('?')[0]}{slash}{rest.partition('?')[0]}"
    return text.partition("?")[0]


def _topic_filter(reader: FieldReader, packet: str) -> str:
    text = reader.name("topic filter")
    try:
        check_topic_filter(text)
    except TopicDepthError:
        pass  # a limit of the broker: `Subscribing` refuses the topic filter alone
    except TopicError as error:
        front = _without_queries(text)
        is_shared = front.startswith(_SHARED) and "#" not in front[:-1]
        fail = protocol_error if is_shared else malformed
        raise fail(f"{packet}: {error}") from None
    return text
