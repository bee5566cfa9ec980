"""Notes on invented parts of a run: clients that the data does not name, and random choices.

Data has events, and rarely their subscribers and places. A reader needs the difference to judge the
result.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.report.drawing.figures import count
from shoal.report.inputs import ReportRun

# Origin of a scenario's links, by the kind of its topology.
_LINKS = {
    "minimum_spanning": "the shortest tree over the brokers' places",
    "balanced_tree": "a balanced tree",
    "random_tree": "a tree that the seed draws",
}


def made_up(run: ReportRun) -> list[str]:
    """Return the invented parts, a sentence each."""
    return [*_demand(run), *_places(run), *_links(run), *_costs(run), one_seed([run])]


def one_seed(runs: Sequence[ReportRun]) -> str:
    """Return the caveat about one seed; for several, their number."""
    most = max(len(run.seeds) for run in runs)
    if most > 1:
        return f"Chance: {count(most)} seeds were run; tables and charts show the first."
    return (
        "Chance: one seed is one draw. Another seed would change every figure a little, so a small "
        "difference between runs may be chance; shoal simulate --seeds 6 says what is more."
    )


def _demand(run: ReportRun) -> list[str]:
    derived, all_ = run.checks.get("derived_subscriptions"), run.metrics["subscriptions"]
    if derived is None:
        return []
    if not derived:
        return ["Demand: the subscriptions are those of the workload's own files."]
    which = f"All {count(derived)}" if derived >= all_ else f"{count(derived)} of {count(all_)}"
    return [
        f"Demand: {which} subscriptions were derived from the publications, so that they let "
        "certain shares of them through, and the seed drew their brokers."
    ]


def _places(run: ReportRun) -> list[str]:
    placed = [row for row in run.brokers if row["latitude"] is not None]
    if len(placed) == len(run.brokers):
        return [
            "Places: no broker runs at the places shown. They are where the workload puts brokers "
            "(airports, or those of a file)."
        ]
    if placed:
        lacking = len(run.brokers) - len(placed)
        return [f"Places: {count(lacking)} of {count(len(run.brokers))} brokers have none."]
    return ["Places: the brokers have none; the map follows from the links alone."]


def _links(run: ReportRun) -> list[str]:
    kind = run.scenario.get("topology", {}).get("kind")
    if kind is None:
        return []
    words = _LINKS.get(kind, str(kind).replace("_", " "))
    return [f"Links: those that the brokers begin with are the scenario's ({words})."]


def _costs(run: ReportRun) -> list[str]:
    service = run.scenario.get("service")
    if not service:
        return []
    return [
        "Costs: how long brokers and links take are the scenario's figures, not measured ones "
        "([service] and [underlay] below)."
    ]
