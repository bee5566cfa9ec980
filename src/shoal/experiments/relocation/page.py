"""Makes the content of pages and tables of finished runs: claims, figures, all measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.experiments.relocation.claims import CLAIMS
from shoal.experiments.relocation.evidence import RelocationEvidence, milliseconds
from shoal.experiments.relocation.figures import figure_groups, network_group
from shoal.experiments.relocation.grid import DELAY, LOAD, POP, RelocationScale
from shoal.experiments.relocation.measuring.regret import Figure, Regrets, regrets
from shoal.experiments.relocation.measuring.results import RelocationResults, Where, tables_of
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.relocation.networks import NetworkRun, NetworkSummary
from shoal.experiments.relocation.runs import StudyRun
from shoal.experiments.studies.claims import judge_claims
from shoal.experiments.studies.drawing import tabulate
from shoal.experiments.studies.runs import Task, summaries
from shoal.experiments.studies.study import Conclusion, StudyRows
from shoal.report.amounts import percent
from shoal.report.study import StudyReport, StudyTable

TITLE = "Publisher relocation: the paper's evaluation, repeated"
FIGURES: Sequence[Figure] = ("traced_load", "load", "traced_delay", "delay")


def conclude(runs: Sequence[Task], scale: RelocationScale, sources: Sequence[str]) -> Conclusion:
    """Draw the conclusion from finished runs, claims in their order."""
    found = summaries([one for one in runs if isinstance(one, StudyRun)])
    networks = summaries([one for one in runs if isinstance(one, NetworkRun)])
    results = RelocationResults(found)
    regretted = regrets(results, (POP, LOAD, DELAY), FIGURES)
    evidence = [
        RelocationEvidence(
            results, dataset, [one for one in regretted if one.where.dataset == dataset], networks
        )
        for dataset in results.datasets
    ]
    report = StudyReport(
        title=TITLE,
        scale=scale.name,
        facts=facts(scale, len(found), len(networks), sources),
        notes=NOTES,
        claims=tuple(
            finding for each in evidence for finding in judge_claims(CLAIMS, each, each.dataset)
        ),
        tables=(load_table(results), regret_table(regretted), network_table(networks)),
        groups=(
            *(group for each in evidence for group in figure_groups(each)),
            network_group(networks),
        ),
    )
    tables = {
        **tables_of(found),
        "regrets": StudyRows([_regret_row(one) for one in regretted]),
        "networks": StudyRows([msgspec.to_builtins(one) for one in networks]),
    }
    return Conclusion(report, tables)


def facts(
    scale: RelocationScale, runs: int, networks: int, sources: Sequence[str]
) -> tuple[str, ...]:
    """Return facts about the runs, in a few words each."""
    minutes = scale.duration_us / 60e6
    return (
        *sources,
        f"{runs} simulated networks, and {networks} to see how far it scales",
        f"up to {scale.publishers} publishers, {scale.subscriptions} subscribers each; a "
        f"publication every {scale.interval_us / 1e6:g} s for {minutes:.0f} minutes",
    )


NOTES = (
    "The paper ran on PlanetLab and on a cluster of 20 machines; here the same brokers run in the "
    "deterministic simulator, so times are virtual. Service times stand for a broker of the "
    "paper's class, and a control message costs by its size; wide-area latencies are measured "
    "round trips where they were given, else great circles between airports.",
    "The paper does not print its numbers of clients or its rates; ours are above. Values without "
    "a time are averages over the last third of the publishing time. Shares of control messages "
    "are judged with 100 subscribers of each publisher at every scale.",
    "Between the inputs of the brokers' machines a compiled loop takes publications from broker to "
    "broker, by the machines' own tables, queues and counters. Runs named 'whole' are without it: "
    "their machines handle every publication.",
    "A claim is met when our figure lies within a band on both sides of the paper's, beaten when "
    "it is better than that, and missed otherwise; each row says how wide the band is. Where the "
    "paper gives one figure it is read as the best over X, and the mean over X stands beside it. "
    "Aims of our own are counted apart.",
)


def _regret_row(one: Regrets) -> dict[str, Any]:
    row: dict[str, Any] = {**one.where._asdict(), **msgspec.to_builtins(one)}
    del row["where"]
    return row


def regret_table(found: Sequence[Regrets]) -> StudyTable:
    """Return how far the chosen brokers are from the best in both figures, by setting."""
    rows: dict[tuple[Where, str], list[str]] = {}
    for one in found:
        if one.figure in ("load", "delay"):
            row = rows.setdefault((one.where, one.setting), [f"{one.decisions:,}"])
            row += [percent(one.median), percent(one.p95), percent(one.best_taken)]
    return tabulate(
        "How good is the choice?",
        "Each publisher was put at every broker (wide area, X = 16) and measured there. "
        "How much more load and delay the chosen brokers give than the best ones, over all "
        "publications; decisions to stay count. load100 aims at load, delay100 at delay.",
        ("data", "subscribers", "setting", "decisions",
         "load: median", "95th percentile", "best taken",
         "delay: median", "95th percentile", "best taken"),
        ([where.dataset, where.distribution, setting, *cells]
         for (where, setting), cells in rows.items()),
    )  # fmt: skip


def load_table(results: RelocationResults) -> StudyTable:
    """Delays where load is an axis: the paper's way, and with decisions that know capacity."""
    rows: dict[tuple[str, bool, int], dict[str, RunSummary]] = {}
    for one in results.loads:
        if one.spec.busy is not None:
            place = one.spec.dataset, one.spec.office, one.spec.busy
            rows.setdefault(place, {})[one.spec.setting.label] = one
    labels = tuple(dict.fromkeys(label for each in rows.values() for label in each))
    return tabulate(
        "Under load",
        "Costs of work such that a broker with all publications and subscriptions is busy for that "
        "part of its time; the grid's brokers are for about 2 %. Mean delivery delay of the last "
        "third, and in brackets how busy the busiest broker is. '-room': decisions know brokers' "
        "capacity, and tracing backs off; the others are the paper's way.",
        ("data", "high-rated subscribers", "busy", *labels),
        ([dataset, "one main office" if office else "several brokers", f"{busy} %",
          *(_delay_and_busiest(found.get(label)) for label in labels)]
         for (dataset, office, busy), found in rows.items()),
    )  # fmt: skip


def _delay_and_busiest(one: RunSummary | None) -> str:
    if one is None or "delay_us" not in one.metrics:
        return ""
    busiest = 100 * one.metrics["busiest_utilisation"]
    return f"{milliseconds(one.metrics['delay_us'])} ({busiest:.0f} %)"


def network_table(networks: Sequence[NetworkSummary]) -> StudyTable:
    """The networks of growing size."""
    return tabulate(
        "How far it scales",
        "One simulated network per row; nobody moves, so what differs from the baseline "
        "(tree) is tracing. Processor times are this machine's.",
        ("brokers", "publishers", "subscribers", "system", "publications", "deliveries",
         "of expected", "control messages per publication", "µs per broker passed",
         "tracing, kB per broker", "selections", "selection, ms", "choice alone, ms"),
        ([f"{one.brokers:,}", f"{one.publishers:,}", f"{one.subscribers:,}", one.system,
          f"{one.publications:,}", f"{one.deliveries:,}", f"{one.expected:,}",
          f"{one.control_per_publication:.3f}", f"{one.cpu_per_hop_us:.1f}",
          "" if one.memory_bytes is None else f"{one.memory_bytes / one.brokers / 1000:,.1f}",
          f"{one.selections:,}",
          _ms(one.selection_us), _ms(one.choosing_us)]
         for one in networks),
    )  # fmt: skip


def _ms(value_us: float | None) -> str:
    return "" if value_us is None else f"{value_us / 1000:,.3g}"
