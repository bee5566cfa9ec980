"""Setting of one run of the study: a network, a workload, changes, and the heuristic.

Times are in ticks, as the paper counts; the simulator's tick is 100 ms.

Source: Cost and Interest, section 5. It does not say how the random tree is drawn, nor if a
publisher's broker may have subscribers; here trees are drawn in two ways, and the ten brokers of a
type of notifications are different ones. Links' costs are "normalized according to the physical
topology", random values "chosen using a uniform distribution", and "completely changed" on one
topology: lengths of the shortest ways, or costs that are drawn for each pair; both are run.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Shape = Literal["recursive", "uniform"]
What = Literal["static", "ci", "mst", "mit"]
# Origin of a link's cost: the distance between routers, or a draw for each pair.
Links = Literal["ways", "drawn"]
# Costs that are drawn anew at the changes: of links at the first and of brokers at the second; of
# both at each; or of both with the brokers' loads, so that all subscriptions begin elsewhere (5.1
# names loads beside costs).
Changes = Literal["links, then brokers", "both", "costs and loads"]
HEURISTICS: tuple[What, ...] = ("ci", "mst", "mit")

TICK_US = 100_000
# Gamma of 5.3: cost of the most expensive link and broker together.
WHOLE = 20.0
# Costs are added up for so long (5.1).
WINDOW = 1_000


class SelfOrganisingSetting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run; a seed decides the physical network, the tree, the workload and all costs.

    what              static: no broker changes a link; else the heuristic
    hops              range of broadcasts (eta)
    alpha             the part of the costs that is of brokers: 0 to 1 (5.3)
    ticks             length of the run
    changes_at        when costs are drawn anew
    interval          between two broadcasts of a broker, a tenth more or less
    publication_rate  of each publisher, per tick
    end_rate          of each subscription, per tick; another begins elsewhere
    counted           the shared notifications of three brokers are counted, not estimated by Eq. 6
                      (ours)
    passing           a broker's interest is all traffic through it, not only its clients' interest
                      (ours)
    least_gain        percent by which a cycle must become cheaper (ours); 0 is the paper
    links             origin of their costs: lengths of routes, or drawn, evenly and each by itself
    rtt               a matrix of measured round trips for the lengths of ways; empty: transit-stub
    near              subscribers are at so many of the brokers whose links to the publisher's cost
                      least; 0: at any
    departures        a file of flights' departures (`departures.py`) instead of drawn publications;
                      so many for each publisher on average as the rate says
    """

    what: What
    seed: int
    shape: Shape = "recursive"
    brokers: int = 100
    types: int = 50
    subscribers: int = 9
    hops: int = 4
    alpha: float = 0.5
    ticks: int = 75_000
    changes_at: tuple[int, ...] = (25_000, 50_000)
    changes: Changes = "links, then brokers"
    interval: int = 250
    publication_rate: float = 0.2
    end_rate: float = 0.0004
    counted: bool = False
    passing: bool = False
    least_gain: int = 0
    links: Links = "ways"
    rtt: str = ""
    near: int = 0
    departures: str = ""

    @property
    def most_of_link(self) -> float:
        return (1 - self.alpha) * WHOLE

    @property
    def most_of_broker(self) -> float:
        return self.alpha * WHOLE
