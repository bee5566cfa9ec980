"""Additions to the paper's evaluation: tables of runs that answer no claim.

They have hundreds of matchers; real data with real skew; costs of our own engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.experiments.bluedove.evidence import BlueDoveEvidence
from shoal.experiments.bluedove.grid import (
    BLUEDOVE,
    FULL,
    PEERS,
    data_name,
    rate_name,
)
from shoal.experiments.bluedove.runs import Series
from shoal.experiments.bluedove.testbed.engine_costs import measured
from shoal.experiments.studies.drawing import tabulate
from shoal.report.study import StudyTable

NOT_RUN = "not run"
CUTS = ("equal lengths", "quantiles")


def extra_tables(evidence: BlueDoveEvidence, data: Sequence[str]) -> list[StudyTable]:
    """All tables; that of real data only where there are any."""
    tables = [_beyond(evidence), _engine()]
    return [*tables, _data(evidence, data)] if data else tables


def _beyond(evidence: BlueDoveEvidence) -> StudyTable:
    beyond = evidence.scale.beyond
    rows = []
    for matchers in evidence.scale.all_sizes:
        one, other = rate_name(BLUEDOVE, matchers), rate_name(PEERS, matchers)
        rows.append(
            [
                f"{matchers}",
                _rate(evidence, one),
                _rate(evidence, one, per=matchers),
                _rate(evidence, other),
                _times(evidence, one, other),
            ]
        )
    return tabulate(
        title="Hundreds of matchers",
        caption="Saturation rates in messages per second, linear index. With hundreds of "
        f"matchers servers are {beyond.slowdown:,} times slower than the paper's, and trials have "
        f"{beyond.messages:,} messages for each matcher instead of {evidence.scale.messages:,}.",
        columns=("matchers", "bluedove", "per matcher", "peer-to-peer", "gain"),
        rows=rows,
    )


def _engine() -> StudyTable:
    found = measured()
    rows = [
        [f"{time.subscriptions:,}", f"{time.single_ns / 1e3:,.1f}", f"{time.batch_ns / 1e3:,.1f}"]
        for time in found.times
    ]
    return tabulate(
        title="What a message costs our own engine",
        caption=f"Measured on {found.date}, {found.machine}, Python {found.python}, by "
        f"`{found.command}`. Matchers match one message at a time. A set of up to 1,000 filters of "
        "ranges takes hardly longer than a set of ten; beyond that time grows with the set, but "
        "far more slowly than a linear index's.",
        columns=("subscriptions in the set", "one at a time, µs", "in a batch, µs"),
        rows=rows,
    )


def _data(evidence: BlueDoveEvidence, data: Sequence[str]) -> StudyTable:
    scale = evidence.scale
    kinds = [(scale.most, bool(number)) for number in range(len(CUTS))]
    kinds += [(matchers, True) for matchers in scale.beyond.data_sizes]
    rows = []
    for name in data:
        full = data_name(name, FULL, scale.most, quantiles=False)
        for matchers, quantiles in kinds:
            one = data_name(name, BLUEDOVE, matchers, quantiles=quantiles)
            other = data_name(name, PEERS, matchers, quantiles=quantiles)
            rows.append(
                [
                    name,
                    f"{matchers}",
                    CUTS[quantiles],
                    _rate(evidence, one),
                    _rate(evidence, other),
                    _times(evidence, one, other),
                    _times(evidence, one, full) if matchers == scale.most else "",
                ]
            )
    return tabulate(
        title="Real data",
        caption="Messages are rows of the data, subscriptions ranges around rows, a quarter of "
        "each attribute's length; linear index. An attribute with too few values for so many "
        "segments is cut into equal lengths.",
        columns=(
            "data",
            "matchers",
            "segments",
            "bluedove",
            "peer-to-peer",
            "gain",
            "over full replication",
        ),
        rows=rows,
    )


def data_figure(
    evidence: BlueDoveEvidence, data: Sequence[str]
) -> tuple[str, str, tuple[str, str], dict[str, Series]]:
    """The saturation rates on real data: identifier, title, labels and lines."""
    lines: dict[str, Series] = {}
    matchers = evidence.scale.most
    for name in data:
        for system in (BLUEDOVE, PEERS):
            lines[f"{system}, {name}"] = [
                (
                    number + 1.0,
                    evidence.value(data_name(name, system, matchers, quantiles=bool(number))),
                )
                for number in range(len(CUTS))
            ]
    title = "Saturation rate on real data (1 segments of equal lengths, 2 by quantiles)"
    return "real-data", title, ("segments", "messages/s"), lines


def _rate(evidence: BlueDoveEvidence, name: str, per: int = 1) -> str:
    rate = evidence.value(name)
    return NOT_RUN if rate is None else f"{rate / per:,.0f}"


def _times(evidence: BlueDoveEvidence, one: str, other: str) -> str:
    ratio = evidence.ratio(one, other)
    return NOT_RUN if ratio is None else f"{ratio:.2g} times"
