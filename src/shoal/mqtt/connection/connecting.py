"""The terms of an accepted CONNECT, and the CONNACK that states them.

>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> connect = Connect(client_id="c", keep_alive_s=30, properties=Properties(receive_maximum=5))
>>> terms = agree(connect, DEFAULT_LIMITS)
>>> terms.window, terms.keep_alive_us, terms.session_expiry_s
(5, 45000000, 0)
>>> connack_properties(connect, "c", terms, DEFAULT_LIMITS).receive_maximum
1024

Source: MQTT Version 5.0, sections 3.1 and 3.2; the same sections of 3.1.1.
"""

from __future__ import annotations

import msgspec

from shoal.matching import TopicError, check_topic
from shoal.matching.topics.filters import TopicDepthError
from shoal.model import Filter
from shoal.mqtt.broker_topics import is_bridge_state
from shoal.mqtt.codec.decoder import MAX_PACKET_BYTES
from shoal.mqtt.codec.errors import MqttError, malformed
from shoal.mqtt.codec.fields import CONTROL_CHARACTERS
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import ContentFilterError, FilterQuotaError, read_advertisements
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS
from shoal.mqtt.limits import MICROSECONDS, NEVER_S, MqttLimits
from shoal.mqtt.sessions.delivering.delivery import MAX_PACKET_ID

# The user property of a CONNECT by which a client accepts redirects (0x9C).
FOLLOW = "$follow"
# Limits that a CONNACK has no property for.
_SAID = ("maximum_topic_filters", "maximum_filter_bytes", "maximum_filter_tests")


class ConnectionTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The agreed terms of one connection."""

    # The in-flight window: publications above QoS 0 in flight to the client.
    window: int
    # The largest packet that the client accepts, and the number of topic aliases it allows.
    maximum_packet_size: int
    topic_aliases: int
    # The timeout of a silent client, 0 for none; 1.5 times its keep alive [MQTT-3.1.2-22].
    keep_alive_us: int
    keep_alive_s: int
    session_expiry_s: int
    # Whether packets other than CONNACK and DISCONNECT carry reason strings.
    with_reasons: bool
    # Whether the broker may redirect the client.
    follows: bool = False
    # Whether the client is a broker of 3.1.1, which has no subscription options: no-local and
    # retain-as-published hold for all its subscriptions.
    is_bridge: bool = False


def agree(connect: Connect, limits: MqttLimits) -> ConnectionTerms:
    """The terms of a connection."""
    properties = connect.properties
    keep_alive_s = connect.keep_alive_s
    if connect.version == MQTT_5:
        expiry_s = properties.session_expiry_interval_s or 0
        longest_s = limits.server_keep_alive_s
        if longest_s and (keep_alive_s == 0 or keep_alive_s > longest_s):
            keep_alive_s = longest_s
    else:
        # A 3.1.1 session without clean start is kept until its client discards it.
        expiry_s = 0 if connect.clean_start else NEVER_S
    return ConnectionTerms(
        window=min(properties.receive_maximum or MAX_PACKET_ID, limits.maximum_inflight),
        maximum_packet_size=properties.maximum_packet_size or MAX_PACKET_BYTES,
        topic_aliases=min(properties.topic_alias_maximum or 0, limits.outgoing_topic_aliases),
        keep_alive_us=keep_alive_s * MICROSECONDS * 3 // 2,
        keep_alive_s=keep_alive_s,
        session_expiry_s=min(expiry_s, limits.maximum_session_expiry_s),
        with_reasons=properties.request_problem_information != 0,
        follows=any(name == FOLLOW for name, _ in properties.user_properties),
        is_bridge=connect.version != MQTT_5 and _is_bridge(connect),
    )


def _is_bridge(connect: Connect) -> bool:
    """Whether a client of 3.1.1 is a bridge, by the bridge bit or by the topic of its will."""
    will = connect.will
    return connect.is_bridge or (will is not None and is_bridge_state(will.topic))


def connack_properties(
    connect: Connect, client_id: str, terms: ConnectionTerms, limits: MqttLimits
) -> Properties:
    """The properties of a CONNACK of MQTT 5; values that the client asked for are left out."""
    asked_s = connect.properties.session_expiry_interval_s or 0
    return Properties(
        session_expiry_interval_s=None
        if terms.session_expiry_s == asked_s
        else terms.session_expiry_s,
        receive_maximum=limits.receive_maximum,
        maximum_packet_size=limits.maximum_packet_size,
        topic_alias_maximum=limits.topic_alias_maximum or None,
        assigned_client_identifier=None if connect.client_id else client_id,
        server_keep_alive_s=None
        if terms.keep_alive_s == connect.keep_alive_s
        else terms.keep_alive_s,
        response_information=_response_information(connect, client_id),
        user_properties=tuple((f"${name}", str(getattr(limits, name))) for name in _SAID),
    )


def _response_information(connect: Connect, client_id: str) -> str | None:
    """A response topic prefix that only this client should subscribe to (4.10.1)."""
    if connect.properties.request_response_information != 1:
        return None
    topic = f"responses/{client_id}/"
    try:
        # The client needs at least one more level below it.
        check_topic(topic + "x")
    except TopicError:
        return None
    return topic


def check_connect(connect: Connect, limits: MqttLimits) -> None:
    """Raise MqttError, with a code of CONNACK, for a CONNECT that cannot be granted."""
    if connect.properties.authentication_method is not None:
        raise MqttError(
            ReasonCode.BAD_AUTHENTICATION_METHOD,
            "no extended authentication here; connect with user name and password [MQTT-4.12.0-1]",
        )
    client_id = connect.client_id
    if not client_id and not connect.clean_start and connect.version != MQTT_5:
        raise MqttError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            "a session that is kept needs a client identifier [MQTT-3.1.3-8 of 3.1.1]",
        )
    most = limits.maximum_client_id_bytes
    if len(client_id.encode()) > most:
        raise MqttError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            f"the client identifier is longer than {most:,} bytes",
        )
    if CONTROL_CHARACTERS.search(client_id):
        raise MqttError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the client identifier has control characters"
        )
    if client_id.startswith(RESERVED_CLIENT_IDS):
        raise MqttError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            f"client identifiers that begin with {RESERVED_CLIENT_IDS} are the broker's own",
        )
    if connect.will is not None:
        _check_will(connect.will, limits)


def read_promises(connect: Connect, limits: MqttLimits) -> tuple[Filter, ...]:
    """The advertisements of an admitted client; MqttError if they cannot be granted."""
    try:
        return read_advertisements(connect.properties.user_properties, limits)
    except FilterQuotaError as error:
        raise MqttError(ReasonCode.QUOTA_EXCEEDED, str(error)) from None
    except ContentFilterError as error:
        raise MqttError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error)) from None


def _check_will(will: WillFields, limits: MqttLimits) -> None:
    levels, most = will.topic.count("/") + 1, limits.maximum_topic_levels
    try:
        check_topic(will.topic)
    except TopicDepthError:
        pass
    except TopicError as error:
        raise malformed(f"will: {error}") from None
    if levels > most:
        raise MqttError(
            ReasonCode.TOPIC_NAME_INVALID,
            f"will: a topic of {levels} levels; at most {most} are accepted",
        )
