"""Makes the pages' content of finished runs: claims, figures 9, 11 and 12, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.experiments.octopia.claims import CLAIMS, NAMES, VARIED
from shoal.experiments.octopia.evidence import OctopiaEvidence
from shoal.experiments.octopia.grid import OURS, PAPERS, RATES, OctopiaScale, Part, Way
from shoal.experiments.octopia.runs import OctopiaMeasures, OctopiaRun
from shoal.experiments.studies.claims import VERDICTS_NOTE, judge_claims
from shoal.experiments.studies.drawing import Points, draw, tabulate
from shoal.experiments.studies.runs import Task
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.overlays.trace_rows import Columns
from shoal.report.amounts import percent
from shoal.report.study import Figure, StudyGroup, StudyReport, StudyTable

TITLE = "OctopiA: the paper's evaluation, repeated"
LOOKS = {name: number for number, name in enumerate(NAMES.values())}
NOTES = (
    "Figure 10's shape is lost: its tree is taken as a path of four brokers with three, two, two "
    "and three more, times five clusters. Clients stand at random brokers.",
    "The paper says no costs. Its 70 brokers had 72 cores and links of 10 Gb/s, and sent "
    "serialised Java objects. So a broker sends one copy at a time, of each link's queue in turn. "
    "A copy takes 2 ms, as the paper's queues of 17 minutes after 100,000 notifications say, of "
    "each of which the host makes five copies; taking a message in takes 0.1 ms, matching another "
    "0.1 ms, a link 0.2 ms. Advertisements and subscriptions take 1 ms on an output of their own, "
    "and a subscription is held against every row of a broker's SRT before it goes on, 0.01 ms "
    "each. The 2 ms are varied, and so is who sends: where each link does a copy takes 10 ms.",
    "A subscription overlaps what two of a hundred publishers advertise (2 %), and half of their "
    "notifications match it: the paper's 300,000 notifications are 6 million deliveries, not 12. "
    "That share is varied. It is drawn in an attribute of its own, so figures should be the same "
    "whatever data there are.",
    "Scale small has bursts of 1,000 notifications, a hundredth of the paper's, and all that is "
    "published beside them is as much shorter; where something is varied it is half of that.",
    "IDR takes equation 10 as the paper has it; steady is our rule of congestion, without its "
    "flaw; in order is the default, where each publisher's order is kept.",
    VERDICTS_NOTE,
)
MOST_POINTS = 400
METRICS: Columns = {
    "data": "text", "part": "text", "way": "text", "varied": "integer", "metric": "text",
    "value": "double",
}  # fmt: skip


def conclude(runs: Sequence[Task], scale: OctopiaScale, described: Mapping[str, str]) -> Conclusion:
    """Draw the conclusion from finished runs; `described` has a text for each data set."""
    found = [one for run in runs if isinstance(run, OctopiaRun) and (one := run.summary)]
    evidence = [
        OctopiaEvidence([one for one in found if one.data == name], name) for name in described
    ]
    report = StudyReport(
        title=TITLE,
        scale=scale.name,
        facts=(
            f"{len(found)} of {len(runs)} runs",
            "70 brokers, 100 publishers, 2,000 subscribers",
            *described.values(),
        ),
        notes=NOTES,
        claims=tuple(
            finding for each in evidence for finding in judge_claims(CLAIMS, each, each.name)
        ),
        tables=tuple(table for each in evidence for table in _tables(each) if table.rows),
        groups=tuple(
            StudyGroup(title=f"Figures ({each.name})", figures=figures)
            for number, each in enumerate(evidence)
            if (figures := tuple(_figures(each, f"{number}")))
        ),
    )
    return Conclusion(report, {"metrics": StudyRows(list(_rows(found)), METRICS)})


def _rows(found: Sequence[OctopiaMeasures]) -> Iterator[dict[str, Any]]:
    for one in found:
        setting = one.setting
        run = {
            "data": one.data,
            "part": setting.part,
            "way": setting.way,
            "varied": getattr(setting, VARIED[setting.part]),
        }
        for metric, value in one.figures.items():
            yield {**run, "metric": metric, "value": value}


# --- figures ------------------------------------------------------------------------------------

SPREAD: Sequence[tuple[str, Part, str, str, str]] = (
    ("9a", "publishers", "delay_ms", "advertisement delay", "ms"),
    ("9b", "publishers", "srt", "rows in an SRT", "rows"),
    ("9c", "publishers", "messages", "messages for an advertisement", "messages"),
    ("11a", "subscribers", "delay_ms", "subscription delay", "ms"),
    ("11b", "subscribers", "prt", "rows in a PRT", "rows"),
    ("11c", "subscribers", "messages", "messages for a subscription", "messages"),
)


def _figures(evidence: OctopiaEvidence, number: str) -> Iterator[Figure]:
    ends: Sequence[tuple[Way, str]] = (("tid", "TID"), ("ordered", "OctopiA"))
    for name, part, metric, title, unit in SPREAD:
        lines: list[tuple[str, Points]] = []
        for way, label in ends:
            runs = evidence.by(part, "count", way)
            lines.append((label, [(at, one.figures[metric]) for at, one in runs.items()]))
        if any(points for _, points in lines):
            yield draw(
                f"{number}-figure-{name}",
                f"Figure {name}: {title}",
                "in the mean",
                (part, unit),
                lines,
            )
    for rate in RATES:
        ways: list[tuple[str, Points]] = []
        for way in (*PAPERS, *OURS):
            run = evidence.by("burst", "rate", way).get(rate)
            if run is not None:
                ways.append((NAMES[way], _thinned(run.series)))
        if ways:
            yield draw(
                f"{number}-figure-12-{rate}",
                f"Figure 12: {rate // 1000} K a minute",
                "the longest delay of deliveries in a row, as many as the paper's 1,000 at this "
                "scale",
                ("deliveries in a row", "s"),
                ways,
                looks=LOOKS,
                x_scale="linear",
                marks=False,
            )


def _thinned(series: Sequence[float]) -> Points:
    """The longest of as many neighbours as leave `MOST_POINTS`."""
    step = max(1, -(-len(series) // MOST_POINTS))
    return [(start, max(series[start : start + step])) for start in range(0, len(series), step)]


# --- tables -------------------------------------------------------------------------------------

# The varied parameter, as the head of its column.
COLUMNS: Mapping[Part, str] = {
    "burst": "a minute",
    "output": "µs a copy",
    "links": "µs a copy",
    "matched": "% match",
    "uneven": "µs a link",
    "loaded": "µs between",
    "clusters": "clusters",
    "sources": "bursts",
}


def _tables(evidence: OctopiaEvidence) -> Iterator[StudyTable]:
    yield _burst_table(evidence, "burst", "Bursts", "By notifications a minute of the burst.")
    yield _burst_table(evidence, "output", "Quicker and slower outputs",
                       "By how long a copy takes on an output, in µs; 100 K a minute.")  # fmt: skip
    yield _burst_table(evidence, "links", "Each link sends by itself",
                       "By how long a copy takes on a link, in µs; 100 K a minute.")  # fmt: skip
    yield _burst_table(evidence, "matched", "More and less that matches",
                       "By which percentage of what overlaps; 100 K a minute.")  # fmt: skip
    yield _subscriptions_table(
        evidence, "uneven", "Uneven links", "where links take from 200 µs to so many, at random"
    )
    yield _subscriptions_table(
        evidence,
        "loaded",
        "Load while advertisements spread",
        "behind advertisements that came one each so many µs (II)",
    )
    yield _burst_table(evidence, "clusters", "From 2 to 6 clusters", "By k; 100 K a minute.")
    yield _burst_table(evidence, "sources", "Several bursts at a time", "By how many.")


def _burst_table(evidence: OctopiaEvidence, part: Part, title: str, caption: str) -> StudyTable:
    rows = []
    ways: tuple[Way, ...] = (*PAPERS, *OURS)
    for way in ways:
        for value, one in evidence.by(part, VARIED[part], way).items():
            figures = one.figures
            rows.append((
                f"{value:,}", NAMES[way],
                f"{figures['mean_s']:.2f}", f"{figures['burst_mean_s']:.2f}",
                f"{figures['most_s']:.1f}", f"{figures['stable_s']:.0f}",
                percent(figures["within_1_s"]), f"{figures['waiting']:,.0f}",
                f"{figures['copies']:.1f}", percent(figures["overtaken"]),
            ))  # fmt: skip
    return tabulate(
        f"{title} ({evidence.name})",
        f"{caption} Delays in s: of all, of the burst alone, the longest; when all are below 1 s "
        "for good; then the share that is, what waits at the host's outputs to other clusters in "
        "the mean, copies of a publication, and deliveries behind a later one.",
        (
            COLUMNS[part],
            "routing",
            "mean",
            "burst",
            "longest",
            "stable",
            "< 1 s",
            "waits",
            "copies",
            "overtaken",
        ),
        sorted(rows, key=lambda row: int(row[0].replace(",", ""))),
    )


def _subscriptions_table(
    evidence: OctopiaEvidence, part: Part, title: str, condition: str
) -> StudyTable:
    rows = []
    ends: tuple[Way, ...] = ("tid", "ordered")
    for way in ends:
        for value, one in evidence.by(part, VARIED[part], way).items():
            figures = one.figures
            name = "TID" if way == "tid" else "OctopiA"
            measured = (figures["delay_ms"], figures["prt"], figures["messages"])
            rows.append((f"{value:,}", name, *(f"{each:.1f}" for each in measured)))
    return tabulate(
        f"{title} ({evidence.name})",
        f"Subscriptions {condition}: how long one takes to all brokers that keep it, in ms, rows "
        "in a PRT, messages for each.",
        (COLUMNS[part], "routing", "delay", "rows", "messages"),
        sorted(rows, key=lambda row: int(row[0].replace(",", ""))),
    )
