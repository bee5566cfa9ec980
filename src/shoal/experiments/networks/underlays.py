"""From a scenario's `[underlay]` to latencies between the brokers' places.

A broker is its own place, and clients stand where a broker is: a subscriber with the broker it
subscribes at, a publisher with its first broker, wherever it connects later.

>>> from shoal.experiments.scenarios.scenario import ConstantSection
>>> build_underlay(ConstantSection(latency_us=7_000), [BrokerRow(broker="A")],
...     seed=1).latency_us("A", "B")
7000
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shoal.experiments.run_files import BrokerRow, read_columns
from shoal.experiments.scenarios import scenario
from shoal.model import BrokerId
from shoal.simulation.links.underlay import (
    ConstantUnderlay,
    Coordinates,
    GeographicUnderlay,
    MatrixUnderlay,
    Underlay,
    UnderlayError,
)

MATRIX_COLUMNS = ("src", "dst", "rtt_ms")
# In files of `shoal plan` and `shoal record`.
RTT_COLUMNS = ("from", "to", "ms")


def build_underlay(section: scenario.Underlay, brokers: Sequence[BrokerRow], seed: int) -> Underlay:
    """Return the underlay with the brokers as places; UnderlayError or RunFileError gives the
    reason why not.
    """
    match section:
        case scenario.ConstantSection():
            return ConstantUnderlay(section.latency_us, local_latency_us=section.local_latency_us)
        case scenario.GeographySection():
            return GeographicUnderlay(
                coordinates(brokers),
                hop_cost_us=section.hop_cost_us,
                local_latency_us=section.local_latency_us,
            )
        case scenario.Matrix():
            path = Path(section.path)
            sources, targets, rtt_ms = read_columns(
                path, MATRIX_COLUMNS, RTT_COLUMNS, numbers=(MATRIX_COLUMNS[-1], RTT_COLUMNS[-1])
            )
            return MatrixUnderlay(
                sources,
                targets,
                rtt_ms,
                places=[row.broker for row in brokers],
                seed=seed,
                fill_missing=section.fill_missing,
                local_latency_us=section.local_latency_us,
            )


def check_matrix(path: Path, brokers: int) -> None:
    """Read measured round trips once, before hours of work depend on them; raises as above."""
    rows = [BrokerRow(broker=f"B{number}") for number in range(brokers)]
    build_underlay(scenario.Matrix(path=str(path)), rows, seed=1)


def coordinates(brokers: Sequence[BrokerRow]) -> dict[BrokerId, Coordinates]:
    """Return the brokers' coordinates; UnderlayError names one that the workload has no place
    for.
    """
    found = {}
    for row in brokers:
        if row.latitude is None or row.longitude is None:
            raise UnderlayError(
                f"broker {row.broker!r} has no coordinates; use brokers that have them, or "
                'underlay.kind = "constant" or "matrix"'
            )
        found[row.broker] = (row.latitude, row.longitude)
    return found
