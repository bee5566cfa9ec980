"""Makes the pages' content of finished runs: claims, figures 4 to 6, and tables beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.experiments.self_organising.claims import CLAIMS, NAMES
from shoal.experiments.self_organising.evidence import SelfOrganisingEvidence
from shoal.experiments.self_organising.grid import EVERYTHING, SHAPES, Part, SelfOrganisingScale
from shoal.experiments.self_organising.modelling.model import KINDS
from shoal.experiments.self_organising.modelling.optimum import MAX_BROKERS_FOR_ALL
from shoal.experiments.self_organising.modelling.setting import HEURISTICS, WINDOW, Links, Shape
from shoal.experiments.self_organising.runs import ModelCosts, SelfOrganisingModelRun
from shoal.experiments.studies.claims import VERDICTS_NOTE, judge_claims, mean_and_interval
from shoal.experiments.studies.drawing import Points, draw, tabulate
from shoal.experiments.studies.runs import summaries
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.overlays.trace_rows import Columns
from shoal.report.amounts import percent
from shoal.report.study import Figure, StudyGroup, StudyReport, StudyTable

TITLE = "Cost and Interest: the paper's evaluation, repeated"
TREES: dict[Shape, str] = {"recursive": "recursive tree", "uniform": "uniform tree"}
LINKS: dict[Links, str] = {"drawn": "links drawn", "ways": "links by ways"}
FLIGHTS = "flights"
PASSING = "what passes"
REDRAWN_AT: Mapping[Part, str] = {
    "adaptivity": "links' costs are drawn anew at 25,000 ticks, brokers' at 50,000",
    "redrawn": "all costs and loads are drawn anew at 25,000 and at 50,000 ticks",
}
LOOKS = {NAMES[what]: number for number, what in enumerate(EVERYTHING)}
NOTES = (
    "Brokers decide by the functions of the live system; what is simplified is time: messages and "
    "exchanges take none, and of the exchanges that one broadcast leads to the first is carried "
    "out. What notifications cost follows from their delivery trees.",
    "A message costs the link it goes over and the broker that takes it in; broadcasts, requests "
    "and exchanges count as notifications do, whatever their size.",
    "The paper does not say how its random trees are drawn. Claims are judged on two kinds: in a "
    "recursive tree each broker joins a random earlier one, a uniform tree is any of all trees.",
    "Nor does it say whether links cost what the ways between routers do (of three brokers none is "
    "then far from another that is near the third), or are drawn evenly, as other random values.",
    "The paper's brokers learn what their own clients publish and get, and most of what a link "
    "carries is for others. In the columns 'what passes' brokers count all that they handle, the "
    "only change; static and lMST are the same in both.",
    VERDICTS_NOTE,
)
METRICS: Columns = {
    "part": "text", "tree": "text", "what": "text",
    "links": "text", "flights": "integer", "passing": "integer", "network": "integer",
    "eta": "integer", "alpha": "double", "window": "integer", "kind": "text", "cost": "double",
}  # fmt: skip


def conclude(
    runs: Sequence[SelfOrganisingModelRun], scale: SelfOrganisingScale, links: str
) -> Conclusion:
    """Draw the conclusion from finished runs; `links` names the source of links' costs."""
    found = summaries(runs)
    evidence = [
        SelfOrganisingEvidence([one for one in found if _is_in(one, each)], scale, each.name)
        for each in _readings(runs)
    ]
    report = StudyReport(
        title=TITLE,
        scale=scale.name,
        facts=(
            f"{len(found)} of {len(runs)} runs",
            f"{scale.networks} networks; {scale.varied} where something is varied",
            links,
            "100 brokers, 50 types with 9 subscribers each",
        ),
        notes=NOTES,
        claims=tuple(
            finding
            for place, each in enumerate(evidence)
            for finding in judge_claims(CLAIMS, each, each.name)
            # Not everything is tried with every reading.
            if place < len(SHAPES) or finding.verdict != "not run"
        ),
        tables=(_ratios(evidence), _work(evidence), _regrets(evidence), _frequency(evidence)),
        groups=tuple(
            StudyGroup(title=f"From a {each.name}", figures=tuple(_figures(each, f"{number}")))
            for number, each in enumerate(evidence)
        ),
    )
    return Conclusion(report, {"costs": StudyRows(list(_rows(found)), METRICS)})


class _Reading(NamedTuple):
    """Choices that the paper leaves open, and other variations: claims are judged for each."""

    links: Links
    is_measured: bool
    has_flights: bool
    is_passing: bool
    shape: Shape

    @property
    def name(self) -> str:
        links = "round trips" if self.is_measured else LINKS[self.links]
        flights = [FLIGHTS] if self.has_flights else []
        return ", ".join([TREES[self.shape], links, *flights, *[PASSING] * self.is_passing])


def _readings(runs: Iterable[SelfOrganisingModelRun]) -> list[_Reading]:
    """Return the readings of a study, in the order of its runs, except interests and the shape."""
    kinds = [(one.setting.links, bool(one.setting.rtt), bool(one.setting.departures))
             for one in runs]  # fmt: skip
    return [
        _Reading(*kind, is_passing, shape)
        for kind in dict.fromkeys(kinds)
        for is_passing in (False, True)
        for shape in SHAPES
    ]


def _is_in(one: ModelCosts, reading: _Reading) -> bool:
    """Return whether a run is of a reading; only CI and lMIT have two readings of interests."""
    setting = one.setting
    is_read = setting.what in ("static", "mst") or setting.passing == reading.is_passing
    is_there = setting.links == reading.links and bool(setting.departures) == reading.has_flights
    return setting.shape == reading.shape and is_read and is_there


def _rows(found: Iterable[ModelCosts]) -> Iterator[dict[str, Any]]:
    for one in found:
        setting = one.setting
        run = {
            "part": one.part,
            "tree": setting.shape,
            "what": setting.what,
            "links": "measured" if setting.rtt else setting.links,
            "flights": int(bool(setting.departures)),
            "passing": int(setting.passing),
            "network": setting.seed,
            "eta": setting.hops,
            "alpha": setting.alpha,
        }
        for kind, windows in one.costs.items():
            for window, cost in enumerate(windows):
                yield {**run, "window": window, "kind": kind, "cost": cost}


# --- figures ------------------------------------------------------------------------------------


def _figures(evidence: SelfOrganisingEvidence, number: str) -> Iterator[Figure]:
    yield _figure_4(evidence, number)
    if evidence.runs("redrawn", "static"):
        yield _figure_4(evidence, number, "redrawn")
    if evidence.by_hops():
        yield _figure_5(evidence, number)
    if evidence.improvements("ci"):
        yield _figure_6(evidence, number)


def _figure_4(evidence: SelfOrganisingEvidence, number: str, part: Part = "adaptivity") -> Figure:
    lines: list[tuple[str, Points]] = []
    for what in EVERYTHING:
        runs = [one.windows for one in evidence.runs(part, what).values()]
        means = [statistics.fmean(values) for values in zip(*runs, strict=True)]
        lines.append((NAMES[what], [(n * WINDOW, mean) for n, mean in enumerate(means)]))
    return draw(
        f"{number}-figure-4{'-redrawn' * (part == 'redrawn')}",
        "Figure 4: costs of 1,000 ticks",
        f"{REDRAWN_AT[part]}; mean over networks",
        ("ticks", "costs"),
        lines,
        looks=LOOKS,
        x_scale="linear",
        marks=False,
    )


def _figure_5(evidence: SelfOrganisingEvidence, number: str) -> Figure:
    pairs = evidence.by_hops()

    def line(cost: Any) -> Points:
        return [
            (hops, statistics.fmean(cost(*each) for each in found)) for hops, found in pairs.items()
        ]

    lines: list[tuple[str, Points]] = [
        ("static", line(lambda one, static: static.total)),
        ("CI", line(lambda one, static: one.total)),
        ("broadcasts", line(lambda one, static: sum(one.costs["broadcasts"]))),
        ("requests and exchanges",
         line(lambda one, static: sum(one.costs["requests"]) + sum(one.costs["exchanges"]))),
    ]  # fmt: skip
    return draw(
        f"{number}-figure-5",
        "Figure 5: costs of 25,000 ticks by eta",
        "how far broadcasts go; everything counted",
        ("eta, hops", "costs"),
        lines,
        looks=LOOKS | {"broadcasts": 4, "requests and exchanges": 5},
    )


def _figure_6(evidence: SelfOrganisingEvidence, number: str) -> Figure:
    lines: list[tuple[str, Points]] = [
        (NAMES[what], [(alpha, 100 * gain) for alpha, gain in evidence.improvements(what).items()])
        for what in HEURISTICS
    ]
    return draw(
        f"{number}-figure-6",
        "Figure 6: improvement by alpha",
        "the part of the costs that is of brokers; 25,000 ticks",
        ("alpha", "% less than the static tree costs"),
        lines,
        looks=LOOKS,
        x_scale="linear",
    )


# --- tables -------------------------------------------------------------------------------------


def _ratios(evidence: Sequence[SelfOrganisingEvidence]) -> StudyTable:
    rows = []
    for each in evidence:
        for what in HEURISTICS:
            ratios = each.ratios("adaptivity", what)
            if ratios:
                mean, half = mean_and_interval(ratios)
                some = each.runs("adaptivity", what).values()
                kinds = [
                    statistics.fmean(sum(one.costs[kind]) / one.total for one in some)
                    for kind in KINDS
                ]
                rows.append([each.name, NAMES[what], percent(mean), percent(half),
                             *map(percent, kinds)])  # fmt: skip
    return tabulate(
        "Costs of 75,000 ticks",
        "As a part of what the static tree costs on the same network, with half of the 95 % "
        "interval; and what they are spent on.",
        ("tree", "heuristic", "costs", "±", *KINDS),
        rows,
    )


def _work(evidence: Sequence[SelfOrganisingEvidence]) -> StudyTable:
    names = ("heard", "proposals", "exchanges", "kept", "refused")
    rows = []
    for each in evidence:
        for what in HEURISTICS:
            runs = each.runs("adaptivity", what).values()
            if runs:
                counts = [statistics.fmean(one.counts[name] for one in runs) for name in names]
                rows.append([each.name, NAMES[what], *(f"{count:,.0f}" for count in counts)])
    return tabulate(
        "What brokers did in 75,000 ticks",
        "Refused: a broker was busy, or did not know another of the cycle. Kept: the new link "
        "would have been the one to go.",
        ("tree", "heuristic", "broadcasts heard", *names[1:]),
        rows,
    )


def _regrets(evidence: Sequence[SelfOrganisingEvidence]) -> StudyTable:
    rows = []
    for each in evidence:
        sizes = sorted({one.setting.brokers for one in each.found if one.part == "regret"})
        for brokers in sizes:
            for what in EVERYTHING:
                found = each.regrets(what, brokers)
                if len(found) > 1:
                    tenths = statistics.quantiles(found, n=10)
                    rows.append([each.name, f"{brokers}", NAMES[what], f"{len(found)}",
                                 percent(found[0]), percent(statistics.median(found)),
                                 percent(tenths[-1])])  # fmt: skip
    return tabulate(
        "Above the best tree",
        f"After 10,000 ticks in which nothing changes. Of {MAX_BROKERS_FOR_ALL} brokers all "
        "262,144 trees were tried; of more, the best is what exchanges of one link find from three "
        "trees.",
        ("tree", "brokers", "heuristic", "networks", "least", "median", "90th percentile"),
        rows,
    )


def _frequency(evidence: Sequence[SelfOrganisingEvidence]) -> StudyTable:
    rows = []
    for each in evidence:
        for every in each.scale.every:
            cells = []
            for what in ("ci", "mst"):
                ratios = each.ratios(
                    "frequency",
                    what,
                    lambda one, every=every: one.setting.changes_at[:1] == (every,),  # type: ignore[misc]
                )
                cells.append(percent(1 - statistics.fmean(ratios)) if ratios else "not run")
            if set(cells) != {"not run"}:
                rows.append([each.name, f"{every:,}", *cells])
    return tabulate(
        "How often all costs may change",
        "What is gained of the static tree's costs in 25,000 ticks, all messages counted, when the "
        "costs of all links and brokers are drawn anew every so many ticks.",
        ("tree", "ticks between changes", "CI", "lMST"),
        rows,
    )
