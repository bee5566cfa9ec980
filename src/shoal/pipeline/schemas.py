"""Every table of the pipeline, declared once; those of traces in `shoal.overlays.trace_tables`.

A table is a Parquet file or a folder of part files.  `publications` and `events` have one more
column than listed here: `attributes`, a struct with a field per attribute of the source, typed
string, bigint, double or boolean; null there means that the publication lacks the attribute.
Times are integer microseconds: `time_us` since 1970 UTC, all others in virtual time from 0.

>>> REJECTS.simpleString()
'struct<file:string,line:bigint,reason:string,text:string>'
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from shoal.overlays.trace_tables import TRACE_TABLES

# A row that was refused is kept for reading, not for loading again.
REJECTED_TEXT_CHARACTERS = 500

PUBLICATION_KEY = ("publisher", "sequence")
ATTRIBUTES = "attributes"


_TYPES = {"string": StringType(), "bigint": LongType(), "double": DoubleType()}


_WORDS = {"text": "string", "integer": "bigint", "double": "double"}


def _table(columns: str) -> StructType:
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split()
        schema = schema.add(name, _TYPES[kind])
    return schema


PUBLICATION_COLUMNS = _table("publisher string, sequence bigint, time_us bigint")
REJECTS = _table("file string, line bigint, reason string, text string")
REPEATS = _table("file string, line bigint, first_file string, first_line bigint, text string")

BROKERS = _table("broker string, latitude double, longitude double, name string, rank bigint")
PUBLISHERS = _table(
    "publisher string, advertisement_id string, advertisement string, broker string, "
    "latitude double, longitude double"
)
SUBSCRIPTIONS = _table(
    "subscription string, client string, broker string, publisher string, rate_class string, "
    "aimed_selectivity double, measured_selectivity double, filter string"
)
# Of subscriptions that come and go, in the replay's time; null is from the beginning, to the end.
COMING_AND_GOING = _table(
    ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SUBSCRIPTIONS)
    + ", from_us bigint, to_us bigint"
)
# Of a user's own subscriptions, with the texts of `$every` and `$changed`, or null.
OWN_SUBSCRIPTIONS = _table(
    ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in COMING_AND_GOING)
    + ", every string, changed string"
)
TRUTH = _table("publisher string, sequence bigint, subscription string")

# Of a summary.
RUN_METRICS = _table(
    "run string, system string, brokers bigint, subscriptions bigint, publishers bigint, "
    "publications bigint, expected bigint, delivered bigint, lost bigint, duplicated bigint, "
    "phantom bigint, message_rate_per_s double, output_rate_per_s double, "
    "input_utilisation double, output_utilisation double, message_overhead double, "
    "messages bigint, control_messages bigint, control_bytes bigint, set_up_messages bigint, "
    "whole_overhead double, transfers bigint, least_transfers bigint, "
    "settled_message_rate_per_s double, delay_mean_us double, delay_p50_us double, "
    "delay_p99_us double, hops_mean double, settled_delay_mean_us double, "
    "settled_hops_mean double, migrations bigint, publisher_wait_mean_us double, "
    "selection_time_mean_us double, subscriber_moves bigint, weight_mean double, spared bigint"
)
BROKER_METRICS = _table(
    "run string, broker string, message_rate_per_s double, output_rate_per_s double, "
    "input_utilisation double, output_utilisation double"
)
TIMELINE = _table(
    "run string, window_start_us bigint, message_rate_per_s double, delay_mean_us double, "
    "deliveries bigint"
)
COSTS = _table("run string, phase string, kind string, messages bigint, bytes bigint")
MOVES = _table(
    "run string, publisher string, first_broker string, last_broker string, moves bigint, "
    "waited_us bigint"
)

# Of traces, declared where they are written.
TRACES = {
    name: _table(", ".join(f"{column} {_WORDS[kind]}" for column, kind in columns.items()))
    for name, columns in TRACE_TABLES.items()
}


def arrow_schema(table: StructType) -> Any:
    """The same table as Arrow has it."""
    return to_arrow_schema(table)
