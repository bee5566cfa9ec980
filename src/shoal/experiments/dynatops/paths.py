"""Positions and trees of a system in the slot model, and distances between its brokers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shoal.experiments.dynatops.setting import DynatopsSetting, What
from shoal.overlays.dynatops.planning.problem import Amounts, TopicTrees, trees_of
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure


class DynatopsGeography(NamedTuple):
    """The brokers' distances.

    round_trips  (brokers, brokers) in units of their mean
    to_cells     (cells, brokers) those to users in the middle of each cell, in the same unit
    """

    round_trips: Amounts
    to_cells: Amounts


class SystemPaths(NamedTuple):
    """The positions, the root of each topic, and the trees to all positions."""

    geography: DynatopsGeography | None
    structure: Structure
    root_of: Callable[[int], int]
    to_all: TopicTrees


# The parameters that positions, places and trees depend on.
_PATHS_BY = ("seed", "users_are", "brokers", "columns", "rows", "base", "per_gateway", "area")


def paths_of(setting: DynatopsSetting) -> SystemPaths:
    """The paths of a system, which depend on some of its parameters only; the last are kept."""
    given = {name: getattr(setting, name) for name in _PATHS_BY}
    what: What = setting.what
    if what in ("tco", "chash", "bnr", "dynatops"):
        what = "up"
    elif what == "bayeux-location":
        what = "bayeux"
    return _paths(DynatopsSetting(what=what, **given))


@lru_cache(maxsize=3)
def _paths(setting: DynatopsSetting) -> SystemPaths:
    geography = _geography(setting) if setting.has_places else None
    structure, root_of = _structure(setting, geography)
    return SystemPaths(geography, structure, root_of, trees_of(structure, range(structure.size)))


def _structure(
    setting: DynatopsSetting, geography: DynatopsGeography | None
) -> tuple[Structure, Callable[[int], int]]:
    """The positions, and which of them is the root of each topic."""
    brokers = setting.brokers if geography is None else len(geography.round_trips)
    structure: Structure
    if setting.what == "geops":
        grid = QuadGrid(_side(setting))
        return grid, lambda topic: grid.at(*grid_cell(setting, topic))
    if setting.what in ("bayeux", "bayeux-location"):
        structure = tapestry(brokers, setting.seed, setting.base)
    elif setting.what == "bayeux-near":
        assert geography is not None
        apart = geography.round_trips
        structure = tapestry(
            brokers, setting.seed, setting.base, lambda one, other: float(apart[one, other])
        )
    elif setting.what == "hybrid":
        structure = Gateways(brokers, setting.per_gateway)
    else:
        structure = Chord(brokers)
    return structure, lambda topic: structure.root(f"topic/{topic}")


def _side(setting: DynatopsSetting) -> int:
    """Of the grid of GeoPS: a power of two, so that it has about as many cells as there are."""
    return 1 << round(math.log2(math.sqrt(setting.columns * setting.rows)))


def grid_cell(setting: DynatopsSetting, cell: int) -> tuple[int, int]:
    """The cell of GeoPS' grid that a cell is in."""
    side = _side(setting)
    x, y = cell % setting.columns, cell // setting.columns
    return x * side // setting.columns, y * side // setting.rows


def _geography(setting: DynatopsSetting) -> DynatopsGeography:
    """A broker in the middle of each cell, of the grid's in GeoPS; round trips go by distance."""
    columns, rows = setting.columns, setting.rows
    cells = np.arange(columns * rows)
    middles = np.stack([cells % columns + 0.5, cells // columns + 0.5], axis=1)
    places = middles
    if setting.what == "geops":
        grid = QuadGrid(_side(setting))
        places = np.empty((grid.size, 2))
        for x in range(grid.side):
            for y in range(grid.side):
                middle = (x + 0.5) * columns / grid.side, (y + 0.5) * rows / grid.side
                places[grid.at(x, y)] = middle
    west, south, east, north = setting.area
    # Ratio of a degree of longitude to one of latitude.
    width = round(math.cos(math.radians((south + north) / 2)), 2)
    scale = np.array([width * (east - west) / columns, (north - south) / rows])

    def between(some: Amounts, others: Amounts) -> Amounts:
        found: Amounts = np.sqrt((((some[:, None] - others[None]) * scale) ** 2).sum(axis=2))
        return found

    apart = between(places, places)
    mean = apart.sum() / (len(apart) * (len(apart) - 1))
    return DynatopsGeography(apart / mean, between(middles, places) / mean)


def in_blocks(setting: DynatopsSetting) -> list[int]:
    """The cells such that those that follow each other are close: in strips of a block's height."""
    height = max(1, round(math.sqrt(setting.cluster)))
    cells = range(setting.columns * setting.rows)
    return sorted(
        cells,
        key=lambda cell: (
            cell // setting.columns // height,
            cell % setting.columns,
            cell // setting.columns,
        ),
    )
