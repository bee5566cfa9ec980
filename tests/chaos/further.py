"""Faults of cables and clocks, and clients that vanish, drawn from a random generator of their own.

So these faults leave the other faults of a seed as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random

# Kinds of actions of these faults; `Run.play` has their meaning.
FURTHER_KINDS = ("cut", "hang", "slow cable", "mend", "clock", "vanish")
# The longest cut of a cable; short enough that no broker counts as dead.
LONGEST_CUT_S = 8.0
# The largest offset of a clock in seconds; sessions last longer.
CLOCKS_S = (-3_600.0, -60.0, -5.0, -0.5, 0.0, 0.5, 5.0, 60.0, 3_600.0)


class Further:
    """Makes actions of these faults; `do` takes time, kind, subject, place and value."""

    def __init__(
        self,
        random: Random,
        brokers: Sequence[str],
        clients: Sequence[str],
        do: Callable[..., None],
    ) -> None:
        self._random = random
        self._pairs = list(combinations(brokers, 2))
        self._brokers = brokers
        self._clients = clients
        self._do = do

    def cut(self, at_s: float) -> None:
        """Cut one cable; both ends notice."""
        self._for_a_while(at_s, "cut", [self._random.choice(self._pairs)])

    def cut_often(self, at_s: float) -> None:
        """Cut one cable repeatedly, like a bad plug."""
        pair = self._random.choice(self._pairs)
        for _ in range(self._random.randint(2, 8)):
            self._do(at_s, "cut", *pair)
            at_s += self._random.choice((0.01, 0.1, 0.5))
            self._do(at_s, "mend", *pair)
            at_s += self._random.choice((0.05, 0.2, 1.0))

    def hang(self, at_s: float) -> None:
        """Hang one cable, in one or both directions; no end notices."""
        pair = self._random.choice(self._pairs)
        ways = self._random.choice(((pair, pair[::-1]), (pair,), (pair[::-1],)))
        self._for_a_while(at_s, "hang", ways)

    def cut_off(self, at_s: float) -> None:
        """Cut all cables of one broker; its clients still reach it."""
        broker = self._random.choice(self._brokers)
        pairs = [pair for pair in self._pairs if broker in pair]
        if self._random.random() < 0.5:
            self._for_a_while(at_s, "cut", pairs)
        else:
            self._for_a_while(at_s, "hang", [*pairs, *(pair[::-1] for pair in pairs)])

    def cut_and_kill(self, at_s: float) -> None:
        """Kill a broker while it is cut off from another, and restart it before the cable is
        mended.
        """
        pair = self._random.choice(self._pairs)
        self._for_a_while(at_s, self._random.choice(("cut", "hang")), [pair])
        self._do(
            at_s + self._random.choice((0.02, 0.3, 1.0)),
            "kill",
            self._random.choice(pair),
            value=self._random.choice((0.0, 0.3, 1.0, 3.0)),
        )

    def slow_cable(self, at_s: float) -> None:
        pair = self._random.choice(self._pairs)
        self._do(at_s, "slow cable", *pair, value=self._random.choice((0.01, 0.05, 0.2)))
        self._do(at_s + self._random.uniform(1.0, 5.0), "mend", *pair)

    def clock(self, at_s: float) -> None:
        """Set the clock of a broker's next incarnation off."""
        broker = self._random.choice(self._brokers)
        self._do(at_s, "clock", broker, value=self._random.choice(CLOCKS_S))
        away_s = self._random.choice((0.0, 0.3, 1.0))
        self._do(at_s + 0.001, "kill", broker, value=away_s)

    def vanish(self, at_s: float) -> None:
        """Move a client, and leave its old connection open and silent."""
        client = self._random.choice(self._clients)
        self._do(at_s, "vanish", client, self._random.choice(self._brokers))

    def _for_a_while(self, at_s: float, kind: str, pairs: Sequence[tuple[str, str]]) -> None:
        mended_s = at_s + self._random.choice((0.05, 0.5, 2.0, 4.0, LONGEST_CUT_S))
        for pair in pairs:
            self._do(at_s, kind, *pair)
            self._do(mended_s, "mend", *pair)


# Each kind of fault: its weight, and the method that makes it.
FURTHER = {
    "cut": (2, Further.cut),
    "cut often": (1, Further.cut_often),
    "hang": (2, Further.hang),
    "cut off": (2, Further.cut_off),
    "cut and kill": (2, Further.cut_and_kill),
    "slow cable": (1, Further.slow_cable),
    "clock": (2, Further.clock),
    "vanish": (2, Further.vanish),
}
