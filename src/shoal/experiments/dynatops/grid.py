"""The runs of the study: the paper's figures 6 to 10 and table 1, and ours.

>>> runs = grid(SCALES["small"], 1, "")
>>> len(runs) == len({run.name for run in runs})
True

Source: DYNATOPS, section 6. `SCALES` has the steps of sweeps that the paper does not print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from shoal.experiments.dynatops.setting import (
    PLACED,
    RECONFIGURED,
    UNITED_STATES,
    Area,
    DynatopsSetting,
    Own,
    Pattern,
    What,
)
from shoal.experiments.studies.study import ScaleName

Part = Literal[
    "location", "cluster", "update", "own", "weight",
    "poisson", "pattern", "free", "rate", "base", "goal", "planner", "hybrid",
    "interests", "aircraft",
]  # fmt: skip
BY_PLACE: tuple[What, ...] = (
    "bayeux", "bayeux-location", "bayeux-near", "geops", "chash", "bnr", "up", "dynatops",
)  # fmt: skip
FLYING: tuple[What, ...] = ("bayeux-location", "geops", "bnr", "up", "dynatops", "hybrid")
BY_CHANCE: tuple[What, ...] = ("bayeux", "tco", "chash", "bnr", "up", "dynatops")
PATTERNS: tuple[Pattern, ...] = ("multimodal", "zipf", "uniform")
CLUSTERS = (2, 5, 10, 20, 50)
UPDATE_HOURS = (6, 24)
OWN: tuple[Own, ...] = ("now", "others")
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)
CHANGE_RATES = (0.025, 0.05, 0.1)
FREE_HOURS = (5, 10, 20, 40)
RATES = (1.0, 10.0, 100.0)
BASES = (4, 16)
# Topics where users are those of a file.
INTERESTS = 80


class DynatopsScale(NamedTuple):
    """Sizes: the grid of cells and its users, and brokers, topics and users without places."""

    name: ScaleName
    columns: int
    rows: int
    located: int
    location_hours: int
    brokers: int
    topics: int
    users: int
    hours: int


SCALES: Mapping[ScaleName, DynatopsScale] = {
    "small": DynatopsScale("small", 30, 10, 8_000, 96, 100, 300, 15_000, 40),
    "paper": DynatopsScale("paper", 60, 20, 40_000, 24 * 92, 100, 1_000, 50_000, 100),
}


class DynatopsCell(NamedTuple):
    """A run's place in the study."""

    part: Part
    setting: DynatopsSetting

    @property
    def name(self) -> str:
        """Unique within a study; also the path of its summary."""
        setting = self.setting
        varied = {
            "location": "",
            "interests": "",
            "aircraft": "",
            "hybrid": f"{setting.users_are}-{setting.pattern}-",
            "cluster": f"{setting.cluster}-brokers-",
            "update": f"{setting.cluster}-brokers-{setting.update_hours}-hours-",
            "own": f"{setting.users_are}-{setting.own}-",
            "planner": f"{setting.planner}-",
            "goal": f"{setting.pattern}-{setting.goal}-",
            "weight": f"weight-{setting.load_weight:g}-",
            "poisson": f"{setting.change_rate:g}-changes-",
            "pattern": f"{setting.pattern}-",
            "free": f"{setting.users_are}-{setting.free_hours}-hours-",
            "rate": f"{setting.rate:g}-publications-",
            "base": f"base-{setting.base}-",
        }[self.part]
        return f"{self.part}/{varied}{setting.what}-{setting.seed}"

    @property
    def cost(self) -> float:
        """About how long it takes, in seconds."""
        setting = self.setting
        slots = setting.hours * (10 if setting.has_places else 5)
        return slots * setting.users * (2 if setting.what in RECONFIGURED else 1) / 1_000_000


class Files(NamedTuple):
    """Sources of users in runs of our own, and of aircraft."""

    interests: str = ""
    aircraft: str = ""
    area: Area = UNITED_STATES


NO_FILES = Files()


def grid(
    scale: DynatopsScale, seed: int, trace: str, files: Files = NO_FILES
) -> list[DynatopsCell]:
    """Every run, in the order of the figures; those of files of our own last."""
    return list(_cells(scale, seed, trace, files))


def _cells(scale: DynatopsScale, seed: int, trace: str, files: Files) -> Iterator[DynatopsCell]:
    located = DynatopsSetting(
        what="dynatops",
        seed=seed,
        users_are="location",
        columns=scale.columns,
        rows=scale.rows,
        users=scale.located,
        hours=scale.location_hours,
        trace=trace,
    )
    by_chance = DynatopsSetting(
        what="dynatops",
        seed=seed,
        brokers=scale.brokers,
        topics=scale.topics,
        users=scale.users,
        hours=scale.hours,
    )

    def cell(part: Part, setting: DynatopsSetting, **changes: object) -> DynatopsCell:
        return DynatopsCell(part, msgspec.structs.replace(setting, **changes))

    for what in BY_PLACE:
        yield cell("location", located, what=what)
    for cluster in CLUSTERS:
        for what in PLACED:
            yield cell("cluster", located, what=what, cluster=cluster)
    for hours in UPDATE_HOURS:
        for cluster in CLUSTERS:
            yield cell("update", located, what="up", cluster=cluster, update_hours=hours)
    for own in OWN:
        yield cell("own", located, what="up", own=own)
        yield cell("own", by_chance, what="up", own=own)
    for weight in WEIGHTS:
        yield cell("weight", located, what="up", load_weight=weight)
    for change_rate in CHANGE_RATES:
        for what in BY_CHANCE:
            yield cell("poisson", by_chance, what=what, change_rate=change_rate)
    for pattern in PATTERNS:
        for what in BY_CHANCE:
            yield cell("pattern", by_chance, what=what, pattern=pattern)
        yield cell("goal", by_chance, what="tco", pattern=pattern, goal="links")
    for hours in FREE_HOURS:
        yield cell("free", located, free_hours=hours)
        yield cell("free", by_chance, free_hours=hours, change_rate=0.025, cluster=5)
    yield cell("planner", by_chance, planner="swaps")
    for rate in RATES:
        for what in PLACED:
            yield cell("rate", by_chance, what=what, rate=rate)
    for base in BASES:
        yield cell("base", by_chance, what="bayeux", base=base)
        yield cell("base", located, what="bayeux-near", base=base)
    yield cell("hybrid", located, what="hybrid")
    for pattern in PATTERNS:
        yield cell("hybrid", by_chance, what="hybrid", pattern=pattern)
    if files.aircraft:
        flying = msgspec.structs.replace(
            located, users_are="aircraft", trace=files.aircraft, area=files.area
        )
        for what in FLYING:
            yield cell("aircraft", flying, what=what)
    if files.interests:
        read: dict[str, object] = {"users_are": "interests", "trace": files.interests}
        for what in BY_CHANCE:
            yield cell("interests", by_chance, what=what, topics=INTERESTS, **read)
