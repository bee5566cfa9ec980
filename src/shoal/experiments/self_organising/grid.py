"""The runs of the study: the paper's three experiments on both kinds of trees, and ours.

>>> runs = grid(SCALES["small"], 1)
>>> len(runs) == len({run.name for run in runs})
True

Source: Cost and Interest, section 5.  It prints no steps of eta and alpha; ours are in `SCALES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from shoal.experiments.self_organising.modelling.setting import (
    HEURISTICS,
    Links,
    SelfOrganisingSetting,
    Shape,
    What,
)
from shoal.experiments.studies.study import ScaleName

Part = Literal["adaptivity", "redrawn", "locality", "hops", "alpha", "regret", "ours", "frequency"]
SHAPES: tuple[Shape, ...] = ("recursive", "uniform")
EVERYTHING: tuple[What, ...] = ("static", *HEURISTICS)
LINKS: tuple[Links, ...] = ("drawn", "ways")
# Parts that run with flights, too.
WITH_FLIGHTS: tuple[Part, ...] = ("adaptivity", "regret")
# Experiments without changes end when the paper's first change would come (5.2).
SHORT = 25_000
# As many physical networks as the paper has, from which on its intervals are judged.
PAPER_NETWORKS = 25
# From so many networks on a change of costs has an interval.
FEWEST_NETWORKS = 5
# For local clients: a fifth of the paper's brokers.
NEAR = 20
LOCAL: tuple[What, ...] = ("static", "ci")
# Least gain of a cycle in one of our runs.
LEAST_GAIN = 5


class SelfOrganisingScale(NamedTuple):
    """Size of the runs.

    networks     physical networks of the first experiment
    varied       number of networks for varied parameters
    ours         of these, those with interest in all that passes and with what is ours, too
    hops         range of broadcasts
    alphas       the part of the costs that is of brokers
    redrawn      networks of which costs and loads are drawn anew at both changes, or whose
                 subscribers are near their publishers
    small        networks of eight brokers, for which the optimum is known
    large        networks of a hundred that nothing changes for
    every        ticks between two changes, where that is varied
    """

    name: ScaleName
    networks: int
    varied: int
    ours: int
    hops: tuple[int, ...]
    alphas: tuple[float, ...]
    redrawn: int
    small: int
    large: int
    every: tuple[int, ...]


SCALES: Mapping[ScaleName, SelfOrganisingScale] = {
    "small": SelfOrganisingScale(
        name="small",
        networks=3,
        varied=1,
        ours=1,
        hops=(2, 3, 4, 6, 8),
        alphas=(0.0, 0.25, 0.75, 1.0),
        redrawn=FEWEST_NETWORKS,
        small=20,
        large=2,
        every=(2_500, 10_000),
    ),
    "paper": SelfOrganisingScale(
        name="paper",
        networks=PAPER_NETWORKS,
        varied=PAPER_NETWORKS,
        ours=FEWEST_NETWORKS,
        hops=(2, 3, 4, 5, 6, 7, 8),
        alphas=tuple(fifth / 5 for fifth in range(6)),
        redrawn=PAPER_NETWORKS,
        small=50,
        large=PAPER_NETWORKS,
        every=(1_000, 2_500, 5_000, 10_000),
    ),
}


class SelfOrganisingCell(NamedTuple):
    """A run's place in the study."""

    part: Part
    setting: SelfOrganisingSetting

    @property
    def name(self) -> str:
        """Unique within a study; also the path of its summary."""
        setting = self.setting
        varied = {
            "adaptivity": "",
            "redrawn": "",
            "locality": f"near-{setting.near}-",
            "hops": f"{setting.hops}-hops-",
            "alpha": f"alpha-{setting.alpha:g}-",
            "regret": f"{setting.brokers}-brokers-",
            "ours": f"{'counted-' * setting.counted}least-{setting.least_gain}-",
            "frequency": f"every-{setting.changes_at[0] if setting.changes_at else 0}-",
        }[self.part]
        reading = f"{'drawn-' * (setting.links == 'drawn')}{'flights-' * bool(setting.departures)}"
        passing = "-passing" * setting.passing
        name = f"{reading}{varied}{setting.what}{passing}-{setting.seed}"
        return f"{self.part}/{setting.shape}/{name}"

    @property
    def cost(self) -> float:
        """About how long it takes, in seconds."""
        setting = self.setting
        drawing = 0.1
        if setting.what == "static":
            return drawing
        # Interest in all that passes leads to trees in which more brokers are near.
        reached = setting.brokers * setting.hops * (1 + setting.passing)
        # Interest of three is not counted in a compiled run.
        return drawing + setting.ticks * reached * (1 + 49 * setting.counted) / 50_000_000


def grid(
    scale: SelfOrganisingScale, seed: int, rtt: str = "", departures: str = ""
) -> list[SelfOrganisingCell]:
    """Every run, in the order of the figures.

    With measured round trips these are the links' costs; with departures some runs have them in the
    place of drawn publications, too.
    """
    found = []
    for links in LINKS if not rtt else ("ways",):
        for shape in SHAPES:
            for part, setting in _cells(scale, seed, shape):
                changed = msgspec.structs.replace(setting, links=links, rtt=rtt)
                found.append(SelfOrganisingCell(part, changed))
                if departures and part in WITH_FLIGHTS:
                    found.append(
                        SelfOrganisingCell(
                            part, msgspec.structs.replace(changed, departures=departures)
                        )
                    )
    return found


def _cells(scale: SelfOrganisingScale, seed: int, shape: Shape) -> Iterator[SelfOrganisingCell]:
    for cell in _as_in_the_paper(scale, seed, shape):
        yield cell
        # Interest makes no difference to the other heuristics.
        has_interest = cell.setting.what in ("ci", "mit") and not cell.setting.counted
        is_for_all = cell.part in ("adaptivity", "regret")
        is_varied = cell.part not in ("redrawn", "locality")
        is_of_ours = is_varied and cell.setting.seed < seed + scale.ours
        if has_interest and (is_for_all or is_of_ours):
            yield cell._replace(setting=msgspec.structs.replace(cell.setting, passing=True))


def _as_in_the_paper(
    scale: SelfOrganisingScale, seed: int, shape: Shape
) -> Iterator[SelfOrganisingCell]:
    for network in range(seed, seed + scale.networks):
        for what in EVERYTHING:
            yield SelfOrganisingCell(
                "adaptivity", SelfOrganisingSetting(what=what, seed=network, shape=shape)
            )
    for network in range(seed, seed + scale.redrawn):
        for what in EVERYTHING:
            redrawn = SelfOrganisingSetting(
                what=what, seed=network, shape=shape, changes="costs and loads"
            )
            yield SelfOrganisingCell("redrawn", redrawn)
        for near in (0, NEAR):
            for whose in LOCAL:
                local = SelfOrganisingSetting(
                    what=whose, seed=network, shape=shape, ticks=SHORT, changes_at=(), near=near
                )
                yield SelfOrganisingCell("locality", local)
    for network in range(seed, seed + scale.varied):
        usual = SelfOrganisingSetting(
            what="ci", seed=network, shape=shape, ticks=SHORT, changes_at=()
        )

        def varied(
            part: Part, setting: SelfOrganisingSetting = usual, **changes: object
        ) -> SelfOrganisingCell:
            return SelfOrganisingCell(part, msgspec.structs.replace(setting, **changes))

        yield varied("hops", what="static")
        yield from (varied("hops", hops=hops) for hops in scale.hops)
        for alpha in scale.alphas:
            yield from (varied("alpha", what=what, alpha=alpha) for what in EVERYTHING)
        if network >= seed + scale.ours:
            continue
        yield varied("ours", counted=True)
        yield varied("ours", least_gain=LEAST_GAIN)
        yield varied("ours", counted=True, least_gain=LEAST_GAIN)
        for every in scale.every:
            at = tuple(range(every, SHORT, every))
            for what in ("static", "ci", "mst"):
                yield varied("frequency", what=what, changes_at=at, changes="both")
    for network in range(seed, seed + scale.small):
        for what in EVERYTHING:
            yield SelfOrganisingCell("regret", _eight(network, shape, what))
    for network in range(seed, seed + scale.large):
        for what in EVERYTHING:
            unchanging = SelfOrganisingSetting(
                what=what, seed=network, shape=shape, ticks=10_000, changes_at=(), end_rate=0.0
            )
            yield SelfOrganisingCell("regret", unchanging)


def _eight(seed: int, shape: Shape, what: What) -> SelfOrganisingSetting:
    """Few brokers that nothing changes for, so that there is one best tree."""
    return SelfOrganisingSetting(
        what=what,
        seed=seed,
        shape=shape,
        brokers=8,
        types=20,
        subscribers=2,
        ticks=10_000,
        changes_at=(),
        end_rate=0.0,
    )
