"""Publications of an hour along the topics' trees, compiled: their messages and delays.

Source: DYNATOPS, section 5, Eq. 3 and 4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.dynatops.planning.problem import Amounts, Numbers


@kernel
def edges_and_waiting(
    of: Numbers,
    parents: Numbers,
    brokers: npt.NDArray[np.int64],
    users: npt.NDArray[np.int32],
    apart: Amounts,
) -> tuple[npt.NDArray[np.int64], Amounts]:
    """(topics) edges of each topic's tree, and delays to the brokers of all its users, added up.

    brokers  (positions) the broker there
    users    (brokers, topics) how many want the topic there
    apart    (rows, positions) distance of each from its root
    """
    edges, waiting = np.zeros(len(of), np.int64), np.zeros(len(of))
    # The last topic in whose tree each position was found.
    found_in = np.full(len(brokers), -1, np.int64)
    for topic in range(len(of)):
        row, size, delay = of[topic], 0, 0.0
        for position in range(len(brokers)):
            count = users[brokers[position], topic]
            if count:
                delay += count * apart[row, position]
                hop = position
                while found_in[hop] != topic:
                    found_in[hop] = topic
                    size += 1
                    hop = parents[row, hop]
        edges[topic], waiting[topic] = max(0, size - 1), delay
    return edges, waiting
