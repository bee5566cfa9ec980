"""Input of the judges of the relocation paper's claims: the results of one data set.

A function makes a judge for the settings and the metric that it compares; `judges/` has a module
for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.experiments.relocation.grid import Distribution, Testbed
from shoal.experiments.relocation.measuring.regret import Regrets
from shoal.experiments.relocation.measuring.results import RelocationResults, Where
from shoal.experiments.relocation.networks import NetworkSummary
from shoal.experiments.studies.claims import ClaimOutcome

# A publisher does not move for a smaller gain (GRAPE's least gain), so smaller differences mean
# nothing.
NOISE = 0.02
# "Virtually identical" (5.2): this close at every spread, relative to the larger, since each of the
# two may be off by that noise.
ALIKE = 2 * NOISE
# Metrics that are shares of all messages: two of a few percent each are alike by their difference,
# as the paper's figure shows them, and not by their ratio.
SHARES = ("overhead",)


class RelocationEvidence(NamedTuple):
    """All that judges look at: one data set's results, decisions' regrets, network sizes."""

    results: RelocationResults
    dataset: str
    regrets: Sequence[Regrets]
    networks: Sequence[NetworkSummary]

    def where(self, testbed: Testbed, distribution: Distribution) -> Where:
        """A place of this data set."""
        return Where(self.dataset, testbed, distribution)


Judge = Callable[[RelocationEvidence], ClaimOutcome | None]
Place = tuple[Testbed, Distribution]

# --- words ----------------------------------------------------------------------------------------

METRICS = {
    "message_rate_per_s": "message rate",
    "messages_both_per_s": "messages in and out",
    "input_utilisation": "input utilisation",
    "matching_utilisation": "matching utilisation",
    "output_utilisation": "output utilisation",
    "delay_us": "delivery delay",
    "hops": "hops",
    "overhead": "message overhead",
    "memory_bytes": "memory",
    "memory_share": "memory",
}


def milliseconds(value_us: float) -> str:
    """Microseconds as milliseconds."""
    return f"{value_us / 1000:,.3g} ms"


def seconds(value_us: float) -> str:
    """Microseconds as seconds."""
    return f"{value_us / 1e6:,.3g} s"
