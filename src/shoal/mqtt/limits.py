"""What one broker grants its MQTT clients: every bound with its reason.

Source: MQTT Version 5.0, section 3.2.2.3, for those that a CONNACK tells the client.
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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker grants its MQTT clients; what is reached is answered with the reason code
    named here.

    maximum_packet_size         a packet is held in memory until it is complete (0x95)
    receive_maximum             QoS 2 publications of one client that wait for their PUBREL (0x93);
                                of 3.1.1, which has no word for it, as many as there are identifiers
    topic_alias_maximum         topics that a client may shorten to a number (0x94)
    outgoing_topic_aliases      topics that the broker shortens, where a client allows it
    maximum_inflight            publications above QoS 0 on their way to one client; its own receive
                                maximum may be lower
    maximum_queued_messages     so many wait for a client that is away or slow; beyond it the newest
                                is dropped
    maximum_queued_bytes        the same, in bytes
    maximum_user_queued_bytes   on the way to all clients of one user together, counted as below;
                                whoever has no name is a user by itself; beyond it the newest is
                                dropped.  The wills of one user may take as much again (0x97)
    maximum_all_queued_bytes    on the way to all clients together, each message once however many
                                wait for it; at the bound QoS 0 is dropped, of those who have most
                                waiting; then publications above QoS 0 are refused (0x97), at every
                                broker of the network.  All wills may take as much again (0x97)
    maximum_session_expiry_s    so long a session is kept without its client; whoever asks for more
                                gets this
    silent_broker_s             a broker that has a session and does not answer for so long counts
                                as gone, and the session with it: its client, refused (0x88) until
                                then wherever it asks, begins anew
    maximum_subscriptions       of one client (0x97)
    maximum_subscription_bytes  what the subscriptions of one client take in memory, about: 4,000
                                bytes each, 250 for each level of a topic filter with wildcards,
                                600 for each test of a content filter (0x97)
    maximum_user_subscription_bytes  the same, of all clients of one user together; whoever has no
                                name is a user by itself (0x97)
    maximum_all_subscription_bytes  the same, of all clients (0x97); at any of the three nobody
                                loses what is granted, nor does who comes from another broker
    maximum_sessions            of the broker, whether their clients are connected or away: beyond
                                it only who has one is let in (0x97)
    maximum_user_sessions       the same, of one user
    maximum_client_id_bytes     of a client identifier; brokers remember those of kept sessions,
                                their own and others' (0x85)
    maximum_topic_levels        of a topic (0x90 in PUBACK, PUBREC and, for a will, in CONNACK), and
                                of a topic filter (0x8F in SUBACK)
    maximum_topic_filters       of one SUBSCRIBE (0x97), which is granted bit by bit, so that others
                                have their turn; a CONNACK names this and the next two as user
                                properties, as `$maximum_filter_bytes`
    maximum_filter_bytes        of the content filters of one SUBSCRIBE, or of those that a CONNECT
                                advertises, so that no packet holds the broker up for 100 ms (0x97)
    maximum_filter_tests        the same: their tests in normal form, together; 16 values of a list
                                are one
    maximum_retained_messages   of the broker; what is published beyond it is not retained
    maximum_retained_bytes      the same, in bytes; each level of topics counts as 250, once where
                                topics begin alike
    server_keep_alive_s         a longer keep alive than this, or none, is replaced by it in MQTT 5:
                                whoever vanishes without a word is noticed after one and a half
                                times as long; 0 takes what the client says
    connect_timeout_s           whoever connects and says nothing is let go after this; as long may
                                a TLS handshake take before that
    maximum_connections         of this broker at once (0x97)
    maximum_moves_per_hour      how often a client may be sent to another broker, at whichever
                                brokers it was, by the operator or by a system; a broker that is
                                drained sends it on all the same
    maximum_messages_per_s      publications of one client at this broker, in the long run; the
                                bucket holds one second of it.  A client above it is read more
                                slowly and stays connected; 0: no limit
    maximum_bytes_per_s         the same, in bytes of PUBLISH packets; MQTT 5 is refused one that
                                takes more than 10 s of it by itself, above QoS 0 (0x97)
    maximum_user_messages_per_s  as maximum_messages_per_s, of all clients of one user together;
                                a client without a user name is a user by itself
    maximum_user_bytes_per_s    the same, in bytes
    statistics_interval_s       how often the `$SYS` topics are published; 0: never
    queries_in_topic_filters    `topic?attribute=value` in a topic filter; without, a question mark
                                is like any character
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
        """ValueError for what MQTT cannot say, or no broker can keep to."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}; it must be between {low} and {high}")


DEFAULT_LIMITS = Limits()
