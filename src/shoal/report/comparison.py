"""The comparison of runs in words and as a table: every metric, its unit, its meaning.

The first run is the reference; a change is given in percent of it, and called better or worse
only past half a percent.

>>> verdict(0.96, 1.0), verdict(1.001, 1.0), verdict(1.2, 1.0), verdict(None, 1.0)
('better', '', 'worse', '')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.report.chance import verdicts
from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.exchanges import only_recommends
from shoal.report.inputs import ReportRun
from shoal.report.remarks import remarks
from shoal.report.settings import without_effect

# A smaller change is drowned by which publications happened to be traced first.
NOTEWORTHY = 0.005
# With more runs than this, changes stand below the figures instead of beside them.
WIDE = 4


class Metric(NamedTuple):
    """A row of the table; where `compared`, less is better."""

    label: str
    column: str
    show: Callable[[float | None], str]
    unit: str
    meaning: str
    compared: bool = True


GROUPS: Sequence[tuple[str, Sequence[Metric]]] = (
    (
        "Load",
        (
            Metric("Broker message rate", "message_rate_per_s", figures.quantity, "messages/s",
                   "messages that come in at a broker per second, publications and control "
                   "messages, averaged over all brokers and the time from the first publication "
                   "to the last"),
            Metric("… once settled", "settled_message_rate_per_s", figures.quantity, "messages/s",
                   "the same over the last third of that time, when most moves are made"),
            Metric("Output rate", "output_rate_per_s", figures.quantity, "messages/s",
                   "messages that a broker sends per second, to brokers and to subscribers, "
                   "averaged over brokers"),
            Metric("Input utilisation", "input_utilisation", figures.percent, "",
                   "share of time in which a broker is busy with its input; the paper's input "
                   "load"),
            Metric("Output utilisation", "output_utilisation", figures.percent, "",
                   "share of time in which a broker is busy transmitting"),
        ),
    ),
    (
        "Delay",
        (
            Metric("Delivery delay, mean", "delay_mean_us", figures.milliseconds, "ms",
                   "from publishing to the subscriber having it, over all deliveries"),
            Metric("… median", "delay_p50_us", figures.milliseconds, "ms",
                   "half of the deliveries take no longer"),
            Metric("… 99th percentile", "delay_p99_us", figures.milliseconds, "ms",
                   "99 of 100 deliveries take no longer"),
            Metric("… mean once settled", "settled_delay_mean_us", figures.milliseconds, "ms",
                   "the mean over the last third of the run"),
            Metric("Hops, mean", "hops_mean", figures.quantity, "",
                   "links between brokers that a delivery travels"),
        ),
    ),
    (
        "Price of rearranging",
        (
            Metric("Publisher moves", "migrations", figures.count, "",
                   "how often a publisher was moved to another broker", False),
            Metric("Subscription moves", "subscriber_moves", figures.count, "",
                   "how often a subscription was moved to another broker", False),
            Metric("Weight at the knee, mean", "weight_mean", figures.quantity, "%",
                   "the weight of load that was found where it is not chosen "
                   "(priority = \"knee\"), over all decisions", False),
            Metric("Links exchanged", "exchanges", figures.count, "",
                   "how often brokers put one link in the place of another", False),
            Metric("Message overhead", "message_overhead", figures.percent, "",
                   "share of control messages among all messages while publications are "
                   "published: routing tables, trace retrieval, moves, messages about better "
                   "links", False),
            Metric("Publisher wait, mean", "publisher_wait_mean_us", figures.milliseconds, "ms",
                   "how long a moving publisher holds back its publications", False),
            Metric("Selection time, mean", "selection_time_mean_us", figures.milliseconds, "ms",
                   "from asking the brokers for their traces to having chosen one", False),
        ),
    ),
    (
        "Costs of the whole run, set-up included",
        (
            Metric("Messages", "messages", figures.count, "",
                   "messages that brokers sent to brokers and clients, of every kind"),
            Metric("Control messages", "control_messages", figures.count, "",
                   "of these, messages between brokers of other types than batches of "
                   "publications"),
            Metric("… before the first publication", "set_up_messages", figures.count, "",
                   "of these, messages while the network was set up: tables of routes, mostly"),
            Metric("… in bytes", "control_bytes", figures.count, "bytes",
                   "size of the control messages' frames; 0 where they have none"),
            Metric("Whole overhead", "whole_overhead", figures.percent, "",
                   "share of messages without a publication among all that brokers sent, from "
                   "the first to the last"),
            Metric("Transfers", "transfers", figures.count, "",
                   "copies of publications that brokers sent to brokers"),
            Metric("… at the least", "least_transfers", figures.count, "",
                   "lower bound of any overlay: each publication goes once to each broker that "
                   "delivers it, but the first", False),
        ),
    ),
    (
        "Proof",
        (
            Metric("Expected deliveries", "expected", figures.count, "",
                   "by shoal truth, apart from the brokers: Spark SQL, or the filters' "
                   "definitions where the workload is small", False),
            Metric("Delivered", "delivered", figures.count, "",
                   "deliveries that arrived", False),
            Metric("Lost", "lost", figures.count, "", "expected, but never arrived", False),
            Metric("Spared", "spared", figures.count, "",
                   "expected, but not needed by the rate or change of the subscription", False),
            Metric("Duplicated", "duplicated", figures.count, "", "arrived more than once", False),
            Metric("Phantom", "phantom", figures.count, "", "arrived, but not expected", False),
            Metric("Out of order", "out_of_order", figures.count, "",
                   "arrived behind a later one of the same publisher", False),
        ),
    ),
)  # fmt: skip

FAULTS = {
    "lost": "lost",
    "duplicated": "duplicated",
    "phantom": "phantom",
    "out_of_order": "out of order",
}


def groups_of(runs: Sequence[ReportRun]) -> list[tuple[str, list[Metric]]]:
    """The groups, without metrics of which no run has a value."""
    found = (
        (group, [each for each in metrics if any(_has(run, each) for run in runs)])
        for group, metrics in GROUPS
    )
    return [(group, metrics) for group, metrics in found if metrics]


def _has(run: ReportRun, metric: Metric) -> bool:
    return run.metrics[metric.column] is not None


def faults(run: ReportRun) -> int:
    """Return how many deliveries of a run are wrong."""
    return sum(int(run.metrics[column]) for column in FAULTS)


def verdict(value: float | None, reference: float | None) -> str:
    """'better', 'worse', or '' where the change says nothing."""
    relative = figures.relative_change(value, reference)
    if relative is None or abs(relative) < NOTEWORTHY:
        return ""
    return "better" if relative < 0 else "worse"


def comparison_table(runs: Sequence[ReportRun], colours: Sequence[str]) -> Markup:
    """Metrics down, runs across; below each figure its change against the first run."""
    reference = runs[0]
    header = tag(
        "tr",
        tag("th", "", scope="col"),
        [
            tag(
                "th",
                tag("span", swatch(colour), tag("span", run.name), class_="run"),
                tag("small", run.metrics["system"]),
                scope="col",
            )
            for run, colour in zip(runs, colours, strict=True)
        ],
    )
    rows = [tag("thead", header)]
    for group, metrics in groups_of(runs):
        lines = [
            tag(
                "tr",
                tag("th", metric.label, _unit(metric.unit), scope="row", title=metric.meaning),
                [_cell(metric, run, reference) for run in runs],
            )
            for metric in metrics
        ]
        title = tag("tr", tag("th", group, colspan=len(runs) + 1, scope="rowgroup"), class_="group")
        rows.append(tag("tbody", title, lines))
    many = " many" if len(runs) > WIDE else ""
    return tag("div", tag("table", rows, class_=f"comparison{many}"), class_="wide")


def swatch(colour: str) -> Markup:
    """The little square that ties a name to its colour in the charts."""
    return tag("i", class_="swatch", style=f"background:{colour}")


def _unit(unit: str) -> Markup | None:
    return tag("small", unit) if unit else None


def _cell(metric: Metric, run: ReportRun, reference: ReportRun) -> Markup:
    value = run.metrics[metric.column]
    faulty = metric.column in FAULTS and value
    if run is reference or not metric.compared:
        return tag("td", metric.show(value), class_="fault" if faulty else None)
    before = reference.metrics[metric.column]
    text = figures.change(value, before)
    return tag(
        "td", metric.show(value), tag("span", text, class_=f"change {verdict(value, before)}")
    )


class Effect(NamedTuple):
    """A run's change in words: `before` and `after` the amount; `is_worse` None if neither."""

    before: str
    amount: str
    after: str
    is_worse: bool | None


def headline(runs: Sequence[ReportRun]) -> Markup:
    """Return the result in a few words, good or bad; for several seeds the common result."""
    reference = runs[0]
    over_seeds = {run.name: verdict for run in runs[1:] if (verdict := verdicts(run, reference))}
    alone = [_sentence(run, reference) for run in runs[1:] if run.name not in over_seeds]
    judged = [
        join(over_seeds[run.name][0], ". ", _notes(run)) for run in runs if run.name in over_seeds
    ]
    idle = [join(f"{text}.") for text in without_effect(runs)]
    of_itself = [join(tag("b", reference.name), f": {text}.") for text in _remarks(reference)]
    return tag(
        "div",
        _paragraphs(of_itself),
        _paragraphs(alone, f"Against {reference.name}"),
        _paragraphs(judged),
        _paragraphs(idle, "Settings that changed nothing" if len(idle) > 1 else ""),
        tag("p", proof(runs)),
        class_="headline",
    )


def _paragraphs(sentences: Sequence[Markup], start: str = "") -> Markup | None:
    """One sentence behind its start, or a list of several."""
    if len(sentences) < 2:
        return tag("p", f"{start}, " if start else None, sentences) if sentences else None
    return join(
        tag("p", f"{start}:") if start else None,
        tag("ul", [tag("li", each) for each in sentences]),
    )


def sentences(runs: Sequence[ReportRun]) -> list[str]:
    """Return each run's changes against the first, and its settings without effect, as text."""
    found = []
    for run in runs[1:]:
        over_seeds = verdicts(run, runs[0])
        parts = [f"{each.before}{each.amount}{each.after}" for each in _effects(run, runs[0])]
        effects = f"{_worse(run, runs[0])}{' and '.join(parts)}"
        found += over_seeds or [f"{run.name} against {runs[0].name} {effects}"]
    found += [f"{run.name}: {text}" for run in runs for text in _remarks(run)]
    return found + without_effect(runs)


def _sentence(run: ReportRun, reference: ReportRun) -> Markup:
    rate, delay = (
        join(each.before, tag("b", each.amount) if each.amount else None, each.after)
        for each in _effects(run, reference)
    )
    worse = _worse(run, reference)
    return join(tag("b", run.name), " ", worse, rate, " and ", delay, ". ", _notes(run))


def _notes(run: ReportRun) -> list[str]:
    """Return notes, a sentence each; a setting at the beginning keeps its case."""
    return [
        f"{text if '.' in text.split()[0] else text[0].upper() + text[1:]}. "
        for text in _remarks(run)
    ]


def _remarks(run: ReportRun) -> list[str]:
    return remarks(run.scenario, run.checks)


def _worse(run: ReportRun, reference: ReportRun) -> str:
    """Return the opening of a sentence about a run that only made things worse."""
    if only_recommends(run):
        return "only recommends links, and finding them "
    found = [each.is_worse for each in _effects(run, reference) if each.is_worse is not None]
    return "made things worse: it " if found and all(found) else ""


def _effects(run: ReportRun, reference: ReportRun) -> tuple[Effect, Effect]:
    return (
        _effect(run, reference, "message_rate_per_s", "the average broker message rate"),
        _effect(run, reference, "delay_mean_us", "the mean delivery delay"),
    )


def _effect(run: ReportRun, reference: ReportRun, column: str, what: str) -> Effect:
    value, before = run.metrics[column], reference.metrics[column]
    relative = figures.relative_change(value, before)
    if relative is None:
        return Effect(f"has nothing to compare for {what}", "", "", None)
    if abs(relative) < NOTEWORTHY:
        return Effect(f"left {what} as it was", "", "", None)
    show = figures.milliseconds if column.endswith("_us") else figures.quantity
    unit = "ms" if column.endswith("_us") else "messages/s"
    return Effect(
        f"{'cut' if relative < 0 else 'raised'} {what} by ",
        f"{figures.quantity(abs(relative) * 100)} %",
        f" ({show(before)} → {show(value)} {unit})",
        relative > 0,
    )


def proof(runs: Sequence[ReportRun]) -> Markup:
    """Return whether every expected delivery arrived exactly once, and in order."""
    expected = sum(int(run.metrics["expected"]) for run in runs)
    across = f" in {len(runs)} runs" if len(runs) > 1 else ""
    if not any(faults(run) for run in runs):
        return join(
            f"All {figures.count(expected)} expected deliveries{across} arrived, "
            "each exactly once, each publisher's in order."
        )
    wrong = ", ".join(
        f"{figures.count(sum(int(run.metrics[column]) for run in runs))} {words}"
        for column, words in FAULTS.items()
    )
    return tag(
        "b", f"Of {figures.count(expected)} expected deliveries{across}: {wrong}.", class_="fault"
    )
