"""The paper's figures 5a to 5h and 6a to 6h from our runs, and ours beside them.

A line without runs is left out.

Source: Cheung and Jacobsen, publisher relocation, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from shoal.experiments.relocation.evidence import RelocationEvidence
from shoal.experiments.relocation.grid import (
    BASELINE,
    DELAY,
    EXTREMES,
    LOAD,
    POP,
    PROBED_SPREAD,
    WEIGHTS,
    Distribution,
    RelocationSetting,
    System,
    Testbed,
    grape,
)
from shoal.experiments.relocation.judges.paths import means_by_path, selections_by_path
from shoal.experiments.relocation.judges.thresholds import by_threshold, threshold_baseline
from shoal.experiments.relocation.measuring.regret import Figure as Regretted
from shoal.experiments.relocation.measuring.regret import costs_by_publisher, regret
from shoal.experiments.relocation.measuring.summary import Moment
from shoal.experiments.relocation.networks import NetworkSummary
from shoal.experiments.studies import drawing as studies
from shoal.experiments.studies.drawing import Points
from shoal.report.study import Figure, StudyGroup

PATH_SPREADS = (4, 16, 63)
DISTRIBUTIONS: Sequence[Distribution] = ("clustered", "random")
TESTBEDS: Mapping[Testbed, str] = {
    "wide": "wide area, 63 brokers",
    "cluster": "cluster, 127 brokers",
}


# A setting looks the same in every figure.
LOOKS: Mapping[str, int] = {
    "baseline": 0,
    "load100": 1,
    "delay100": 2,
    "pop": 3,
    "grape": 1,
    **{f"load{weight}": 8 + place for place, weight in enumerate(WEIGHTS[1:])},
    **{f"delay{weight}": 12 + place for place, weight in enumerate(WEIGHTS[1:])},
}


class FigureMeasure(NamedTuple):
    """A metric in figures: its name, its axis, and the factor of a value."""

    metric: str
    name: str
    label: str
    factor: float = 1.0
    when: str = "at the end of the run"


RATE = FigureMeasure("message_rate_per_s", "Message rate", "messages/s that come in, per broker")
INPUT = FigureMeasure("input_utilisation", "Input utilisation", "% of the time", 100)
OUTPUT = FigureMeasure("output_utilisation", "Output utilisation", "% of the time", 100)
DELAY_MS = FigureMeasure("delay_us", "Delivery delay", "ms", 1e-3)
HOPS = FigureMeasure("hops", "Hop count", "links between brokers, per delivery")
MEMORY = FigureMeasure("memory_bytes", "Memory of tracing", "bytes per broker", 1, "at its peak")
OVERHEAD = FigureMeasure("overhead", "Message overhead", "control messages, % of all", 100)


draw = partial(studies.draw, looks=LOOKS)


def figure_groups(evidence: RelocationEvidence) -> list[StudyGroup]:
    """All figures of one data set, in groups."""
    data = evidence.dataset
    return [
        _group(f"Figure 5, {data}", figure_5(evidence)),
        _group(f"Figure 6, {data}", [*figure_6_paths(evidence), *figure_6(evidence)]),
        _group(f"Beside the paper's figures, {data}", beside(evidence)),
        _group(f"How good the choices are, {data}", quality(evidence)),
    ]


def _group(title: str, figures: Iterable[Figure]) -> StudyGroup:
    return StudyGroup(title=title, figures=tuple(figures))


def over_spreads(
    evidence: RelocationEvidence,
    number: str,
    measure: FigureMeasure,
    testbed: Testbed,
    distribution: Distribution,
    settings: Sequence[RelocationSetting] = EXTREMES,
) -> Figure:
    """A metric over X, the brokers that a publisher's subscribers are spread over."""
    where = evidence.where(testbed, distribution)
    lines = [
        (
            setting.label,
            [
                (spread, value * measure.factor)
                for spread, value in evidence.results.values(where, setting, measure.metric).items()
            ],
        )
        for setting in settings
    ]
    title = f"{number} {measure.name}" if number[0].isdigit() else measure.name
    caption = f"{TESTBEDS[testbed]}, {distribution} subscribers, {measure.when}"
    axes = ("brokers with a publisher's subscribers (X)", measure.label)
    return draw(f"{evidence.dataset}-{number}", title, caption, axes, lines)


def figure_5(evidence: RelocationEvidence) -> list[Figure]:
    """Figures 5a to 5h."""
    weighted = [
        BASELINE,
        *(grape("load", weight) for weight in WEIGHTS),
        *(grape("delay", weight) for weight in WEIGHTS),
    ]
    return [
        over_spreads(evidence, "5a", RATE, "wide", "clustered"),
        over_spreads(evidence, "5b", INPUT, "wide", "clustered"),
        over_spreads(evidence, "5c", DELAY_MS, "wide", "clustered"),
        over_spreads(evidence, "5d", HOPS, "cluster", "clustered"),
        over_spreads(evidence, "5e", MEMORY, "cluster", "clustered", (POP, LOAD, DELAY)),
        over_spreads(evidence, "5f", OVERHEAD, "cluster", "clustered", (POP, LOAD, DELAY)),
        over_spreads(evidence, "5g", DELAY_MS, "cluster", "random"),
        over_spreads(evidence, "5h", DELAY_MS, "cluster", "clustered", weighted),
    ]


def beside(evidence: RelocationEvidence) -> list[Figure]:
    """The same metrics where the paper leaves the graph to its appendix."""
    return [
        over_spreads(evidence, "output", OUTPUT, "wide", "clustered"),
        over_spreads(evidence, "rate-cluster", RATE, "cluster", "clustered"),
        over_spreads(evidence, "delay-cluster", DELAY_MS, "cluster", "clustered"),
        over_spreads(evidence, "rate-random", RATE, "wide", "random"),
        over_spreads(evidence, "input-random", INPUT, "wide", "random"),
        over_spreads(evidence, "delay-random", DELAY_MS, "wide", "random"),
        over_spreads(evidence, "hops-random", HOPS, "wide", "random"),
        over_spreads(evidence, "overhead-random", OVERHEAD, "wide", "random", (POP, LOAD, DELAY)),
    ]


def _path_lines(
    evidence: RelocationEvidence,
    setting: RelocationSetting,
    times: Callable[[Any], Iterable[tuple[int, int]]],
) -> list[tuple[str, Points]]:
    """Mean times over path lengths in ms, a line per distribution and spread."""
    lines: list[tuple[str, Points]] = []
    for distribution in DISTRIBUTIONS:
        runs = evidence.results.runs(evidence.where("wide", distribution), setting)
        for spread in PATH_SPREADS:
            if spread in runs:
                means = means_by_path(list(times(runs[spread])))
                points = [(float(hops), mean / 1000) for hops, mean in means.items()]
                lines.append((f"{distribution} X={spread}", points))
    return lines


def figure_6_paths(evidence: RelocationEvidence) -> list[Figure]:
    """Figures 6a to 6c: selections and waits over the length of the path."""
    axes = ("links between the publisher and the chosen broker", "ms, mean")
    timed = grape("delay", 1)
    waits = _path_lines(
        evidence, DELAY, lambda run: ((one.path_hops, one.wait_us) for one in run.migrations)
    )
    without = [
        (f"{name}, no pings", points)
        for name, points in _path_lines(
            evidence, timed, lambda run: selections_by_path(run, with_pings=False)
        )[::3]
    ]
    whole = _path_lines(evidence, timed, lambda run: selections_by_path(run, with_pings=True))
    data = evidence.dataset
    return [
        draw(f"{data}-6a", "6a Selection time of POP", "wide area", axes,
             _path_lines(evidence, POP, lambda run: selections_by_path(run, with_pings=True)),
             x_scale="linear"),
        draw(f"{data}-6b", "6b Selection time of GRAPE delay1",
             "wide area; with ping times, and the fetching of traces alone", axes,
             [*whole, *without], x_scale="linear"),
        draw(f"{data}-6c", "6c Publisher's wait while it moves", "wide area, GRAPE delay100",
             ("links of the path", "ms, mean"), waits, x_scale="linear"),
    ]  # fmt: skip


def figure_6(evidence: RelocationEvidence) -> list[Figure]:
    """Figures 6d to 6h: thresholds, over time."""

    def over_time(
        number: str, what: str, label: str, value: Callable[[Moment], float | None], system: System
    ) -> Figure:
        baseline = threshold_baseline(evidence)
        runs = [(f"{count}", run) for count, run in by_threshold(evidence, system).items()]
        if baseline is not None:
            runs.insert(0, ("baseline", baseline))
        lines = [
            (name, [(one.since_us / 60e6, value(one)) for one in run.timeline])
            for name, run in runs
        ]
        name = "POP" if system == "pop" else "GRAPE delay100"
        caption = f"{name} by threshold; cluster, clustered subscribers on 16 brokers"
        axes = ("minutes of publishing", label)
        return draw(f"{evidence.dataset}-{number}", f"{number} {what}", caption, axes, lines,
                    x_scale="linear", marks=False)  # fmt: skip

    return [
        over_time("6d", "GRAPE's delivery delay", "ms",
                  lambda one: None if one.delay_us is None else one.delay_us / 1000, "grape"),
        over_time("6e", "GRAPE's hop count", "hops per delivery", lambda one: one.hops, "grape"),
        over_time("6f", "GRAPE's message rate", "messages/s per broker",
                  lambda one: one.message_rate_per_s, "grape"),
        over_time("6g", "GRAPE's message overhead", "control messages, %",
                  lambda one: 100 * one.overhead, "grape"),
        over_time("6h", "POP's message overhead", "control messages, %",
                  lambda one: 100 * one.overhead, "pop"),
    ]  # fmt: skip


def quality(evidence: RelocationEvidence) -> list[Figure]:
    """Regret of every decision, sorted: the share of decisions by their distance from the best."""
    found = []
    figures: Sequence[tuple[Regretted, str]] = (("load", "load"), ("delay", "delay"))
    for distribution in DISTRIBUTIONS:
        where = evidence.where("wide", distribution)
        costs = costs_by_publisher(evidence.results.probes).get(where, {})
        for figure, name in figures:
            lines = []
            for setting in (POP, LOAD, DELAY):
                run = evidence.results.runs(where, setting).get(PROBED_SPREAD)
                values = sorted(
                    100 * value
                    for one in (run.selections if run else ())
                    if one.publisher in costs
                    and (value := regret(costs[one.publisher], one.target, figure)) is not None
                )
                shares = np.linspace(0, 100, len(values)) if len(values) > 1 else [100.0]
                points = [(float(x), y) for x, y in zip(shares, values, strict=False)]
                lines.append((setting.label, points))
            found.append(
                draw(
                    f"{evidence.dataset}-regret-{name}-{distribution}",
                    f"Regret in {name}, {distribution} subscribers",
                    f"wide area, X = {PROBED_SPREAD}; how far above the best of all brokers the "
                    "chosen one is",
                    ("% of decisions, best first", f"% more {name} than at the best broker"),
                    lines,
                    x_scale="linear",
                    marks=False,
                )
            )
    return found


def network_group(networks: Sequence[NetworkSummary]) -> StudyGroup:
    """Group tables about the growth of costs with the number of brokers."""
    axes = "brokers"

    def lines(
        systems: Sequence[str], value: Callable[[NetworkSummary], float | None]
    ) -> list[tuple[str, Points]]:
        return [
            (
                "baseline" if system == "tree" else system,
                [
                    (one.brokers, found)
                    for one in networks
                    if one.system == system and (found := value(one)) is not None
                ],
            )
            for system in systems
        ]

    both, all_three = ("grape", "pop"), ("tree", "grape", "pop")
    caption = "random subscribers, 10 publishers per broker at most 10,000, 10 subscribers each"
    drawings = [
        draw("scale-messages", "Tracing: control messages per publication", caption,
             (axes, "messages"), lines(both, lambda one: one.control_per_publication),
             x_scale="log"),
        draw("scale-cpu", "Processor time per broker passed", caption,
             (axes, "µs per message taken in"), lines(all_three, lambda one: one.cpu_per_hop_us),
             x_scale="log"),
        draw("scale-cpu-publication", "Processor time per publication", caption,
             (axes, "µs per publication, all brokers"),
             lines(all_three, lambda one: one.cpu_per_publication_us), x_scale="log"),
        draw("scale-memory", "Memory of tracing", caption,
             (axes, "kB per broker"),
             lines(both, lambda one: None if one.memory_bytes is None
                         else one.memory_bytes / one.brokers / 1000), x_scale="log"),
        draw("scale-selection", "GRAPE's selection time, virtual", caption, (axes, "ms, mean"),
             lines(("grape",), lambda one: None if one.selection_us is None
                   else one.selection_us / 1000),
             x_scale="log"),
        draw("scale-choosing", "GRAPE's choice alone, traces from every broker",
             "processor time of the planner on this machine, median", (axes, "ms"),
             lines(("grape",), lambda one: None if one.choosing_us is None
                   else one.choosing_us / 1000),
             x_scale="log", y_scale="log"),
    ]  # fmt: skip
    return _group("Scale", drawings)
