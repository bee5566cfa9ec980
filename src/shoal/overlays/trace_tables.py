"""The tables of a trace, declared once: Arrow's and Spark's schemas follow from their rows.

Live brokers and the simulator write these tables, and the pipeline reads them. The import loads all
systems; code that needs rows only imports `trace_rows`.

>>> TRACE_TABLES["migrations"]["path_hops"], TRACE_TABLES["selections"]["delay_now_us"]
('integer', 'double')
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.overlays.registry import SYSTEMS
from shoal.overlays.trace_rows import SHARED_RECORDS, SHARED_TABLES, Columns, columns_of

# Rows that brokers and publishers write by `Record` effects.
RECORDS: Mapping[str, type[msgspec.Struct]] = {
    **{name: row for system in SYSTEMS.values() for name, row in system.records.items()},
    **SHARED_RECORDS,
}

_ROWS: Mapping[str, type[msgspec.Struct]] = {**SHARED_TABLES, **RECORDS}
TRACE_TABLES: Mapping[str, Columns] = {name: columns_of(row) for name, row in _ROWS.items()}
