"""The choice of a user's broker in the slot model, compiled: `best_broker` over arrays.

>>> import numpy as np
>>> users = np.array([[1, 1, 0], [0, 0, 1]], np.int32)
>>> served = ClusterKnowledge(users, np.array([2, 1]))
>>> served.best(np.array([0, 2]), np.array([0, 1]), present=1, asked=1, least=1, load_weight=1.0)
1
>>> served.best(np.array([0, 1]), np.array([0, 1]), present=1, asked=1, least=1, load_weight=0.0)
0

Source: DYNATOPS, section 4 (Algorithm 1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels.compiler import kernel

Counts = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ClusterKnowledge:
    """Brokers' topics and loads as others know them: those of the moment in which it is made.

    users (brokers, topics): how many users of the broker want the topic, at any time.
    loads (brokers): their subscriptions, at any time.
    """

    def __init__(self, users: Counts, loads: Numbers) -> None:
        self._users = users
        self._loads = loads
        self._is_served: Flags = users > 0
        self._known_loads: Numbers = loads.copy()

    def best(
        self,
        wanted: Numbers,
        cluster: Numbers,
        *,
        present: int,
        asked: int,
        least: int,
        load_weight: float,
    ) -> int:
        """Return the broker of a cluster with the highest utility for a user.

        asked   this broker knows what it serves at this moment; -1 for none
        least   so many users must want a topic there; with 2, the user itself does not count
        """
        found: int = _best(
            wanted,
            cluster,
            present,
            asked,
            least,
            load_weight,
            self._is_served,
            self._known_loads,
            self._users,
            self._loads,
        )
        return found


@kernel
def _best(
    wanted: Numbers,
    cluster: Numbers,
    present: int,
    asked: int,
    least: int,
    load_weight: float,
    is_served: Flags,
    known_loads: Numbers,
    users: Counts,
    loads: Numbers,
) -> int:
    """`placement.best_broker`."""
    now = 0
    if asked >= 0:
        now = loads[asked] - (len(wanted) if least > 1 else 0)
    total = 0
    for broker in cluster:
        total += now if broker == asked else known_loads[broker]
    if total == 0:
        total = 1
    best, highest, at_present, is_visible = -1, 0.0, 0.0, False
    for broker in cluster:
        count = 0
        for topic in wanted:
            if broker == asked:
                count += users[broker, topic] >= least
            else:
                count += is_served[broker, topic]
        similarity = count / len(wanted) if len(wanted) else 1.0
        utility = (
            similarity - load_weight * (now if broker == asked else known_loads[broker]) / total
        )
        if best < 0 or utility > highest or (utility == highest and broker < best):
            best, highest = broker, utility
        if broker == present:
            at_present, is_visible = utility, True
    if is_visible and highest - at_present <= 0:
        return present
    return best
