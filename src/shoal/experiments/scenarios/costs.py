"""The table of a scenario about costs of messages, by which some systems choose their links."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from shoal.broker.effects import Costs
from shoal.experiments.run_files import read_columns
from shoal.experiments.scenarios.sections import PAGE, ScenarioError, ScenarioSection
from shoal.model import BrokerId
from shoal.overlays.shapes import Link
from shoal.simulation.links.underlay import Underlay

Cost = Annotated[float, msgspec.Meta(ge=0)]


class ScenarioCosts(ScenarioSection, frozen=True, kw_only=True):
    """Costs of messages, for systems that choose their links by them (`self_organising`).

    They are what a system decides by, and delay no message. Example: `links = { "B1-B2" = 3.0,
    "B2-B3" = 1.0, "B1-B3" = 9.0 }` makes the link between B1 and B3 dear, however near they are.

    here    to process a message at a broker; without, `service.processing_us`
    links   to send one between two brokers, at least 0, in either direction, as in
            {"B1-B2" = 3.0}: brokers
            that are no pair here or in the file may not be linked; without any all may be, and a
            message costs its latency in µs
    path    the same from a table, Parquet or CSV with the columns left, right and cost
    """

    here: Cost | msgspec.UnsetType = msgspec.UNSET
    links: dict[str, float] = {}
    path: str = ""

    def __post_init__(self) -> None:
        for pair, cost in self.links.items():
            if not 0 <= cost < math.inf:
                raise ValueError(f"links: {pair!r}: {cost} is not a number from 0 on")


def message_costs(
    section: ScenarioCosts,
    processing_us: int,
    places: Mapping[BrokerId, BrokerId],
    links: Iterable[Link],
    underlay: Underlay,
) -> dict[BrokerId, Costs] | None:
    """The costs by broker; None if the scenario has none.

    `places` are those of all brokers. ScenarioError for a pair that is none, or is there twice, and
    for one of these `links` without a cost.
    """
    pairs = _pairs(section, places)
    if section.here is msgspec.UNSET and not pairs:
        return None
    here = float(processing_us) if section.here is msgspec.UNSET else section.here
    if not pairs:
        return {
            broker: Costs(
                here,
                {
                    other: float(underlay.latency_us(place, there))
                    for other, there in places.items()
                    if other != broker
                },
            )
            for broker, place in places.items()
        }
    for left, right in links:
        if frozenset((left, right)) not in pairs:
            raise ScenarioError(f"costs.links: {left}-{right} is a link without a cost ({PAGE})")
    ways: dict[BrokerId, dict[BrokerId, float]] = {broker: {} for broker in places}
    for pair, cost in pairs.items():
        one, other = sorted(pair)
        ways[one][other] = ways[other][one] = cost
    return {broker: Costs(here, found) for broker, found in ways.items()}


def _pairs(section: ScenarioCosts, brokers: Iterable[BrokerId]) -> dict[frozenset[BrokerId], float]:
    there = {*brokers}
    rows = []
    for key, cost in section.links.items():
        ends = _ends(key, there)
        if ends is None:
            raise ScenarioError(f"costs.links: {key!r} is no two brokers ({PAGE})")
        rows.append((f"costs.links: {key}", *ends, cost))
    if section.path:
        path = Path(section.path)
        columns = read_columns(path, ("left", "right", "cost"), numbers=("cost",))
        for number, (left, right, cost) in enumerate(zip(*columns, strict=True)):
            where = f"{path}: row {number}"
            if left == right or not {left, right} <= there:
                raise ScenarioError(f"{where}: {left!r} and {right!r} are no two brokers ({PAGE})")
            if not isinstance(cost, int | float) or not 0 <= cost < math.inf:
                raise ScenarioError(f"{where}: cost: {cost!r} is not a number from 0 on ({PAGE})")
            rows.append((where, left, right, float(cost)))
    found: dict[frozenset[BrokerId], float] = {}
    for where, left, right, cost in rows:
        pair = frozenset((left, right))
        if pair in found:
            raise ScenarioError(f"{where}: {left} and {right} have a cost already ({PAGE})")
        found[pair] = cost
    return found


def _ends(key: str, brokers: Collection[BrokerId]) -> tuple[BrokerId, BrokerId] | None:
    """The two brokers of a key, whose names may have hyphens."""
    for found in re.finditer("-", key):
        left, right = key[: found.start()], key[found.end() :]
        if left != right and left in brokers and right in brokers:
            return left, right
    return None
