"""GRAPE's constants, with the section of the relocation paper each comes from.

The paper fixes three: the number of publications in a trace session, the figure that decides first,
and its weight. The others are ours. Without a least gain, a publisher goes back and forth between
brokers that are equally good. And the paper's network is reliable; ours may lose a broker in the
middle of a session, and the publisher's broker must not wait for it forever.

>>> GrapeParameters(priority=Priority.DELAY, weight=75).trace_session_length
100
>>> GrapeParameters(weight=140)
Traceback (most recent call last):
ValueError: weight: 140 is not between 0 and 100

Source: Cheung and Jacobsen, publisher relocation, sections 4.1 and 4.2.
"""

from __future__ import annotations

import enum

import msgspec

from shoal.overlays.publisher_relocation.choosing import FULL_WEIGHT, Priority

# Every broker on the path keeps a bit vector this long per traced publisher, and answers with it.
MAX_TRACE_SESSION_LENGTH = 65_536
# An hour: an abandoned session keeps its tables in every broker that it passed.
MAX_TIMEOUT_US = 3_600_000_000


class Moves(enum.Enum):
    """The kinds of clients that move."""

    PUBLISHERS = "publishers"
    SUBSCRIBERS = "subscribers"
    BOTH = "both"


class GrapeParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of publisher relocation; ValueError names the one that is out of bounds.

    trace_session_length   publications traced before each selection (4.1, G_threshold): 100
    priority               the figure that decides first, load or delay (4.2); the paper has no
                           default, ours is load.  knee: neither, the weight is found (ours)
    weight                 its weight, 0 to 100 percent (4.2): 100
    moves                  clients that move: publishers, as in the paper, subscribers, or both
                           (ours)
    least_gain_percent     how much lower rate or delay must be at the target to move there (ours;
                           the paper moves for any gain): 2, about what the estimates are off by
    most_busy_percent      a publisher moves to no broker that it would make busy for more of its
                           time (ours); 100: to any, as in the paper: 80
    answer_timeout_us      a broker's timeout for trace answers from downstream (ours): 10 s
    ping_timeout_us        its timeout for a client's ping times (ours): 5 s
    covering               neighbours get no subscription that another covers (PADRES): no
    """

    trace_session_length: int = 100
    priority: Priority = Priority.LOAD
    weight: int = FULL_WEIGHT
    moves: Moves = Moves.PUBLISHERS
    least_gain_percent: int = 2
    most_busy_percent: int = 80
    answer_timeout_us: int = 10_000_000
    ping_timeout_us: int = 5_000_000
    covering: bool = False

    @property
    def publishers_move(self) -> bool:
        return self.moves is not Moves.SUBSCRIBERS

    @property
    def subscribers_move(self) -> bool:
        return self.moves is not Moves.PUBLISHERS

    def __post_init__(self) -> None:
        _check("trace_session_length", self.trace_session_length, 1, MAX_TRACE_SESSION_LENGTH)
        _check("weight", self.weight, 0, FULL_WEIGHT)
        _check("least_gain_percent", self.least_gain_percent, 0, FULL_WEIGHT)
        _check("most_busy_percent", self.most_busy_percent, 1, FULL_WEIGHT)
        _check("answer_timeout_us", self.answer_timeout_us, 1, MAX_TIMEOUT_US)
        _check("ping_timeout_us", self.ping_timeout_us, 1, MAX_TIMEOUT_US)


def _check(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key}: {value} is not between {least} and {most}")
