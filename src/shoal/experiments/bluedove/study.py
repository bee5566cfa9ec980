"""From finished runs to what the reports read: claims, figures 5 to 11, and a table of all runs.

`study.json` holds what the pages show, in the form that `shoal.report.study` declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shoal.experiments.bluedove.claims import judge_all
from shoal.experiments.bluedove.evidence import Evidence
from shoal.experiments.bluedove.extras import data_figure, extra_tables
from shoal.experiments.bluedove.grid import (
    BLUEDOVE,
    DIMENSIONS,
    PEERS,
    SYSTEMS,
    Scale,
    adverse_name,
    deviation_name,
    dimensions_name,
    engine_name,
    policy_name,
    rate_name,
    subscriptions_name,
)
from shoal.experiments.bluedove.runs import Run, Series
from shoal.experiments.claims import Finding
from shoal.overlays.bluedove.cluster.forwarding import Policy

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
    "with ranges of 10 at one matcher each, with loads reported more rarely, and with what our own "
    "engine takes, as measured.",
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


def write_study(
    root: Path, runs: Sequence[Run], scale: Scale, data: Sequence[str] = ()
) -> list[Finding]:
    """Read the runs' results and write the study; the findings in the order of the claims.

    `data` are the names of the real data that there are runs of.
    """
    found = {run.name: run.result for run in runs}
    results = {name: result for name, result in found.items() if result is not None}
    evidence = Evidence(results, scale)
    findings = judge_all(evidence)
    study = {
        "title": TITLE,
        "facts": [
            f"scale {scale.name}",
            f"{len(results)} runs",
            f"{scale.subscriptions:,} subscriptions",
            f"servers {scale.slowdown} times slower than the paper's",
            f"{min(scale.sizes)} to {scale.most} matchers with 4 cores, 2 dispatchers;"
            f" beyond the paper {max(scale.all_sizes)}",
        ],
        "notes": NOTES,
        "claims": [msgspec.to_builtins(one) for one in findings],
        "tables": [*extra_tables(evidence, data), _table(evidence)],
        "groups": _groups(evidence, data),
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "study.json").write_bytes(msgspec.json.encode(study))
    return findings


def _table(evidence: Evidence) -> dict[str, Any]:
    rows = [
        [name, key.replace("_", " "), f"{value:,.4g}"]
        for name, result in evidence.results.items()
        for key, value in result.values.items()
    ]
    return {
        "title": "All runs",
        "caption": "What each run measured; rates and subscriptions in the paper's units.",
        "columns": ["run", "figure", "value"],
        "rows": rows,
    }


def _groups(evidence: Evidence, data: Sequence[str]) -> list[dict[str, Any]]:
    scale = evidence.scale
    whole = evidence.results.get(evidence.whole)
    peers = evidence.results.get(rate_name("peer-to-peer", scale.most))
    profile = {} if whole is None else whole.series
    return [
        _group(
            "Response time and capacity",
            _figure("figure-5", "Figure 5: response time below and above saturation",
                    "time, s", "response time, ms",
                    {name: profile.get(name, []) for name in ("below", "above")},
                    scale="linear", y_scale="log"),
            _figure("figure-6a", "Figure 6a: saturation rate", "matchers", "messages/s",
                    {system: _points(evidence, scale.sizes, lambda n, s=system: rate_name(s, n))
                     for system in SYSTEMS}),
            _figure("figure-6b", "Figure 6b: most subscriptions at 100,000 messages/s",
                    "matchers", "subscriptions",
                    {system: _points(evidence, scale.subscription_sizes,
                                     lambda n, s=system: subscriptions_name(s, n),
                                     "subscriptions") for system in SYSTEMS}),
        ),
        _group(
            "Forwarding and load",
            _figure("figure-7", "Figure 7: saturation rate by policy (1 random, 2 subscription "
                    "amount, 3 response time, 4 adaptive)", "policy", "messages/s",
                    {"bluedove": _policies(evidence)}),
            _figure("figure-8", "Figure 8: load of each matcher just below saturation", "matcher",
                    "share of cores busy",
                    {"bluedove": profile.get("load", []),
                     "peer-to-peer": [] if peers is None else peers.series.get("load", [])},
                    scale="linear"),
        ),
        _group("Elasticity and faults", *_timelines(evidence)),
        _group("Workloads", *_workloads(evidence)),
        _group(
            "Beyond the paper",
            _figure("beyond-20", "Saturation rate with hundreds of matchers", "matchers",
                    "messages/s",
                    {system: _points(evidence, scale.all_sizes, lambda n, s=system: rate_name(s, n))
                     for system in (BLUEDOVE, PEERS)}, y_scale="log"),
            _figure("engine", "Figure 6a with the costs of our own engine", "matchers",
                    "messages/s",
                    {system: _points(evidence, scale.sizes,
                                     lambda n, s=system: engine_name(rate_name(s, n)))
                     for system in SYSTEMS}, y_scale="log"),
            *([_figure(*data_figure(evidence, data), y_scale="log")] if data else []),
        ),
    ]  # fmt: skip


def _timelines(evidence: Evidence) -> Iterable[dict[str, Any]]:
    for name, number, title, marks in (
        ("elasticity", 9, "response time while load rises and matchers are added", "added"),
        ("faults", 10, "response time while matchers die", "killed"),
    ):
        result = evidence.results.get(name)
        series = {} if result is None else result.series
        lines = {"response time": series.get("response", []), marks: series.get(marks, [])}
        yield _figure(f"figure-{number}", f"Figure {number}: {title}", "time, s",
                      "response time, ms", lines, scale="linear")  # fmt: skip


def _workloads(evidence: Evidence) -> Iterable[dict[str, Any]]:
    scale, whole = evidence.scale, evidence.whole
    yield _figure(
        "figure-11a",
        "Figure 11a: searchable dimensions",
        "dimensions",
        "messages/s",
        {
            "bluedove": _points(
                evidence,
                scale.dimensions,
                lambda n: whole if n == DIMENSIONS else dimensions_name(n),
            )
        },
    )
    yield _figure(
        "figure-11b",
        "Figure 11b: less skewed subscriptions",
        "standard deviation",
        "messages/s",
        {
            "bluedove": _points(
                evidence,
                scale.deviations,
                lambda n: whole if n == scale.deviations[0] else deviation_name(n),
            )
        },
    )
    yield _figure(
        "figure-11c", "Figure 11c: adversely skewed messages", "skewed dimensions", "messages/s",
        {"bluedove": _points(evidence, scale.adverse,
                             lambda n: adverse_name(n) if n else whole)})  # fmt: skip


def _policies(evidence: Evidence) -> Series:
    names = [policy_name(policy) for policy in Policy if policy is not Policy.ADAPTIVE]
    return [
        (float(number), evidence.value(name))
        for number, name in enumerate([*names, evidence.whole], start=1)
    ]


def _points(
    evidence: Evidence, values: Sequence[float], name: Any, key: str = "rate_per_s"
) -> Series:
    return [(float(value), evidence.value(name(value), key)) for value in values]


def _group(title: str, *figures: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "figures": list(figures)}


def _figure(
    id: str,
    title: str,
    x_label: str,
    y_label: str,
    lines: dict[str, Series],
    *,
    scale: str = "steps",
    y_scale: str = "linear",
) -> dict[str, Any]:
    return {
        "id": id,
        "title": title,
        "caption": title,
        "x_label": x_label,
        "y_label": y_label,
        "x_scale": scale,
        "y_scale": y_scale,
        "marks": scale == "steps",
        "lines": [{"name": name, "points": points} for name, points in lines.items() if points],
    }
