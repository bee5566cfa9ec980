"""shoal in a Spark session: publications and subscriptions as DataFrames, and a network's logs.

    import shoal.spark

    shoal.spark.prepare(spark)
    flights = (
        spark.readStream.format("shoal")
        .option("network", "network.toml")
        .option("topics", "flights/#")
        .option("attributes", "dep_delay DOUBLE, carrier STRING")
        .load()
    )
    shoal.spark.match(flights, "lake.subscriptions").writeStream.toTable("lake.alerts")

| function | gives |
| --- | --- |
| `prepare` | the session, with the settings that results depend on, and the data source `shoal` |
| `read`, `write` | a table at a path, a URI or in the catalog |
| `ingest` | publications and rejects of any table or files, by a mapping |
| `workload`, `truth` | an experiment's tables, and its expected deliveries |
| `match` | the pairs that match, of tables and streams |
| `explain` | for each pair that does not match, the reason |
| `profile` | selectivity of filters, matches of publications, attributes that are there |
| `summarise`, `compare` | figures of runs, and their differences |

Functions take a DataFrame, or the place of one, wherever they read a table, and they give
DataFrames, which Spark computes when they are used. Needs PySpark 4.2 or later.

Names are imported at first use: a worker that reads logs needs `Source` alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.spark.evaluation import (
        Summary,
        Workload,
        WorkloadOptions,
        compare,
        summarise,
        truth,
        workload,
    )
    from shoal.spark.ingesting import Ingested, ingest
    from shoal.spark.pairs import explain, match
    from shoal.spark.places import SettingError, prepare, read, write
    from shoal.spark.profiling import FilterProfile, profile
    from shoal.spark.source import Source

__all__ = [
    "FilterProfile",
    "Ingested",
    "SettingError",
    "Source",
    "Summary",
    "Workload",
    "WorkloadOptions",
    "compare",
    "explain",
    "ingest",
    "match",
    "prepare",
    "profile",
    "read",
    "summarise",
    "truth",
    "workload",
    "write",
]

_MODULES = {
    "evaluation": (
        *("Summary", "Workload", "WorkloadOptions"),
        *("compare", "summarise", "truth", "workload"),
    ),
    "ingesting": ("Ingested", "ingest"),
    "pairs": ("explain", "match"),
    "places": ("SettingError", "prepare", "read", "write"),
    "profiling": ("FilterProfile", "profile"),
    "source": ("Source",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"shoal.spark.{module}"), name)
    raise AttributeError(f"module 'shoal.spark' has no attribute {name!r}")
