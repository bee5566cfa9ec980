"""What of a run was made up: whom the data does not name, and what was drawn.

Data says what happened, seldom who wants to hear of it and from where.  A reader who does not know
which is which takes the answer for more than it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.report.drawing.figures import count
from shoal.report.inputs import Run

# How a scenario's links come about, by the kind of its topology.
_LINKS = {
    "minimum_spanning": "the shortest tree over the brokers' places",
    "balanced_tree": "a balanced tree",
    "random_tree": "a tree that the seed draws",
}


def made_up(run: Run) -> list[str]:
    """What was made up, a sentence each."""
    return [*_demand(run), *_places(run), *_links(run), *_costs(run), one_seed([run])]


def one_seed(runs: Sequence[Run]) -> str:
    """What one seed is worth; of several, how many there were."""
    most = max(len(run.seeds) for run in runs)
    if most > 1:
        return f"Chance: {count(most)} seeds were run; tables and charts show the first."
    return (
        "Chance: one seed is one draw. Another seed would change every figure a little, so a small "
        "difference between runs may be chance; shoal simulate --seeds 6 says what is more."
    )


def _demand(run: Run) -> list[str]:
    derived, all_ = run.checks.get("derived_subscriptions"), run.metrics["subscriptions"]
    if derived is None:
        return []
    if not derived:
        return ["Demand: the subscriptions are those of the workload's own files."]
    which = f"All {count(derived)}" if derived >= all_ else f"{count(derived)} of {count(all_)}"
    return [
        f"Demand: nobody asked for this. {which} subscriptions were derived from the publications, "
        "so that they let certain shares of them through, and the seed drew at which brokers."
    ]


def _places(run: Run) -> list[str]:
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


def _links(run: Run) -> list[str]:
    kind = run.scenario.get("topology", {}).get("kind")
    if kind is None:
        return []
    words = _LINKS.get(kind, str(kind).replace("_", " "))
    return [f"Links: those that the brokers begin with are the scenario's ({words})."]


def _costs(run: Run) -> list[str]:
    service = run.scenario.get("service")
    if not service:
        return []
    return [
        "Costs: how long brokers and links take are the scenario's figures, not measured ones "
        "([service] and [underlay] below)."
    ]
