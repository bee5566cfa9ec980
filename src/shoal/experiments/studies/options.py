"""Options and data that several studies have; one name means one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

Flights: TypeAlias = Annotated[bool, msgspec.Meta(description="Run on the flights of 2013, too.")]
RoundTrips: TypeAlias = Annotated[
    Path | None,
    msgspec.Meta(
        description="Measured round trips (src, dst, rtt_ms); without, latency is geography."
    ),
]

# The numbers of the flights that tell them apart.
FLIGHT_ATTRIBUTES = ("dep_delay", "arr_delay", "distance", "air_time")
