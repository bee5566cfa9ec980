"""From `[underlay]` to latencies between brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.experiments.networks.underlays import build_underlay
from shoal.experiments.run_files import BrokerRow, RunFileError
from shoal.experiments.scenarios.scenario import ConstantSection, GeographySection, Matrix
from shoal.simulation.links.underlay import UnderlayError

BROKERS = [
    BrokerRow(broker="JFK", latitude=40.63975, longitude=-73.77893),
    BrokerRow(broker="LAX", latitude=33.94254, longitude=-118.40807),
]


def test_each_kind_of_underlay_is_made(tmp_path: Path) -> None:
    constant = build_underlay(ConstantSection(latency_us=3_000), BROKERS, seed=1)
    assert constant.latency_us("JFK", "LAX") == 3_000
    geography = build_underlay(GeographySection(hop_cost_us=0), BROKERS, seed=1)
    assert geography.latency_us("JFK", "LAX") == pytest.approx(19_883, rel=0.003)
    path = tmp_path / "rtt.csv"
    path.write_text("src,dst,rtt_ms\n1,2,8.0\n")
    matrix = build_underlay(Matrix(path=str(path), local_latency_us=7), BROKERS, seed=1)
    assert matrix.latency_us("JFK", "LAX") == 4_000
    assert matrix.latency_us("JFK", "JFK") == 7


def test_missing_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnderlayError, match="broker 'X' has no coordinates; use"):
        build_underlay(GeographySection(), [BrokerRow(broker="X")], seed=1)
    with pytest.raises(RunFileError, match="no such table"):
        build_underlay(Matrix(path=str(tmp_path / "rtt.parquet")), BROKERS, seed=1)
    path = tmp_path / "rtt.csv"
    path.write_text("src,dst,ms\n1,2,8.0\n")
    with pytest.raises(RunFileError, match="column 'rtt_ms' is missing; found: src, dst, ms"):
        build_underlay(Matrix(path=str(path)), BROKERS, seed=1)
