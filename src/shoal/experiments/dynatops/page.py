"""Makes the pages' content of finished runs: claims, figures 6 to 10, and tables beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shoal.experiments.dynatops.claims import CLAIMS
from shoal.experiments.dynatops.evidence import DynatopsEvidence, having
from shoal.experiments.dynatops.grid import (
    BY_CHANCE,
    BY_PLACE,
    CHANGE_RATES,
    CLUSTERS,
    FLYING,
    FREE_HOURS,
    PATTERNS,
    RATES,
    DynatopsScale,
    Part,
)
from shoal.experiments.dynatops.judges import NAMES
from shoal.experiments.dynatops.model import Slot
from shoal.experiments.dynatops.plans import PlanRun
from shoal.experiments.dynatops.runs import DynatopsModelRun, Hours
from shoal.experiments.dynatops.setting import DynatopsSetting
from shoal.experiments.studies.claims import VERDICTS_NOTE, judge_claims
from shoal.experiments.studies.drawing import Points, draw, tabulate
from shoal.experiments.studies.runs import summaries
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.overlays.trace_rows import Columns
from shoal.report.study import Figure, StudyGroup, StudyReport, StudyTable

TITLE = "DYNATOPS: the paper's evaluation, repeated"
LOOKS = {NAMES[what]: number for number, what in enumerate(NAMES)}
NOTES = (
    "Users are placed and brokers change places by the planner's own functions; what messages "
    "would be sent follows from the trees, and none is. Simulated brokers send the very messages "
    "that are counted here, with the same delays.",
    "The paper does not say how often topics are published to, nor the weights: 10 an hour, and 1. "
    "Both are varied in tables.",
    "Delays count from the root on, in hops where all brokers are equally far apart, else in mean "
    "round trips, that between the user and its broker included.",
    "Bayeux's identifiers have binary digits, so that its tables are as large as Chord's; larger "
    "ones are in a table.",
    VERDICTS_NOTE,
)
METRICS: Columns = {
    "part": "text", "system": "text", "users": "text", "pattern": "text", "cluster": "integer",
    "load_weight": "double", "change_rate": "double", "free_hours": "integer", "rate": "double",
    "hour": "integer", **dict.fromkeys(Slot._fields, "double"),
}  # fmt: skip


def conclude(
    models: Sequence[DynatopsModelRun], plans: Sequence[PlanRun], scale: DynatopsScale, users: str
) -> Conclusion:
    """Draw the conclusion from finished runs; `users` names the source of the users' paths."""
    evidence = DynatopsEvidence(summaries(models), summaries(plans))
    done = len(evidence.found) + len(evidence.planned)
    report = StudyReport(
        title=TITLE,
        scale=scale.name,
        facts=(
            f"{done} of {len(models) + len(plans)} runs",
            f"{scale.located:,} users in {scale.columns} x {scale.rows} cells; {users}",
            f"{scale.users:,} users without places, {scale.brokers} brokers, {scale.topics} topics",
        ),
        notes=NOTES,
        claims=tuple(judge_claims(CLAIMS, evidence, users)),
        tables=(
            _table(evidence, "location", BY_PLACE, "Users with places"),
            _table(evidence, "poisson", BY_CHANCE, "Users without places, fast change"),
            _table(evidence, "hybrid", ["hybrid"], "Gateways of clusters on the ring"),
            _table(evidence, "interests", BY_CHANCE, "Users of a file of interests"),
            _table(evidence, "aircraft", FLYING, "Users that fly"),
            _rates(evidence),
            _bases(evidence),
            _readings(evidence),
            _plans(evidence),
        ),
        groups=(
            StudyGroup(title="Users with places", figures=tuple(_by_cluster(evidence))),
            StudyGroup(title="Users without places", figures=tuple(_by_change(evidence))),
            StudyGroup(title="Time between two looks", figures=tuple(_by_time(evidence))),
        ),
    )
    return Conclusion(report, {"hours": StudyRows(list(_rows(evidence.found)), METRICS)})


def _rows(found: Sequence[Hours]) -> Iterator[dict[str, Any]]:
    for one in found:
        setting = one.setting
        run = {
            "part": one.part,
            "system": setting.what,
            "users": setting.users_are,
            "pattern": setting.pattern,
            "cluster": setting.cluster,
            "load_weight": setting.load_weight,
            "change_rate": setting.change_rate,
            "free_hours": setting.free_hours,
            "rate": setting.rate,
        }
        for hour, slot in enumerate(one.slots):
            yield run | {"hour": hour} | {k: float(v) for k, v in slot._asdict().items()}


# --- figures ------------------------------------------------------------------------------------


def _by_cluster(evidence: DynatopsEvidence) -> Iterator[Figure]:
    for id, title, label, field in (
        ("6a", "Figure 6a: changing subscriptions", "messages", "subscribing"),
        ("6c", "Figure 6c: handovers", "handovers", "handovers"),
        ("6d", "Figures 6d, 6f: delay", "mean round trips", "delay"),
        ("6e", "Figures 6e, 6f: messages", "for each publication", "overhead"),
    ):
        lines: list[tuple[str, Points]] = []
        for what in BY_PLACE:
            fixed = evidence.run("location", what)
            points = [
                (size, _value(one, field))
                for size in CLUSTERS
                if (one := evidence.run("cluster", what, having(cluster=size)) or fixed)
            ]
            lines.append((NAMES[what], points))
        caption = "by how many brokers see each other; systems without clusters are level"
        yield draw(id, title, caption, ("brokers of a cluster", label), lines, looks=LOOKS)


def _by_change(evidence: DynatopsEvidence) -> Iterator[Figure]:
    for id, title, label, field in (
        ("7a", "Figure 7a: topics that brokers begin or cease to want", "changes", "changes"),
        ("7b", "Figure 7b: delay", "hops", "delay"),
        ("7c", "Figure 7c: messages", "for each publication", "overhead"),
        ("7d", "Figure 7d: changing the overlay", "messages, links", "reconfiguring"),
    ):
        lines: list[tuple[str, Points]] = [
            (
                NAMES[what],
                [
                    (rate, _value(one, field))
                    for rate in CHANGE_RATES
                    if (one := evidence.run("poisson", what, having(change_rate=rate)))
                ],
            )
            for what in BY_CHANCE
        ]
        caption = "by topics that a user replaces in an hour; multimodal"
        yield draw(id, title, caption, ("changes", label), lines, looks=LOOKS)
    yield _by_pattern(evidence)


def _by_pattern(evidence: DynatopsEvidence) -> Figure:
    lines: list[tuple[str, Points]] = [
        (
            NAMES[what],
            [
                (number, one.overhead)
                for number, pattern in enumerate(PATTERNS, 1)
                if (one := evidence.run("pattern", what, having(pattern=pattern)))
            ],
        )
        for what in BY_CHANCE
    ]
    caption = ", ".join(f"{number}: {pattern}" for number, pattern in enumerate(PATTERNS, 1))
    axes = ("pattern", "messages for each publication")
    return draw("8b", "Figure 8b: messages by pattern", caption, axes, lines, looks=LOOKS)


def _by_time(evidence: DynatopsEvidence) -> Iterator[Figure]:
    for id, title, label, field in (
        ("9a", "Figure 9: messages", "for each publication", "overhead"),
        ("9b", "Figure 9: reconfiguration", "messages", "reconfiguring"),
    ):
        lines: list[tuple[str, Points]] = [
            (
                f"users {'with' if users == 'location' else 'without'} places",
                [
                    (hours, _value(one, field))
                    for hours in FREE_HOURS
                    if (
                        one := evidence.run(
                            "free",
                            "dynatops",
                            having(free_hours=hours, users_are=users),
                        )
                    )
                ],
            )
            for users in ("location", "poisson")
        ]
        yield draw(id, title, "by hours between two looks", ("hours", label), lines)


def _value(one: Hours, field: str) -> float:
    return float(getattr(one, field)) if field in ("delay", "overhead") else one.sum(field)


# --- tables -------------------------------------------------------------------------------------


def _row(name: str, one: Hours) -> list[str]:
    return [
        name,
        f"{one.sum('subscribing'):,.0f}",
        f"{one.sum('changes'):,.0f}",
        f"{one.sum('handovers'):,.0f}",
        f"{one.overhead:.1f}",
        f"{one.delay:.2f}",
        f"{one.sum('reconfiguring'):,.0f}",
        f"{one.sum('moved'):,.0f}",
        f"{one.deviation:.2f}",
    ]


COLUMNS = (
    "subscribing", "topics changed", "handovers", "messages", "delay", "reconfiguring", "moves",
    "deviation",
)  # fmt: skip


def _table(evidence: DynatopsEvidence, part: Any, whats: Sequence[Any], title: str) -> StudyTable:
    rows = [
        _row(NAMES[what], one)
        for what in whats
        if (one := evidence.run(part, what, having(change_rate=CHANGE_RATES[-1])))
    ]
    return tabulate(
        title,
        "Messages that change trees or say what brokers have; topics that brokers began or ceased "
        "to want; users who changed brokers; messages and delay of a publication; messages for "
        "reconfiguration (of TCO: links), brokers that moved; deviation of loads by their mean.",
        ("system", *COLUMNS),
        rows,
    )


def _rates(evidence: DynatopsEvidence) -> StudyTable:
    rows = [
        [f"{rate:g}", *_row(NAMES[what], one)]
        for rate in RATES
        for what in ("up", "dynatops")
        if (one := evidence.run("rate", what, having(rate=rate)))
    ]
    return tabulate(
        "How often topics are published to",
        "Publications per topic and hour; brokers move once it pays.",
        ("rate", "system", *COLUMNS),
        rows,
    )


def _bases(evidence: DynatopsEvidence) -> StudyTable:
    rows = [
        [f"{one.setting.base}", *_row(NAMES[one.setting.what], one)]
        for one in evidence.found
        if one.part == "base"
    ]
    return tabulate(
        "Bayeux with larger digits",
        "Its tables grow with the base, and its ways become shorter.",
        ("base", "system", *COLUMNS),
        rows,
    )


def _readings(evidence: DynatopsEvidence) -> StudyTable:
    """Tabulate choices that the paper leaves open, with other values than in the other tables."""
    of: dict[Part, Callable[[DynatopsSetting], str]] = {
        "update": lambda one: f"summaries every {one.update_hours} h, clusters of {one.cluster}",
        "own": lambda one: f"own broker: {one.own}, users {one.users_are}",
        "planner": lambda one: "swaps that each pay",
        "goal": lambda one: f"few {one.goal}, {one.pattern}",
    }
    rows = [
        [of[one.part](one.setting), *_row(NAMES[one.setting.what], one)]
        for one in evidence.found
        if one.part in of
    ]
    return tabulate(
        "Other readings",
        "How often brokers say what they have (else every hour); what a user's own broker counts "
        "of itself: what it has now, with the user's topics or without (else what it last said); "
        "brokers that change places as long as each swap saves more than the messages it takes; "
        "whether TCO's links are few (else the neighbours of the broker that has most).",
        ("reading", "system", *COLUMNS),
        rows,
    )


def _plans(evidence: DynatopsEvidence) -> StudyTable:
    rows = [
        [one.case.pattern, f"{one.case.brokers:,}", f"{one.case.topics:,}", f"{one.swaps}",
         f"{100 * one.saving:.1f} %", f"{one.seconds:.3g} s"]
        for one in evidence.plans()
    ]  # fmt: skip
    return tabulate(
        "Figure 10 and table 1: plans",
        "Against consistent hashing; seconds of processor time. The paper takes 96 s for 1,000 "
        "brokers and 100 topics, 1.9 s for 100 brokers and 5,000 topics.",
        ("subscriptions", "brokers", "topics", "swaps", "cost saved", "time"),
        rows,
    )
