"""The content of a study's pages: medians, differences from the reference, figures, tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.experiments.comparisons.design import Design, Setting, label
from shoal.experiments.comparisons.results import (
    METRICS,
    Cell,
    Change,
    Spread,
    StudyMetric,
    cells,
    reference_of,
)
from shoal.experiments.comparisons.runs import ComparedRun
from shoal.experiments.studies.drawing import draw, tabulate
from shoal.experiments.studies.runs import Task, summaries
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.report.chance import FEWEST_SEEDS
from shoal.report.drawing import figures
from shoal.report.study import Figure, StudyGroup, StudyReport, StudyTable

MEDIANS = (
    "Medians over the seeds, and the interval that holds the median with 95 % confidence; it takes "
    f"{FEWEST_SEEDS} seeds. No distribution is assumed."
)
CHANGES = (
    "The median of the relative differences, seed by seed, with its interval of 95 %. A difference "
    "whose interval has no 0 is more than chance: it has an asterisk."
)
# The same where too few seeds ran for intervals.
FEW_MEDIANS = (
    f"Medians over the seeds. Intervals of 95 % take {FEWEST_SEEDS} seeds; the same command with "
    f"--seeds {FEWEST_SEEDS} runs the missing ones."
)
FEW_CHANGES = (
    "The median of the relative differences, seed by seed. Without intervals it is not known "
    "whether a difference is more than chance."
)
ABSENT = "\N{EN DASH}"


def conclude(runs: Sequence[Task], design: Design, settings: Sequence[Setting]) -> Conclusion:
    """Draw the conclusion from those runs that are done."""
    compared = [run for run in runs if isinstance(run, ComparedRun)]
    done = cells(summaries(compared), settings)
    metrics = [each for each in METRICS if any(_is_there(cell, each) for cell in done)]
    report = StudyReport(
        title=f"{design.scenario_file.stem}: {len(settings)} settings, {design.seeds} seeds",
        facts=(
            f"scenario {design.scenario_file.name}",
            *(f"{factor.key} = {', '.join(factor.values)}" for factor in design.factors),
            f"{sum(len(cell.by_seed) for cell in done)} of {len(compared)} runs",
        ),
        notes=(*_wrong_deliveries(done), *_reading(done, metrics)),
        claims=(),
        tables=tuple(_tables(done, design, metrics)) if done else (),
        groups=tuple(_groups(done, design, metrics)),
    )
    return Conclusion(
        report,
        {
            "results": StudyRows(list(_long_rows(done, design))),
            "changes": StudyRows(list(_change_rows(done, design))),
            "costs": StudyRows(list(_cost_rows(done, design))),
        },
    )


def _is_there(cell: Cell, metric: StudyMetric) -> bool:
    spread = cell.spread(metric.column)
    return spread is not None and any(spread)


def _has_intervals(done: Sequence[Cell], metric: StudyMetric) -> bool:
    spreads = [cell.spread(metric.column) for cell in done]
    return any(each is not None and each.low is not None for each in spreads)


def _reading(done: Sequence[Cell], metrics: Sequence[StudyMetric]) -> tuple[str, str]:
    """How medians and differences are read."""
    if done and not any(_has_intervals(done, each) for each in metrics):
        return FEW_MEDIANS, FEW_CHANGES
    return MEDIANS, CHANGES


def _wrong_deliveries(done: Sequence[Cell]) -> Iterator[str]:
    wrong = {label(cell.setting): cell.wrong() for cell in done}
    if done and not any(any(each.values()) for each in wrong.values()):
        yield "No delivery of any run is lost, duplicated, phantom or out of order."
    for setting, kinds in wrong.items():
        if any(kinds.values()):
            text = ", ".join(
                f"{figures.count(count)} {kind.replace('_', ' ')}"
                for kind, count in kinds.items()
                if count
            )
            yield f"{setting}: {text}, over all seeds."


# --- tables ---------------------------------------------------------------------------------------


def _tables(
    done: Sequence[Cell], design: Design, metrics: Sequence[StudyMetric]
) -> Iterator[StudyTable]:
    keys = [factor.key for factor in design.factors]
    names = tuple(key.rpartition(".")[2] for key in keys)
    shown = [each for each in metrics if each.short]
    yield tabulate(
        "At a glance",
        "Medians over the seeds; each metric has a table of its own below.",
        (*names, *(each.short for each in shown)),
        [
            (
                *(cell.setting.get(key, ABSENT) for key in keys),
                *(_spread_cells(cell.spread(each.column), each)[0] for each in shown),
            )
            for cell in done
        ],
    )
    for metric in metrics:
        title = metric.title + (f", {metric.unit}" if metric.unit else "")
        first = design.factors[0]
        has_intervals = _has_intervals(done, metric)
        rows = []
        for cell in done:
            reference = reference_of(cell, done, first)
            change = cell.change(reference, metric.column) if reference else None
            is_reference = cell.setting.get(first.key) == first.values[0]
            rows.append(
                (
                    *(cell.setting.get(key, ABSENT) for key in keys),
                    *_spread_cells(cell.spread(metric.column), metric)[: 1 + has_intervals],
                    "reference" if is_reference else _change_cell(change),
                )
            )
        interval = ("95 % interval",) if has_intervals else ()
        columns = (*names, "median", *interval, f"against {first.key}={first.values[0]}")
        yield tabulate(title, "", columns, rows)


def _spread_cells(spread: Spread | None, metric: StudyMetric) -> tuple[str, str]:
    if spread is None:
        return ABSENT, ""
    between = ""
    if spread.low is not None and spread.high is not None:
        between = f"{metric.show(spread.low)} to {metric.show(spread.high)}"
    return metric.show(spread.median), between


def _change_cell(change: Change | None) -> str:
    if change is None:
        return ABSENT
    text = signed(change.median)
    if change.low is not None and change.high is not None:
        text += f" ({signed(change.low)} to {signed(change.high)})"
    return f"{text} *" if change.is_sure else text


def signed(share: float) -> str:
    """A relative difference with its sign.

    >>> signed(0.05)
    '+5.00 %'
    """
    return f"{'+' if share > 0 else ''}{figures.percent(share)}"


# --- figures --------------------------------------------------------------------------------------


def _groups(
    done: Sequence[Cell], design: Design, metrics: Sequence[StudyMetric]
) -> Iterator[StudyGroup]:
    """Each metric over the first factor whose values are all numbers; none without one."""
    over = next(
        (factor for factor in design.factors if all(_is_number(each) for each in factor.values)),
        None,
    )
    if over is None:
        return
    drawn = tuple(_figure(done, over.key, metric) for metric in metrics)
    yield StudyGroup(title=f"Over {over.key}", figures=drawn)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _figure(done: Sequence[Cell], key: str, metric: StudyMetric) -> Figure:
    lines: dict[str, list[tuple[float, float | None]]] = {}
    scale = 1_000 if metric.unit == "ms" else 1
    for cell in done:
        if key not in cell.setting:
            continue
        rest = {other: value for other, value in cell.setting.items() if other != key}
        spread = cell.spread(metric.column)
        value = None if spread is None else spread.median / scale
        lines.setdefault(label(rest) or key, []).append((float(cell.setting[key]), value))
    return draw(
        metric.column,
        metric.title,
        "medians over the seeds",
        (key, f"{metric.title[0].lower()}{metric.title[1:]}, {metric.unit}".removesuffix(", ")),
        [(name, sorted(points)) for name, points in lines.items()],
        x_scale="linear",
    )


# --- tidy tables ----------------------------------------------------------------------------------


def _factors(cell: Cell, design: Design) -> dict[str, str | None]:
    return {factor.key: cell.setting.get(factor.key) for factor in design.factors}


def _long_rows(done: Sequence[Cell], design: Design) -> Iterator[dict[str, Any]]:
    """A row for each run and metric."""
    for cell in done:
        for seed, run in cell.by_seed.items():
            for metric, value in run.metrics.items():
                number = None if value is None else float(value)
                yield _factors(cell, design) | {"seed": seed, "metric": metric, "value": number}


def _change_rows(done: Sequence[Cell], design: Design) -> Iterator[dict[str, Any]]:
    """A row for each setting and metric beside its reference."""
    for cell in done:
        reference = reference_of(cell, done, design.factors[0])
        if reference is None:
            continue
        for metric in METRICS:
            change = cell.change(reference, metric.column)
            if change is not None:
                yield _factors(cell, design) | {
                    "against": label(reference.setting),
                    "metric": metric.column,
                    "change": change.median,
                    "low": change.low,
                    "high": change.high,
                    "seeds": change.seeds,
                }


def _cost_rows(done: Sequence[Cell], design: Design) -> Iterator[dict[str, Any]]:
    """A row for each run, phase and kind of message."""
    for cell in done:
        for seed, run in cell.by_seed.items():
            for row in run.costs:
                yield _factors(cell, design) | {"seed": seed, **row}
