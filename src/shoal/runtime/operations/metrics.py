"""A broker's figures for Prometheus, read when they are asked for, under standard names and units.

>>> [family.name for family in Metrics(dict).collect()][:2]
['shoal_broker', 'shoal_broker_uptime_seconds']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shoal.overlays.registry import SYSTEMS
from shoal.overlays.trace_rows import SHARED_RECORDS
from shoal.runtime.traffic.latency import BUCKETS, ELSEWHERE, HERE

# Refusals between brokers or of clients' libraries are apart from refusals of clients.
_TABLES = {"refusals": "protocol_refusals"}
# Name and help of counters, by the key in a node's counts.
_COUNTERS = {
    "publications_in": ("shoal_publications_received", "Publications handled by this broker."),
    "deliveries": ("shoal_deliveries", "Deliveries to clients of this broker."),
    "messages_out": ("shoal_messages_sent", "Messages sent to neighbours."),
    "unwritable": ("shoal_messages_lost", "Messages that could not be written."),
}
_LINKS = {
    "buffered_bytes": ("shoal_link_buffered_bytes", "Sent and not yet handled by the neighbour."),
    "spooled_bytes": (
        "shoal_link_spooled_bytes",
        "On disk for the neighbour while it is disconnected.",
    ),
    "congested_seconds": ("shoal_link_congested_seconds", "For how long it has been congested."),
    "delay_seconds": ("shoal_link_delay_seconds", "How long a message takes to the neighbour."),
    "up": ("shoal_link_up", "1 while the link is connected."),
    "quarantined": (
        "shoal_link_quarantined",
        "1 while the neighbour counts as away, as its connections were refused again and again.",
    ),
}
_MQTT = {
    "connected": ("shoal_mqtt_connections", "MQTT clients that are connected."),
    "sessions": ("shoal_mqtt_sessions", "MQTT sessions, of clients here and away."),
    "subscriptions": ("shoal_mqtt_subscriptions", "Subscriptions of MQTT clients."),
    "retained": ("shoal_mqtt_retained_messages", "Retained messages."),
    "subscription_bytes": (
        "shoal_mqtt_subscription_bytes",
        "Memory of the subscriptions of all MQTT clients, about.",
    ),
    "queued_bytes": ("shoal_mqtt_queued_bytes", "On the way to all MQTT clients."),
    "queues_are_full": ("shoal_mqtt_queues_full", "1 while QoS 1 and 2 are refused for that."),
}
_MQTT_COUNTERS = {
    "dropped": ("shoal_mqtt_dropped", "Deliveries that queues had no room for."),
    "refused": ("shoal_mqtt_refused", "Publications of MQTT clients that were refused."),
    "unread_payloads": (
        "shoal_mqtt_unread_payloads",
        "Payloads that look like JSON, or are declared so, and could not be read.",
    ),
    "superseded": ("shoal_mqtt_superseded", "Messages that `$every` replaced by a newer one."),
    "suppressed": ("shoal_mqtt_suppressed", "Messages that `$changed` found unchanged."),
    "forgotten_keys": (
        "shoal_mqtt_forgotten_keys",
        "Keys of `$every` and `$changed` that made room for others: one more delivery each.",
    ),
    "slowed": ("shoal_mqtt_slowed", "Times that clients above their rates were made to wait."),
}
_TABLE_SIZES = {
    "entries": ("shoal_memory_entries", "Entries of a cache or table of the memory ledger."),
    "bytes": ("shoal_memory_bytes", "Their memory, about."),
    "most_entries": ("shoal_memory_maximum_entries", "How many there may be."),
    "most_bytes": ("shoal_memory_maximum_bytes", "Their limit."),
}
_USERS = {
    "queued_bytes": (
        "shoal_user_queued_bytes",
        "On the way to all clients of a user, of the 10 users with the most memory.",
    ),
    "subscription_bytes": (
        "shoal_user_subscription_bytes",
        "Memory of the subscriptions of a user, of the same users.",
    ),
}
_RETAINED_BYTES = (
    "shoal_client_retained_bytes",
    "Memory of a client's retained messages, of the 10 clients with the most; its user, if its "
    "session is at this broker.",
)
_JOURNAL = {
    "bytes": ("shoal_journal_bytes", "The journal's files."),
    "free_bytes": ("shoal_disk_free_bytes", "Free space on the disk of the broker's folder."),
    "is_failing": ("shoal_journal_failing", "1 while the journal cannot be written."),
}
_LOG = {
    "bytes": ("shoal_log_bytes", "The log's segments."),
    "first": ("shoal_log_first_offset", "The offset of the oldest record of the log."),
    "next": ("shoal_log_next_offset", "The offset of the log's next record."),
    "is_failing": ("shoal_log_failing", "1 while the log cannot be written."),
    "missing": ("shoal_log_missing", "Publications that the log lacks since it cannot be written."),
}


class Metrics(Collector):
    """Turns a broker's figures into metrics; `status` is asked for them on every scrape."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        who = {"broker": str(status.get("broker", "")), "system": str(status.get("system", ""))}
        yield InfoMetricFamily("shoal_broker", "Which broker this is.", value=who)
        yield GaugeMetricFamily(
            "shoal_broker_uptime_seconds", "Since the start.", value=status.get("uptime_s", 0)
        )
        ready = float(status.get("ready", False))
        yield GaugeMetricFamily("shoal_ready", "1 while the broker takes new clients.", value=ready)
        raised = status.get("exceptions", {}).get("count", 0)
        yield CounterMetricFamily("shoal_exceptions", "Exceptions nothing has caught.", raised)
        counts = status.get("counts", {})
        for key, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=counts.get(key, 0))
        yield from _record_metrics(who["system"], counts)
        yield _proposals(counts)
        for key, value in status.get("tables", {}).items():
            yield GaugeMetricFamily(f"shoal_routing_{key}", f"Rows: {key}.", value=value)
        mqtt = status.get("mqtt") or {}
        for key, (name, text) in _MQTT.items():
            yield GaugeMetricFamily(name, text, value=float(mqtt.get(key, 0)))
        for key, (name, text) in _MQTT_COUNTERS.items():
            yield CounterMetricFamily(name, text, value=mqtt.get(key, 0))
        yield _refusals(mqtt.get("refusals", ()))
        yield from _move_metrics(status.get("clients") or {})
        journal = status.get("journal")
        if journal:
            for key, (name, text) in _JOURNAL.items():
                yield GaugeMetricFamily(name, text, value=float(journal[key]))
        if log := status.get("log"):
            yield from _log_metrics(log)
        yield from _memory_metrics(status.get("memory") or {})
        yield from _latency_metrics(status.get("latency") or {})
        yield _certificate_metric(status.get("certificates", ()))
        yield from _link_metrics(status.get("links", ()))


def _log_metrics(log: Mapping[str, Any]) -> Iterator[Metric]:
    """Make metrics of the log, and of how far each named reader is behind."""
    for key, (name, text) in _LOG.items():
        yield GaugeMetricFamily(name, text, value=float(log[key]))
    behind = GaugeMetricFamily(
        "shoal_log_reader_behind",
        "Records that a named reader has not done with.",
        labels=["reader"],
    )
    for row in log["readers"]:
        behind.add_metric([row["name"]], row["behind"])
    yield behind


def _memory_metrics(memory: Mapping[str, Any]) -> Iterator[Metric]:
    """Make metrics of the memory ledger, and of the users that take the most."""
    for key, (name, text) in _TABLE_SIZES.items():
        family = GaugeMetricFamily(name, text, labels=["table"])
        for row in memory.get("tables", ()):
            if row[key] is not None:
                family.add_metric([row["name"]], row[key])
        yield family
    name, text = _RETAINED_BYTES
    family = GaugeMetricFamily(name, text, labels=["client", "user"])
    for row in memory.get("publishers", ()):
        family.add_metric([row["client"], row["user"]], row["retained_bytes"])
    yield family
    for key, (name, text) in _USERS.items():
        family = GaugeMetricFamily(name, text, labels=["user"])
        for row in memory.get("users", ()):
            family.add_metric([row["user"]], row[key])
        yield family


def _record_metrics(system: str, counts: Mapping[str, int]) -> Iterator[Metric]:
    """Make metrics of records of this system's brokers, and of records of every system."""
    own = SYSTEMS[system].records if system in SYSTEMS else {}
    for table, row in {**own, **SHARED_RECORDS}.items():
        text = (row.__doc__ or "").partition("\n")[0]
        name = f"shoal_{_TABLES.get(table, table)}"
        yield CounterMetricFamily(name, text, value=counts.get(row.__name__, 0))


def _refusals(rows: Iterable[Mapping[str, Any]]) -> CounterMetricFamily:
    """Make metrics of refusals to clients."""
    family = CounterMetricFamily(
        "shoal_refusals", "Refused requests of clients, by reason.", labels=["what", "reason"]
    )
    for row in rows:
        family.add_metric([row["what"], row["reason"]], row["count"])
    return family


def _proposals(counts: Mapping[str, int]) -> CounterMetricFamily:
    """Make metrics of proposed links, by outcome."""
    family = CounterMetricFamily(
        "shoal_link_proposals", "Outcomes of proposed links here.", labels=["outcome"]
    )
    for key, count in counts.items():
        what, _, outcome = key.partition(" ")
        if what == "proposals":
            family.add_metric([outcome], count)
    return family


def _move_metrics(clients: Mapping[str, Any]) -> Iterator[Metric]:
    """Clients that are sent to other brokers."""
    draining = float(clients.get("is_draining", False))
    yield GaugeMetricFamily("shoal_draining", "1 while it takes no clients in.", value=draining)
    moves = CounterMetricFamily(
        "shoal_client_moves", "Outcomes of redirected clients.", labels=["outcome"]
    )
    for outcome, count in clients.get("moves", {}).items():
        moves.add_metric([outcome], count)
    yield moves


def _latency_metrics(latency: Mapping[str, Any]) -> Iterator[Metric]:
    """Return how long deliveries take, by where they were published: one clock, or two machines'
    ones.
    """
    family = HistogramMetricFamily(
        "shoal_delivery_seconds",
        "From coming in at the first broker to being written to clients, by samples; published "
        "elsewhere: by two machines' clocks.",
        labels=["published"],
    )
    for where in (HERE, ELSEWHERE):
        if found := latency.get(where):
            ends = [*map(str, BUCKETS), "+Inf"]
            buckets = list(zip(ends, map(float, found["buckets"]), strict=True))
            family.add_metric([where], buckets, found["sum_s"])
    yield family
    yield CounterMetricFamily(
        "shoal_delivery_ahead",
        "Sampled deliveries that came before they were published: clocks differ.",
        value=latency.get("ahead", 0),
    )


def _certificate_metric(rows: Iterable[Mapping[str, Any]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "shoal_certificate_ends_timestamp_seconds",
        "When a certificate ends that is in use, since 1970.",
        labels=["use", "file"],
    )
    for row in rows:
        family.add_metric([row["use"], row["file"]], row["ends_s"])
    return family


def _link_metrics(links: Any) -> Iterator[Metric]:
    for key, (name, text) in _LINKS.items():
        family = GaugeMetricFamily(name, text, labels=["neighbour"])
        for link in links:
            values = {
                "buffered_bytes": link["buffered_bytes"],
                "spooled_bytes": link["spooled_bytes"],
                "congested_seconds": link.get("congested_us", 0) / 1e6,
                "delay_seconds": (link["delay_us"] or 0) / 1e6,
                "up": float(link["state"] == "up"),
                "quarantined": float(bool(link.get("quarantined"))),
            }
            family.add_metric([link["neighbour"]], values[key])
        yield family
    for key, name in (("bytes_in", "received"), ("bytes_out", "sent")):
        counter = CounterMetricFamily(
            f"shoal_link_{name}_bytes", f"Bytes {name} on the link.", labels=["neighbour"]
        )
        for link in links:
            counter.add_metric([link["neighbour"]], link[key])
        yield counter


def render(status: Callable[[], Mapping[str, Any]]) -> bytes:
    """The metrics as Prometheus reads them, those that every process has among them."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(Metrics(status))
    return generate_latest(registry)
