"""Latencies between places: known distances, measured matrices, and unknown places."""

from __future__ import annotations

import math

import pytest

from shoal.simulation.links.underlay import (
    FIBRE_KM_PER_US,
    ConstantUnderlay,
    GeographicUnderlay,
    MatrixUnderlay,
    UnderlayError,
    great_circle_km,
)

AIRPORTS = {
    "JFK": (40.63975, -73.77893),
    "LAX": (33.94254, -118.40807),
    "EWR": (40.6925, -74.168667),
    "HNL": (21.31869, -157.92243),
}


@pytest.mark.parametrize(
    ("left", "right", "expected_km"),
    [
        ("JFK", "LAX", 3_974),
        ("JFK", "HNL", 8_017),
        ("EWR", "JFK", 33.4),
    ],
)
def test_distances_equal_known_values(left: str, right: str, expected_km: float) -> None:
    distance = great_circle_km(AIRPORTS[left], AIRPORTS[right])
    assert distance == pytest.approx(expected_km, rel=0.003)
    assert distance == great_circle_km(AIRPORTS[right], AIRPORTS[left])


def test_distances_are_right_at_poles_and_the_date_line() -> None:
    assert great_circle_km((10.0, 20.0), (10.0, 20.0)) == 0
    assert great_circle_km((90.0, 0.0), (-90.0, 0.0)) == pytest.approx(20_015, rel=0.001)
    assert great_circle_km((0.0, 179.9), (0.0, -179.9)) == pytest.approx(22.2, rel=0.01)


def test_geography_is_light_in_fibre_plus_a_hop_cost() -> None:
    underlay = GeographicUnderlay(AIRPORTS, hop_cost_us=700, local_latency_us=50)
    latency_us = underlay.latency_us("JFK", "LAX")
    assert latency_us == pytest.approx(700 + 3_974 / FIBRE_KM_PER_US, rel=0.003)
    assert 20_000 < latency_us < 21_000
    assert underlay.latency_us("LAX", "JFK") == latency_us
    assert underlay.latency_us("LAX", "LAX") == 50


def test_two_places_on_one_spot_are_never_nearer_than_one_place() -> None:
    underlay = GeographicUnderlay({"a": (1.0, 1.0), "b": (1.0, 1.0)}, hop_cost_us=0)
    assert underlay.latency_us("a", "b") == underlay.latency_us("a", "a") == 100


def test_a_constant_underlay_has_one_latency() -> None:
    underlay = ConstantUnderlay(5_000, local_latency_us=20)
    assert underlay.latency_us("anywhere", "elsewhere") == 5_000
    assert underlay.latency_us("anywhere", "anywhere") == 20


ROWS = (["h0", "h0", "h1"], ["h1", "h2", "h2"], [10.0, 20.0, 30.5])


def test_matrix_is_half_the_round_trip_both_ways() -> None:
    places = ["p", "q", "r"]
    underlay = MatrixUnderlay(*ROWS, places=places, seed=4)
    found = sorted(
        underlay.latency_us(left, right) for left in places for right in places if left < right
    )
    assert found == [5_000, 10_000, 15_250]
    assert underlay.latency_us("p", "q") == underlay.latency_us("q", "p")
    assert underlay.latency_us("p", "p") == 100


def test_matrix_keeps_directions_apart_where_both_were_measured() -> None:
    underlay = MatrixUnderlay(["x", "y"], ["y", "x"], [10, 30], places=["p", "q"], seed=0)
    assert {underlay.latency_us("p", "q"), underlay.latency_us("q", "p")} == {5_000, 15_000}


def test_only_the_seed_decides_places() -> None:
    def latencies(seed: int, rows: tuple[list[str], list[str], list[float]]) -> list[int]:
        underlay = MatrixUnderlay(*rows, places=["p", "q"], seed=seed)
        return [underlay.latency_us("p", "q")]

    reversed_rows = tuple(column[::-1] for column in ROWS)
    assert all(latencies(seed, ROWS) == latencies(seed, reversed_rows) for seed in range(8))
    assert len({latencies(seed, ROWS)[0] for seed in range(8)}) > 1


def test_places_that_are_all_hosts_keep_their_names() -> None:
    rows = ([1, 1, 2], [2, 3, 3], [10.0, 20.0, 30.0])  # as a CSV file gives them
    for seed in range(4):
        underlay = MatrixUnderlay(*rows, places=["3", "1"], seed=seed)
        assert underlay.latency_us("3", "1") == 10_000
    drawn = {
        MatrixUnderlay(*rows, places=["3", "x"], seed=seed).latency_us("3", "x")
        for seed in range(20)
    }
    assert drawn == {5_000, 10_000, 15_000}


def test_missing_pairs_are_an_error_or_the_median() -> None:
    sources, targets, rtt_ms = [0, 0, 1], [1, 2, 2], [10.0, None, math.nan]
    with pytest.raises(UnderlayError, match=r"2 pairs .* 0 and 2; fill_missing = true"):
        MatrixUnderlay(sources, targets, rtt_ms, places=["p", "q", "r"], seed=0)
    filled = MatrixUnderlay(
        sources, targets, rtt_ms, places=["p", "q", "r"], seed=0, fill_missing=True
    )
    assert {filled.latency_us("p", "q"), filled.latency_us("q", "r")} == {5_000}
    with pytest.raises(UnderlayError, match="no round-trip time at all"):
        MatrixUnderlay([0], [1], [None], places=["p"], seed=0, fill_missing=True)


def test_wrong_figures_and_unknown_places_are_errors() -> None:
    with pytest.raises(UnderlayError, match="latency_us: 0 is below 1"):
        ConstantUnderlay(0)
    with pytest.raises(UnderlayError, match="hop_cost_us: -1"):
        GeographicUnderlay({}, hop_cost_us=-1)
    with pytest.raises(UnderlayError, match=r"'x': \(91.0, 0.0\) are no coordinates"):
        GeographicUnderlay({"x": (91.0, 0.0)})
    with pytest.raises(UnderlayError, match="'nowhere' has no coordinates"):
        GeographicUnderlay(AIRPORTS).latency_us("JFK", "nowhere")
    with pytest.raises(UnderlayError, match="4 places, but the matrix has 3 hosts"):
        MatrixUnderlay(*ROWS, places=list("abcd"), seed=0)
    with pytest.raises(UnderlayError, match="listed twice"):
        MatrixUnderlay(*ROWS, places=["a", "a"], seed=0)
    with pytest.raises(UnderlayError, match="'z' has no host"):
        MatrixUnderlay(*ROWS, places=["a"], seed=0).latency_us("a", "z")
    with pytest.raises(UnderlayError, match=r"-3\.0 ms is below 0"):
        MatrixUnderlay([0], [1], [-3], places=["a"], seed=0)
