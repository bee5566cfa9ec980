"""Limits of a broker for its MQTT clients, with the reason for each bound.

Source: MQTT Version 5.0, section 3.2.2.3, for the limits that a CONNACK announces.
"""

from __future__ import annotations

import msgspec

from shoal.matching.topics.filters import MAX_TOPIC_LEVELS

MICROSECONDS = 1_000_000
# Session expiry interval that means "never" (section 3.1.2.11.2).
NEVER_S = 0xFFFF_FFFF


_LARGE = 2**62
_RANGES = (
    ("maximum_packet_size", 64, 268_435_460),
    ("receive_maximum", 1, 65_535),
    ("topic_alias_maximum", 0, 65_535),
    ("outgoing_topic_aliases", 0, 65_535),
    ("maximum_inflight", 1, 65_535),
    ("maximum_queued_messages", 0, _LARGE),
    ("maximum_queued_bytes", 0, _LARGE),
    ("maximum_user_queued_bytes", 0, _LARGE),
    ("maximum_all_queued_bytes", 1, _LARGE),
    ("maximum_session_expiry_s", 0, NEVER_S),
    ("silent_broker_s", 0, NEVER_S),
    ("maximum_subscriptions", 1, _LARGE),
    ("maximum_subscription_bytes", 1, _LARGE),
    ("maximum_user_subscription_bytes", 1, _LARGE),
    ("maximum_all_subscription_bytes", 1, _LARGE),
    ("maximum_user_replays", 0, _LARGE),
    ("maximum_sessions", 1, _LARGE),
    ("maximum_user_sessions", 1, _LARGE),
    ("maximum_client_id_bytes", 23, 65_535),
    ("maximum_topic_levels", 1, MAX_TOPIC_LEVELS),
    ("maximum_topic_filters", 1, 100_000),
    ("maximum_filter_bytes", 0, 65_536),
    ("maximum_filter_tests", 0, 4_000),
    ("maximum_retained_messages", 0, _LARGE),
    ("maximum_retained_bytes", 0, _LARGE),
    ("server_keep_alive_s", 0, 65_535),
    ("connect_timeout_s", 1, _LARGE),
    ("maximum_connections", 1, _LARGE),
    ("maximum_moves_per_hour", 0, _LARGE),
    ("maximum_messages_per_s", 0, _LARGE),
    ("maximum_bytes_per_s", 0, _LARGE),
    ("maximum_user_messages_per_s", 0, _LARGE),
    ("maximum_user_bytes_per_s", 0, _LARGE),
    ("statistics_interval_s", 0, _LARGE),
)


class MqttLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a broker for its MQTT clients, with the reason code at each limit.

    maximum_packet_size         a packet is held in memory until it is complete (0x95)
    receive_maximum             QoS 2 publications of one client that wait for their PUBREL (0x93);
                                3.1.1 has no receive maximum, its bound are the packet identifiers
    topic_alias_maximum         topic aliases that a client may use (0x94)
    outgoing_topic_aliases      topic aliases that the broker uses, if the client allows it
    maximum_inflight            publications above QoS 0 in flight to one client; its own receive
                                maximum may be lower
    maximum_queued_messages     messages that wait for a client that is offline or slow; beyond it
                                the newest is dropped
    maximum_queued_bytes        the same, in bytes
    maximum_user_queued_bytes   bytes queued for all clients of one user together, counted as below;
                                a client without a user name is a user by itself; beyond it the
                                newest is dropped. The wills of one user may take as much again
                                (0x97)
    maximum_all_queued_bytes    bytes queued for all clients together, each message once for all its
                                receivers; at the bound QoS 0 is dropped, first that of the
                                longest queues; then publications above QoS 0 are refused (0x97), at
                                every broker of the network. All wills may take as much again (0x97)
    maximum_session_expiry_s    the longest session expiry interval; a longer request is replaced by
                                it
    silent_broker_s             a broker that has a session and is silent for so long counts as
                                dead, and the session with it: until then every broker refuses
                                its client (0x88), afterwards the client begins a new session;
                                also one that is connected to a broker that has just started,
                                and has not sent its sessions
    maximum_subscriptions       of one client (0x97)
    maximum_subscription_bytes  approximate memory of the subscriptions of one client: 4,000
                                bytes each, 250 for each level of a topic filter with wildcards,
                                600 for each test of a content filter (0x97)
    maximum_user_subscription_bytes  the same, of all clients of one user together; a client without
                                a user name is a user by itself (0x97)
    maximum_all_subscription_bytes  the same, of all clients (0x97); none of the three limits
                                removes a granted subscription, or one of a transferred session
    maximum_user_replays        subscriptions of one user that get their past from logs at a time
                                (0x97); a client without a user name is a user by itself
    maximum_sessions            of the broker, of connected and offline clients: beyond it only a
                                client that has a session is admitted (0x97)
    maximum_user_sessions       the same, of one user
    maximum_client_id_bytes     of a client identifier; brokers remember those of kept sessions,
                                their own and others' (0x85)
    maximum_topic_levels        of a topic (0x90 in PUBACK, PUBREC and, for a will, in CONNACK), and
                                of a topic filter (0x8F in SUBACK)
    maximum_topic_filters       of one SUBSCRIBE (0x97); the broker grants it in time slices;
                                a CONNACK announces this and the next two as user properties, as
                                `$maximum_filter_bytes`
    maximum_filter_bytes        of the content filters of one SUBSCRIBE, or of the advertisements of
                                a CONNECT, so that no packet blocks the broker for 100 ms (0x97)
    maximum_filter_tests        the same: their tests in normal form, together; 16 values of a list
                                are one, and 64 steps of an expression
    maximum_retained_messages   of the broker; messages beyond it are not retained
    maximum_retained_bytes      the same, in bytes; each level of topics counts as 250, once for a
                                common prefix
    server_keep_alive_s         a longer keep alive than this, or none, is replaced by it in MQTT 5:
                                a client that vanishes is noticed after one and a half times this;
                                0 accepts the client's keep alive
    connect_timeout_s           a connection without a CONNECT is closed after this; a TLS handshake
                                before it may take as long
    maximum_connections         of this broker at once (0x97)
    maximum_moves_per_hour      redirects of one client per hour, over all brokers, by the operator
                                or by a system; a broker that is drained redirects it
                                nevertheless
    maximum_messages_per_s      publications of one client at this broker, in the long run; the
                                token bucket holds one second of it. A client above the rate is read
                                more slowly and stays connected; 0: no limit
    maximum_bytes_per_s         the same, in bytes of PUBLISH packets; a publication of MQTT 5 above
                                QoS 0 that takes more than 10 s of it by itself is refused (0x97)
    maximum_user_messages_per_s  as maximum_messages_per_s, of all clients of one user together;
                                a client without a user name is a user by itself
    maximum_user_bytes_per_s    the same, in bytes
    statistics_interval_s       how often the `$SYS` topics are published; 0: never
    queries_in_topic_filters    `topic?attribute=value` in a topic filter; without, a question mark
                                is an ordinary character
    """

    maximum_packet_size: int = 1_048_576
    receive_maximum: int = 1_024
    topic_alias_maximum: int = 64
    outgoing_topic_aliases: int = 64
    maximum_inflight: int = 1_024
    maximum_queued_messages: int = 10_000
    maximum_queued_bytes: int = 64 * 1_048_576
    maximum_user_queued_bytes: int = 128 * 1_048_576
    maximum_all_queued_bytes: int = 512 * 1_048_576
    maximum_session_expiry_s: int = 7 * 86_400
    silent_broker_s: int = 600
    maximum_subscriptions: int = 100_000
    maximum_subscription_bytes: int = 256 * 1_048_576
    maximum_user_subscription_bytes: int = 512 * 1_048_576
    maximum_all_subscription_bytes: int = 2_048 * 1_048_576
    maximum_user_replays: int = 4
    maximum_sessions: int = 200_000
    maximum_user_sessions: int = 100_000
    maximum_client_id_bytes: int = 1_024
    maximum_topic_levels: int = MAX_TOPIC_LEVELS
    maximum_topic_filters: int = 100_000
    maximum_filter_bytes: int = 4_096
    maximum_filter_tests: int = 1_000
    maximum_retained_messages: int = 1_000_000
    maximum_retained_bytes: int = 512 * 1_048_576
    server_keep_alive_s: int = 60
    connect_timeout_s: int = 10
    maximum_connections: int = 100_000
    maximum_moves_per_hour: int = 20
    maximum_messages_per_s: int = 0
    maximum_bytes_per_s: int = 0
    maximum_user_messages_per_s: int = 0
    maximum_user_bytes_per_s: int = 0
    statistics_interval_s: int = 10
    queries_in_topic_filters: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for a value that MQTT cannot express or a broker cannot keep."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}; it must be between {low} and {high}")


DEFAULT_LIMITS = MqttLimits()
