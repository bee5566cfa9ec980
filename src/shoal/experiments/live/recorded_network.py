"""Writes tables about a shoal network beside its recorded publications.

| table | columns | reader |
| --- | --- | --- |
| subscriptions.parquet | id, filter, broker, client | `shoal workload --subscriptions` |
| brokers.parquet | broker, service_us | `shoal workload --brokers` |
| clients.parquet | client, user, broker, subscriptions, published | people |
| round_trips.csv | from, to, ms | `shoal plan --rtt`, `underlay.path` of a scenario |

A broker's `service_us` is the mean time since its start in which it matches and routes a
publication, without codecs and sockets; null before the first publication.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.experiments.live.recording import recorded_filter
from shoal.language import FilterSyntaxError
from shoal.model import BrokerId

SUBSCRIPTIONS = "subscriptions.parquet"
BROKERS = "brokers.parquet"
CLIENTS = "clients.parquet"
ROUND_TRIPS = "round_trips.csv"

_CLIENTS = pa.schema([
    ("client", pa.string()), ("user", pa.string()), ("broker", pa.string()),
    ("subscriptions", pa.int64()), ("published", pa.int64()),
])  # fmt: skip


class NetworkReport(NamedTuple):
    """Answers of a network's brokers.

    service_us      mean time to match and route a publication, by broker
    clients         rows of /clients, each with its broker
    subscriptions   rows of /subscriptions, each with its broker
    round_trips_us  measurements to other brokers, by broker
    """

    service_us: Mapping[BrokerId, float | None]
    clients: Sequence[Mapping[str, Any]]
    subscriptions: Sequence[Mapping[str, Any]]
    round_trips_us: Mapping[BrokerId, Mapping[BrokerId, int]]


class WrittenNetwork(NamedTuple):
    """Number of written subscriptions; a sentence for each subscription and round trip that the
    tables lack.
    """

    subscriptions: int
    left_out: list[str]


def write_network(folder: Path, report: NetworkReport) -> WrittenNetwork:
    """Write the four tables into a folder; a network of one broker has no round trips."""
    brokers = [*report.service_us]
    service_us = pa.array(report.service_us.values(), pa.float64())
    pq.write_table(
        pa.table({"broker": pa.array(brokers, pa.string()), "service_us": service_us}),
        folder / BROKERS,
    )
    pq.write_table(pa.Table.from_pylist([*report.clients], _CLIENTS), folder / CLIENTS)
    found, left_out = _write_subscriptions(folder, report.subscriptions)
    if len(brokers) > 1:
        left_out += _write_round_trips(folder, brokers, report.round_trips_us)
    return WrittenNetwork(found, left_out)


def _write_subscriptions(folder: Path, rows: Iterable[Mapping[str, Any]]) -> WrittenNetwork:
    """Subscriptions that ask for the same at one broker for one client are one.

    A granted filter may be larger, written out, than the limit for reading it: it is left out.
    """
    found: dict[tuple[str, str, str], str] = {}
    left_out = []
    for row in rows:
        try:
            text = recorded_filter(row["filter"])
        except FilterSyntaxError as error:
            what = f"{row['client']}'s to {row['topic_filter']}: {error.message}"
            left_out.append(f"a subscription is left out, {what}")
            continue
        key = row["broker"], row["client"], text
        found.setdefault(key, f"{row['client']}/{sum(k[1] == row['client'] for k in found)}")
    columns = {
        "id": list(found.values()),
        "filter": [text for _, _, text in found],
        "broker": [broker for broker, _, _ in found],
        "client": [client for _, client, _ in found],
    }
    schema = pa.schema([(name, pa.string()) for name in columns])
    pq.write_table(pa.table(columns, schema=schema), folder / SUBSCRIPTIONS)
    return WrittenNetwork(len(found), left_out)


def _write_round_trips(
    folder: Path, brokers: list[BrokerId], measured_us: Mapping[BrokerId, Mapping[BrokerId, int]]
) -> list[str]:
    """Write one row for two brokers, and return a sentence for each two without a measurement.

    Of both brokers' measurements the smaller counts: messages that wait make one longer.
    """
    rows: list[tuple[BrokerId, BrokerId, float]] = []
    missing = []
    for one, other in combinations(brokers, 2):
        directions = ((one, other), (other, one))
        found = [us for here, to in directions if (us := measured_us.get(here, {}).get(to))]
        if found:
            rows.append((one, other, min(found) / 1000))
        else:
            missing.append(f"the round trip between {one} and {other} is not known")
    with (folder / ROUND_TRIPS).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("from", "to", "ms"), *rows])
    return missing
