"""The network below the overlay: how long a message takes from one place to another.

A place is where brokers and clients stand; several may share one.  Three underlays: every pair
alike (`ConstantUnderlay`), from coordinates (`GeographicUnderlay`), or from measured round-trip
times (`MatrixUnderlay`).  All answer in whole microseconds, at least 1, and always the same for
the same pair; jitter is a fault, not an underlay.

>>> atlantic = GeographicUnderlay({"JFK": (40.640, -73.779), "LHR": (51.471, -0.460)},
...                               hop_cost_us=500, local_latency_us=100)
>>> atlantic.latency_us("JFK", "LHR"), atlantic.latency_us("JFK", "JFK")
(28218, 100)
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shoal.model import BrokerId, ClientId

# Mean earth radius (IUGG), and two thirds of the speed of light: the speed in fibre.
EARTH_RADIUS_KM = 6_371.009
FIBRE_KM_PER_US = 0.299_792_458 * 2 / 3

# A measured matrix is kept whole: n * n doubles, 128 MB at this size.
MAX_MATRIX_HOSTS = 4_000

Coordinates = tuple[float, float]


class UnderlayError(ValueError):
    """An unknown place, impossible coordinates, or a matrix without the entry."""


class Underlay(Protocol):
    """Interface of the simulator to the network below."""

    def latency_us(self, source_place: str, target_place: str) -> int:
        """One way, in microseconds, at least 1; UnderlayError for an unknown place."""
        ...


class ConstantUnderlay:
    """Every two places are equally far apart.

    latency_us         one way between two places
    local_latency_us   within a place
    """

    def __init__(self, latency_us: int, *, local_latency_us: int = 100) -> None:
        _check_latency("latency_us", latency_us)
        _check_latency("local_latency_us", local_latency_us)
        self._latency_us = latency_us
        self._local_latency_us = local_latency_us

    def latency_us(self, source_place: str, target_place: str) -> int:
        return self._local_latency_us if source_place == target_place else self._latency_us


class GeographicUnderlay:
    """Light in fibre along the great circle, plus a fixed cost for equipment on the way.

    coordinates        degrees (latitude, longitude) of every place
    hop_cost_us        added between two places, also when they stand side by side
    local_latency_us   within a place, and the least between two places
    """

    def __init__(
        self,
        coordinates: Mapping[str, Coordinates],
        *,
        hop_cost_us: int = 500,
        local_latency_us: int = 100,
    ) -> None:
        _check_latency("local_latency_us", local_latency_us)
        if hop_cost_us < 0:
            raise UnderlayError(f"hop_cost_us: {hop_cost_us} is below 0")
        for place, (latitude, longitude) in coordinates.items():
            if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
                raise UnderlayError(
                    f"place {place!r}: ({latitude}, {longitude}) are no coordinates in degrees"
                )
        self._coordinates = dict(coordinates)
        self._hop_cost_us = hop_cost_us
        self._local_latency_us = local_latency_us

    def latency_us(self, source_place: str, target_place: str) -> int:
        try:
            source, target = self._coordinates[source_place], self._coordinates[target_place]
        except KeyError as error:
            raise UnderlayError(f"place {error.args[0]!r} has no coordinates") from None
        if source_place == target_place:
            return self._local_latency_us
        light_us = round(great_circle_km(source, target) / FIBRE_KM_PER_US)
        return max(self._local_latency_us, self._hop_cost_us + light_us)


class MatrixUnderlay:
    """Half of a measured round-trip time; each place is one measured host.

    sources, targets, rtt_ms   the rows of the matrix: host, host, milliseconds.  A pair measured
                               in one direction counts for both.
    places                     each is the host of its name if all have one; else they are given
                               hosts by a permutation drawn from `seed`; no more than hosts
    fill_missing               delay of a pair without a measurement: an error (False), or the
                               median of all measured pairs (True)
    local_latency_us           within a place, and the least between two places
    """

    def __init__(
        self,
        sources: Sequence[Hashable],
        targets: Sequence[Hashable],
        rtt_ms: Sequence[float | None],
        *,
        places: Sequence[str],
        seed: int,
        fill_missing: bool = False,
        local_latency_us: int = 100,
    ) -> None:
        _check_latency("local_latency_us", local_latency_us)
        # Sorted by text, so that places do not depend on the order of the rows.
        hosts = sorted({*sources, *targets}, key=lambda host: (str(host), repr(host)))
        if len(places) > len(hosts):
            raise UnderlayError(
                f"{len(places)} places, but the matrix has {len(hosts)} hosts; "
                "use fewer brokers or a larger matrix"
            )
        if len(hosts) > MAX_MATRIX_HOSTS:
            raise UnderlayError(f"{len(hosts)} hosts in the matrix, more than {MAX_MATRIX_HOSTS}")
        named = {str(host): position for position, host in enumerate(hosts)}
        if all(place in named for place in places):
            chosen = [named[place] for place in places]
        else:
            chosen = random.Random(seed).sample(range(len(hosts)), len(places))
        self._host_of = dict(zip(places, chosen, strict=True))
        if len(self._host_of) != len(places):
            raise UnderlayError("a place is listed twice")
        matrix = _square(hosts, sources, targets, rtt_ms)
        if fill_missing:
            matrix[np.isnan(matrix)] = _median(matrix)
        self._check_complete(matrix, hosts)
        one_way_us = np.rint(np.nan_to_num(matrix) * 500)
        self._latency_us = np.maximum(one_way_us, local_latency_us).astype(np.int64)
        self._local_latency_us = local_latency_us

    def _check_complete(self, matrix: npt.NDArray[np.float64], hosts: Sequence[Hashable]) -> None:
        used = sorted(self._host_of.values())
        missing = np.argwhere(np.isnan(matrix[np.ix_(used, used)]))
        missing = missing[missing[:, 0] < missing[:, 1]]
        if len(missing):
            left, right = (hosts[used[position]] for position in missing[0])
            raise UnderlayError(
                f"{len(missing)} pairs of the hosts in use have no round-trip time, among them "
                f"{left} and {right}; fill_missing = true gives them the median"
            )

    def latency_us(self, source_place: str, target_place: str) -> int:
        try:
            source, target = self._host_of[source_place], self._host_of[target_place]
        except KeyError as error:
            raise UnderlayError(f"place {error.args[0]!r} has no host in the matrix") from None
        if source == target:
            return self._local_latency_us
        return int(self._latency_us[source, target])


def great_circle_km(left: Coordinates, right: Coordinates) -> float:
    """Distance over the earth's surface between two points in degrees (haversine)."""
    latitude, other_latitude = math.radians(left[0]), math.radians(right[0])
    half_north = math.sin((other_latitude - latitude) / 2)
    half_east = math.sin(math.radians(right[1] - left[1]) / 2)
    chord = half_north**2 + math.cos(latitude) * math.cos(other_latitude) * half_east**2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, chord)))


def _check_latency(name: str, value: int) -> None:
    # Nothing arrives in the instant it is sent: cause must come before effect.
    if value < 1:
        raise UnderlayError(f"{name}: {value} is below 1 microsecond")


def _square(
    hosts: Sequence[Hashable],
    sources: Sequence[Hashable],
    targets: Sequence[Hashable],
    rtt_ms: Sequence[float | None],
) -> npt.NDArray[np.float64]:
    """The rows as a matrix, NaN where nothing was measured."""
    number = {host: position for position, host in enumerate(hosts)}
    matrix = np.full((len(hosts), len(hosts)), np.nan)
    rows: Any = [number[host] for host in sources]
    columns: Any = [number[host] for host in targets]
    times = np.array([math.nan if time is None else time for time in rtt_ms], dtype=np.float64)
    if (times < 0).any():
        raise UnderlayError(f"a round-trip time of {times[times < 0][0]} ms is below 0")
    matrix[rows, columns] = times
    return np.where(np.isnan(matrix), matrix.T, matrix)


def _median(matrix: npt.NDArray[np.float64]) -> float:
    measured = matrix[~np.isnan(matrix) & ~np.eye(len(matrix), dtype=bool)]
    if not len(measured):
        raise UnderlayError("the matrix has no round-trip time at all")
    return float(np.median(measured))


class ClientLatencies(dict[tuple[BrokerId, ClientId], int]):
    """(broker, client) → one-way latency, asked of the underlay once for each of its places."""

    def __init__(self, underlay: Underlay, places: MutableMapping[str, str]) -> None:
        super().__init__()
        self._underlay = underlay
        self._places = places

    def stand(self, client: ClientId, place: str) -> None:
        """The client stands at this place from now on."""
        self._places[client] = place
        for key in [key for key in self if key[1] == client]:
            del self[key]

    def __missing__(self, key: tuple[BrokerId, ClientId]) -> int:
        broker, client = key
        place = self._places.get(broker, broker)
        latency_us = self._underlay.latency_us(place, self._places[client])
        self[key] = latency_us
        return latency_us
