"""Setting of one run of the study: users, interests, brokers, and the system.

Time goes in slots of an hour, as in the paper. Values that the paper does not print are parameters
here: publication rates, the weights, the exponent of Zipf's law.

Source: DYNATOPS, section 6.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.overlays.dynatops.parameters import PER_GATEWAY
from shoal.overlays.tco.construction import Goal

Users = Literal["poisson", "location", "interests", "aircraft"]
Pattern = Literal["uniform", "zipf", "multimodal"]
# bnr and up are DYNATOPS with one half of it: brokers change places, or users are placed.
# In chash, users and brokers are where consistent hashing puts them, and stay.  In hybrid only
# gateways of clusters stand on the ring, and all else is as in dynatops (7).
What = Literal[
    "bayeux", "bayeux-location", "bayeux-near", "tco", "geops", "chash", "bnr", "up", "dynatops",
    "hybrid",
]  # fmt: skip
Planner = Literal["paper", "swaps"]
Own = Literal["last", "now", "others"]
RECONFIGURED: tuple[What, ...] = ("bnr", "dynatops", "hybrid")
PLACED: tuple[What, ...] = ("up", "dynatops", "hybrid")
# West, south, east and north, in degrees; by default the contiguous United States.
Area = tuple[float, float, float, float]
UNITED_STATES: Area = (-125.0, 29.0, -65.0, 49.0)


class DynatopsSetting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run; a seed decides users, brokers and keys.

    what          the system
    users_are     change of subscriptions: each by chance (6.1.2), with the places of users (6.1.1),
                  by a file of interests, or with the flights of aircraft (ours)
    brokers       Poisson: how many; else one for each cell
    topics        Poisson: how many; else one for each cell
    columns, rows of the grid of cells, where users have places; `area` is divided into it
    users         number of them
    hours         length of the run
    pattern       Poisson: weights of topics in the users' choice
    change_rate   Poisson: how many topics a user replaces in an hour
    cluster       brokers that see each other when users are placed
    update_hours  T_update, between two looks at each other
    load_weight   w_l, weight of load beside similarity
    own           the asked broker's own share of the topics: from its last report, as for others;
                  its current topics, the user's own included; or the current topics of others
    free_hours    T_free, between two looks at the brokers' places
    delay_weight  w_d of Eq. 5
    planner       the paper's greedy and price (Algorithm 4, Eq. 7), or swaps of which each saves
                  more than the messages that it takes
    rate          publications per topic and hour
    steepness     sigma of Zipf's law
    base          of Bayeux's identifiers: with 2 its tables are as large as Chord's
    goal          of TCO: few neighbours of the broker with most, or few links
    per_gateway   of a hybrid network: brokers in a cluster
    trace         a file of check-ins instead of drawn users, of interests or of aircraft; empty:
                  none
    """

    what: What
    seed: int
    users_are: Users = "poisson"
    brokers: int = 100
    topics: int = 300
    columns: int = 30
    rows: int = 10
    users: int = 15_000
    hours: int = 40
    pattern: Pattern = "multimodal"
    change_rate: float = 0.1
    cluster: int = 10
    update_hours: int = 1
    load_weight: float = 1.0
    own: Own = "last"
    free_hours: int = 10
    delay_weight: float = 1.0
    rate: float = 10.0
    steepness: float = 1.0
    base: int = 2
    goal: Goal = "fan-out"
    planner: Planner = "paper"
    per_gateway: int = PER_GATEWAY
    area: Area = UNITED_STATES
    trace: str = ""

    @property
    def has_places(self) -> bool:
        """Return whether users are somewhere."""
        return self.users_are in ("location", "aircraft")
