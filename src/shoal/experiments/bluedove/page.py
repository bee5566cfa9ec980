"""Makes the pages' content of finished runs: claims, figures 5 to 11, and a table of all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shoal.experiments.bluedove.claims import judge_all
from shoal.experiments.bluedove.evidence import BlueDoveEvidence
from shoal.experiments.bluedove.extras import data_figure, extra_tables
from shoal.experiments.bluedove.grid import (
    BLUEDOVE,
    DIMENSIONS,
    PEERS,
    SYSTEMS,
    BlueDoveScale,
    adverse_name,
    deviation_name,
    dimensions_name,
    engine_name,
    policy_name,
    rate_name,
    subscriptions_name,
)
from shoal.experiments.bluedove.runs import BlueDoveResult, ClusterRun, Series
from shoal.experiments.studies.drawing import draw, tabulate
from shoal.experiments.studies.runs import summaries
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.trace_rows import Columns
from shoal.report.study import Figure, StudyGroup, StudyReport, StudyTable

METRICS: Columns = {"run": "text", "metric": "text", "value": "double"}
TITLE = "BlueDove: the paper's evaluation, repeated"
NOTES = (
    "The same brokers that run live run here in the deterministic simulator, so times are virtual. "
    "A matcher has four cores and searches a linear index, as the paper's does: each publication "
    "takes a time in proportion to the subscriptions of the set it is matched against. Servers are "
    "slower than the paper's, and messages come more slowly by the same factor; rates are in the "
    "paper's units. Loads are reported each second all the same, so reports are fresher than the "
    "paper's by that factor, wherever a row says so.",
    "Claims are judged first with ranges moved inside the attributes and hot spots amid their "
    "quarters; then, as far as there are runs, with ranges cut off and hot spots from end to end, "
    "with ranges of 10 at one matcher each, with ranges round a ring, with a cost for each message "
    "beside that of the search, with loads reported more rarely, and with what our own engine "
    "takes, as measured. A cost for each delivery explains the paper better with ranges of 10 "
    "only, where a message has less than a thousandth of a delivery, so that none is simulated.",
    "Saturated is what makes response times grow linearly, seen in the slowest 2 % of the "
    "messages, or what makes more and more wait. Where forwarding does not look at loads the limit "
    "is arithmetic, checked by a trial below and one above. A message's response time ends when "
    "its dispatcher hears that it was matched, and so every message has one.",
    "A claim is met when our figure lies within a band on both sides of the paper's, beaten when "
    "it is better than that, and missed otherwise; each row says how wide the band is. What is "
    "missed says why that may be. Aims of our own are counted apart.",
    "Beyond the paper: dispatchers keep messages until they are matched and delivered, so none is "
    "lost when a matcher dies.",
)


def conclude(
    runs: Sequence[ClusterRun], scale: BlueDoveScale, data: Sequence[str] = ()
) -> Conclusion:
    """Draw the conclusion from finished runs; `data` are the names of the real data there are."""
    found = summaries(runs)
    evidence = BlueDoveEvidence({result.name: result for result in found}, scale)
    report = StudyReport(
        title=TITLE,
        scale=scale.name,
        facts=(
            f"{len(found)} of {len(runs)} runs",
            f"{scale.subscriptions:,} subscriptions",
            f"servers {scale.slowdown} times slower than the paper's",
            f"{min(scale.sizes)} to {scale.most} matchers with 4 cores, 2 dispatchers;"
            f" beyond the paper {max(scale.all_sizes)}",
        ),
        notes=NOTES,
        claims=tuple(judge_all(evidence)),
        tables=(*extra_tables(evidence, data), _table(evidence)),
        groups=tuple(_groups(evidence, data)),
    )
    return Conclusion(report, {"metrics": StudyRows(_metrics(found), METRICS)})


def _metrics(found: Sequence[BlueDoveResult]) -> list[dict[str, Any]]:
    return [
        {"run": result.name, "metric": key, "value": value}
        for result in found
        for key, value in result.values.items()
    ]


def _table(evidence: BlueDoveEvidence) -> StudyTable:
    rows = (
        (row["run"], row["metric"].replace("_", " "), _digits(row["value"]))
        for row in _metrics(list(evidence.results.values()))
    )
    caption = "What each run measured; rates and subscriptions in the paper's units."
    return tabulate("All runs", caption, ("run", "figure", "value"), rows)


def _digits(value: float) -> str:
    """To four digits, and thousands in full.

    >>> _digits(35_274.6), _digits(0.241_73)
    ('35,275', '0.2417')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _groups(evidence: BlueDoveEvidence, data: Sequence[str]) -> Iterator[StudyGroup]:
    scale = evidence.scale
    whole = evidence.results.get(evidence.whole)
    peers = evidence.results.get(rate_name(PEERS, scale.most))
    profile = {} if whole is None else whole.series

    def systems(
        sizes: Sequence[int],
        name: Callable[[str, int], str],
        key: str = "rate_per_s",
        which: Sequence[str] = SYSTEMS,
    ) -> dict[str, Series]:
        return {
            system: _points(evidence, sizes, lambda n, s=system: name(s, n), key)
            for system in which
        }

    yield _group(
        "Response time and capacity",
        _figure("figure-5", "Figure 5: response time below and above saturation",
                ("time, s", "response time, ms"),
                {name: profile.get(name, []) for name in ("below", "above")},
                x_scale="linear", y_scale="log"),
        _figure("figure-6a", "Figure 6a: saturation rate", ("matchers", "messages/s"),
                systems(scale.sizes, rate_name)),
        _figure("figure-6b", "Figure 6b: most subscriptions at 100,000 messages/s",
                ("matchers", "subscriptions"),
                systems(scale.subscription_sizes, subscriptions_name, "subscriptions")),
    )  # fmt: skip
    yield _group(
        "Forwarding and load",
        _figure("figure-7", "Figure 7: saturation rate by policy (1 random, 2 subscription "
                "amount, 3 response time, 4 adaptive)", ("policy", "messages/s"),
                {"bluedove": _policies(evidence)}),
        _figure("figure-8", "Figure 8: load of each matcher just below saturation",
                ("matcher", "share of cores busy"),
                {"bluedove": profile.get("load", []),
                 "peer-to-peer": [] if peers is None else peers.series.get("load", [])},
                x_scale="linear"),
    )  # fmt: skip
    yield _group("Elasticity and faults", *_timelines(evidence))
    yield _group("Workloads", *_workloads(evidence))
    yield _group(
        "Beyond the paper",
        _figure("beyond-20", "Saturation rate with hundreds of matchers",
                ("matchers", "messages/s"),
                systems(scale.all_sizes, rate_name, which=(BLUEDOVE, PEERS)), y_scale="log"),
        _figure("engine", "Figure 6a with the costs of our own engine", ("matchers", "messages/s"),
                systems(scale.sizes, lambda s, n: engine_name(rate_name(s, n))), y_scale="log"),
        *([_figure(*data_figure(evidence, data), y_scale="log")] if data else []),
    )  # fmt: skip


def _timelines(evidence: BlueDoveEvidence) -> Iterator[Figure]:
    for name, number, title, marks in (
        ("elasticity", 9, "response time while load rises and matchers are added", "added"),
        ("faults", 10, "response time while matchers die", "killed"),
    ):
        result = evidence.results.get(name)
        series = {} if result is None else result.series
        lines = {"response time": series.get("response", []), marks: series.get(marks, [])}
        yield _figure(f"figure-{number}", f"Figure {number}: {title}",
                      ("time, s", "response time, ms"), lines, x_scale="linear")  # fmt: skip


def _workloads(evidence: BlueDoveEvidence) -> Iterator[Figure]:
    scale, whole = evidence.scale, evidence.whole
    usual = scale.deviations[0]
    varied: Sequence[tuple[str, str, str, Sequence[float], Callable[[Any], str]]] = (
        ("11a", "searchable dimensions", "dimensions", scale.dimensions,
         lambda n: whole if n == DIMENSIONS else dimensions_name(n)),
        ("11b", "less skewed subscriptions", "standard deviation", scale.deviations,
         lambda n: whole if n == usual else deviation_name(n)),
        ("11c", "adversely skewed messages", "skewed dimensions", scale.adverse,
         lambda n: adverse_name(n) if n else whole),
    )  # fmt: skip
    for number, title, label, values, name in varied:
        yield _figure(f"figure-{number}", f"Figure {number}: {title}", (label, "messages/s"),
                      {"bluedove": _points(evidence, values, name)})  # fmt: skip


def _policies(evidence: BlueDoveEvidence) -> Series:
    names = [policy_name(policy) for policy in Policy if policy is not Policy.ADAPTIVE]
    return [
        (float(number), evidence.value(name))
        for number, name in enumerate([*names, evidence.whole], start=1)
    ]


def _points(
    evidence: BlueDoveEvidence, values: Sequence[float], name: Any, key: str = "rate_per_s"
) -> Series:
    return [(float(value), evidence.value(name(value), key)) for value in values]


def _group(title: str, *figures: Figure) -> StudyGroup:
    return StudyGroup(title=title, figures=figures)


def _figure(
    id: str,
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, Series],
    x_scale: str = "steps",
    y_scale: str = "linear",
) -> Figure:
    """Make a figure with a complete title; marks if x is in steps."""
    return draw(id, title, title, axes, lines.items(), x_scale=x_scale, y_scale=y_scale,
                marks=x_scale == "steps")  # fmt: skip
