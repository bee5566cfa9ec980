"""From finished runs to what the reports read: tables, claims and figures in the study's folder.

`tables/*.parquet` hold everything measured; `study.json` holds what the pages show, in the form
that `shoal.report.study` declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.experiments.claims import Finding, judge_claims
from shoal.experiments.relocation.claims import CLAIMS
from shoal.experiments.relocation.evidence import Evidence, percent
from shoal.experiments.relocation.figures import figure_groups, network_group
from shoal.experiments.relocation.grid import DELAY, LOAD, POP, Scale
from shoal.experiments.relocation.networks import NetworkRun, NetworkSummary
from shoal.experiments.relocation.regret import Figure, Regrets, regrets
from shoal.experiments.relocation.results import Results, Where, write_tables
from shoal.experiments.relocation.runs import StudyRun, Task

TITLE = "Publisher relocation: the paper's evaluation, repeated"
FIGURES: Sequence[Figure] = ("traced_load", "load", "traced_delay", "delay")


def write_study(
    root: Path, tasks: Sequence[Task], scale: Scale, sources: Sequence[str]
) -> list[Finding]:
    """Read the tasks' summaries and write the study; the findings in the order of the claims."""
    runs = (task.summary for task in tasks if isinstance(task, StudyRun))
    summaries = [one for one in runs if one is not None]
    sizes = (task.summary for task in tasks if isinstance(task, NetworkRun))
    networks = [one for one in sizes if one is not None]
    results = Results(summaries)
    found = regrets(results, (POP, LOAD, DELAY), FIGURES)
    evidence = [
        Evidence(results, dataset, [one for one in found if one.where.dataset == dataset], networks)
        for dataset in results.datasets
    ]
    findings = [
        finding for each in evidence for finding in judge_claims(CLAIMS, each, each.dataset)
    ]
    tables = root / "tables"
    write_tables(summaries, tables)
    _write_table(tables / "regrets.parquet", [_regret_row(one) for one in found])
    _write_table(tables / "networks.parquet", [msgspec.to_builtins(one) for one in networks])
    _write_table(tables / "claims.parquet", [msgspec.to_builtins(one) for one in findings])
    study = {
        "title": TITLE,
        "facts": facts(scale, len(summaries), len(networks), sources),
        "notes": NOTES,
        "claims": [msgspec.to_builtins(one) for one in findings],
        "tables": [regret_table(found), network_table(networks)],
        "groups": [group for each in evidence for group in figure_groups(each)]
        + [network_group(networks)],
    }
    (root / "study.json").write_bytes(msgspec.json.encode(study))
    return findings


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    else:
        path.unlink(missing_ok=True)


def facts(scale: Scale, runs: int, networks: int, sources: Sequence[str]) -> list[str]:
    """What was run, in a few words each."""
    minutes = scale.duration_us / 60e6
    return [
        f"scale {scale.name}",
        *sources,
        f"{runs} simulated networks, and {networks} to see how far it scales",
        f"up to {scale.publishers} publishers, {scale.subscriptions} subscribers each; a "
        f"publication every {scale.interval_us / 1e6:g} s for {minutes:.0f} minutes",
    ]


NOTES = (
    "The paper ran on PlanetLab and on a cluster of 20 machines; here the same brokers run in the "
    "deterministic simulator, so times are virtual. Service times stand for a broker of the "
    "paper's class; wide-area latencies are measured round trips where they were given, else "
    "great circles between airports.",
    "The paper does not print its numbers of clients or its rates; ours are above. Values without "
    "a time are averages over the last third of the publishing time. Shares of control messages "
    "are judged with 100 subscribers of each publisher at every scale.",
    "A claim is met when our figure lies within a band on both sides of the paper's, beaten when "
    "it is better than that, and missed otherwise; each row says how wide the band is. Where the "
    "paper gives one figure it is read as the best over X, and the mean over X stands beside it. "
    "Aims of our own are counted apart.",
)


def _regret_row(one: Regrets) -> dict[str, Any]:
    row: dict[str, Any] = {**one.where._asdict(), **msgspec.to_builtins(one)}
    del row["where"]
    return row


def regret_table(found: Sequence[Regrets]) -> dict[str, Any]:
    """How far the chosen brokers are from the best in both figures, by setting."""
    rows: dict[tuple[Where, str], list[str]] = {}
    for one in found:
        if one.figure in ("load", "delay"):
            row = rows.setdefault((one.where, one.setting), [f"{one.decisions:,}"])
            row += [percent(one.median), percent(one.p95), percent(one.best_taken)]
    return {
        "title": "How good is the choice?",
        "caption": "Each publisher was put at every broker (wide area, X = 16) and measured there. "
        "How much more load and delay the chosen brokers give than the best ones, over all "
        "publications; decisions to stay count. load100 aims at load, delay100 at delay.",
        "columns": ["data", "subscribers", "setting", "decisions",
                    "load: median", "95th percentile", "best taken",
                    "delay: median", "95th percentile", "best taken"],
        "rows": [
            [where.dataset, where.distribution, setting, *cells]
            for (where, setting), cells in rows.items()
        ],
    }  # fmt: skip


def network_table(networks: Sequence[NetworkSummary]) -> dict[str, Any]:
    """The networks of growing size."""
    return {
        "title": "How far it scales",
        "caption": "One simulated network per row; nobody moves, so what differs from the baseline "
        "(tree) is tracing. Processor times are this machine's.",
        "columns": ["brokers", "publishers", "subscribers", "system", "publications", "deliveries",
                    "of expected", "control messages per publication", "µs per broker passed",
                    "tracing, kB per broker", "selections", "selection, ms", "choice alone, ms"],
        "rows": [
            [f"{one.brokers:,}", f"{one.publishers:,}", f"{one.subscribers:,}", one.system,
             f"{one.publications:,}", f"{one.deliveries:,}", f"{one.expected:,}",
             f"{one.control_per_publication:.3f}", f"{one.cpu_per_hop_us:.1f}",
             "" if one.memory_bytes is None else f"{one.memory_bytes / one.brokers / 1000:,.1f}",
             f"{one.selections:,}",
             _ms(one.selection_us), _ms(one.choosing_us)]
            for one in networks
        ],
    }  # fmt: skip


def _ms(value_us: float | None) -> str:
    return "" if value_us is None else f"{value_us / 1000:,.3g}"
