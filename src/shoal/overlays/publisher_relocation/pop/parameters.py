"""POP's constants, with the section of the relocation paper each comes from.

Three are ours: the paper moves for any gain and to any broker, and waits for every answer.

>>> PopParameters(threshold=200).window_publications
50
>>> PopParameters(average_weight_percent=0)
Traceback (most recent call last):
ValueError: average_weight_percent: 0 is not between 1 and 100

Source: Cheung and Jacobsen, publisher relocation, sections 3.1 and 3.2.
"""

from __future__ import annotations

import msgspec

# Traces that one publisher may have outstanding; each is a row in every broker it passed.
MAX_TRACED = 65_536
# A day: a window that never ends would stop the tracing.
MAX_WINDOW_US = 86_400_000_000
# An hour: an abandoned trace keeps its row in every broker that it passed.
MAX_TIMEOUT_US = 3_600_000_000


class PopParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of POP; ValueError names the one that is out of bounds.

    window_publications      publications of one publisher traced in a window at most (3.1, N): 50
    trace_window_us          the window's length (3.1, W): 60 s
    average_weight_percent   the newest value's part of the running average (3.1): 25
    threshold                trace results before each selection (3.2, P_threshold): 100
    least_gain_percent       by which part of all subscribers those behind a neighbour must exceed
                             all others, to move there (ours; the paper moves for any): 2
    most_busy_percent        a publisher moves to no broker that it would make busy for more of its
                             time; above it traces become fewer (ours); 100: to any, and all
                             traces, as in the paper: 80
    answer_timeout_us        a broker's timeout for the results of a trace, and a publisher's
                             broker's for the answer to its request (ours; the paper waits forever):
                             10 s
    covering                 neighbours get no subscription that another covers (PADRES): no
    """

    window_publications: int = 50
    trace_window_us: int = 60_000_000
    average_weight_percent: int = 25
    threshold: int = 100
    least_gain_percent: int = 2
    most_busy_percent: int = 80
    answer_timeout_us: int = 10_000_000
    covering: bool = False

    def __post_init__(self) -> None:
        _check("window_publications", self.window_publications, 1, MAX_TRACED)
        _check("trace_window_us", self.trace_window_us, 1, MAX_WINDOW_US)
        _check("average_weight_percent", self.average_weight_percent, 1, 100)
        _check("threshold", self.threshold, 1, MAX_TRACED)
        _check("least_gain_percent", self.least_gain_percent, 0, 100)
        _check("most_busy_percent", self.most_busy_percent, 1, 100)
        _check("answer_timeout_us", self.answer_timeout_us, 1, MAX_TIMEOUT_US)


def _check(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key}: {value} is not between {least} and {most}")
