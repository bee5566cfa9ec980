"""The page of metrics, from a broker's status."""

from __future__ import annotations

from collections import Counter
from typing import Any

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from shoal.broker.machine import Broker
from shoal.client.bridges.metrics import BridgeMetrics, BridgeTally
from shoal.overlays.registry import strategy_factory
from shoal.runtime.operations.metrics import Metrics
from shoal.runtime.traffic.latency import Latencies
from tools.reference.texts import cell

# An example of each row with labels, as a broker's status has it.
_STATUS: dict[str, Any] = {
    "counts": Counter({"proposals OUTCOME": 1}),
    "clients": {"moves": {"OUTCOME": 1}},
    "mqtt": {"refusals": [{"what": "WHAT", "reason": "REASON", "count": 1}]},
    "certificates": [{"use": "USE", "file": "FILE", "ends_s": 0.0}],
    "latency": Latencies().status(now_us=0),
    "journal": {"bytes": 0, "free_bytes": 0, "is_failing": False},
    "links": [
        {
            "neighbour": "B2", "state": "up", "buffered_bytes": 0, "spooled_bytes": 0,
            "delay_us": 0, "bytes_in": 0, "bytes_out": 0,
        }
    ],
}  # fmt: skip


def metric_page(systems: list[str]) -> list[str]:
    """Every metric: its name, type, labels and meaning."""
    lines = [
        "# Metrics",
        "",
        "A broker answers `GET /metrics` at its admin port, as Prometheus reads it. Times are in",
        "seconds, sizes in bytes. Counters begin at 0 when a broker starts.",
        "",
        "| metric | type | labels | |",
        "| --- | --- | --- | --- |",
    ]
    lines += [_row(family) for family in Metrics(lambda: _STATUS).collect()]
    lines += [_row(family) for family in process_metrics()]
    lines += [
        "",
        "## Counters of a system",
        "",
        "What brokers of some systems write down.",
        "",
        "| metric | systems | |",
        "| --- | --- | --- |",
    ]
    everywhere = {family.name for family in Metrics(lambda: _STATUS).collect()}
    counters: dict[str, tuple[str, list[str]]] = {}
    for name in systems:
        for family in Metrics(lambda system=name: _STATUS | {"system": system}).collect():  # type: ignore[misc]
            if family.name not in everywhere:
                counters.setdefault(family.name, (family.documentation, []))[1].append(name)
    lines += [
        f"| `{counter}_total` | {_listed(names)} | {cell(text)} |"
        for counter, (text, names) in counters.items()
    ]
    lines += [
        "",
        "## Tables of a system",
        "",
        "How many rows a broker's tables have; which there are depends on its system.",
        "",
        "| metric | systems |",
        "| --- | --- |",
    ]
    having: dict[str, list[str]] = {}
    for name in systems:
        broker = Broker("B1", (), strategy_factory(name, None, ["B1"]))
        for table in broker.description:
            having.setdefault(table, []).append(name)
    lines += [f"| `shoal_routing_{table}` | {_listed(names)} |" for table, names in having.items()]
    tally = BridgeTally()
    for flow in tally.flows.values():
        flow.left["REASON"] += 1
    lines += [
        "",
        "## A bridge",
        "",
        "`shoal bridge --metrics HOST:PORT` answers with these.",
        "",
        "| metric | type | labels | |",
        "| --- | --- | --- | --- |",
    ]
    lines += [_row(family) for family in BridgeMetrics("", tally).collect()]
    return lines


def process_metrics() -> list[Metric]:
    """Metrics of every process, on Linux."""
    return list(ProcessCollector(registry=None).collect())


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(family: Metric) -> str:
    labels = sorted({label for sample in family.samples for label in sample.labels})
    name = family.name + ("_total" if family.type == "counter" else "")
    name += "_info" if family.type == "info" else ""
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}` | {family.type} | {shown} | {cell(family.documentation)} |"
