"""Brokers that join, leave, are killed meanwhile, and come back, drawn from a random generator.

A plan of these has no faults of cables: a joined broker tells its own address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

# Kinds of actions of these faults; `Run.play` has their meaning.
MEMBER_KINDS = ("join", "order leave")
# Of brokers that have joined and stay.
FEWEST = 2
# From the beginning of a change to a fault in it; joins and leaves take 0.1 s to 3 s.
MIDDLES_S = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)


class MemberChanges:
    """Makes actions of these faults; `do` takes time, kind, subject, place and value."""

    def __init__(
        self,
        random: Random,
        brokers: Sequence[str],
        joiners: Sequence[str],
        clients: Sequence[str],
        do: Callable[..., None],
    ) -> None:
        self._random = random
        self._members = list(brokers)
        self._others = list(joiners)
        self._clients = clients
        self._do = do

    def join(self, at_s: float) -> None:
        """A broker joins, for the first time or after its leave; clients move to it."""
        if not self._others:
            return self.leave(at_s)
        broker = self._others.pop(self._random.randrange(len(self._others)))
        over = self._random.choice(self._members)
        self._do(at_s, "join", broker, over)
        self._disturb(at_s, broker, over)
        self._members.append(broker)
        for client in self._random.sample(self._clients, self._random.randint(0, 3)):
            self._do(at_s + self._random.uniform(0.2, 4.0), "move", client, broker)
        return None

    def leave(self, at_s: float) -> None:
        """A broker is ordered to leave, repeatedly until it has left."""
        if len(self._members) <= FEWEST:
            return self.join(at_s)
        broker = self._members.pop(self._random.randrange(len(self._members)))
        self._do(at_s, "order leave", broker)
        self._disturb(at_s, broker, self._random.choice(self._members))
        self._others.append(broker)
        return None

    def replace(self, at_s: float) -> None:
        """One joins while another leaves."""
        self.join(at_s)
        self.leave(at_s + self._random.choice((0.0, 0.1, 0.5, 1.0)))

    def _disturb(self, at_s: float, broker: str, other: str) -> None:
        """Half of the changes are disturbed: one of the two is killed or paused in the middle."""
        at_s += self._random.choice(MIDDLES_S)
        whom = self._random.choice((broker, other))
        match self._random.choice(("kill", "kill", "pause", "", "", "")):
            case "kill":
                self._do(at_s, "kill", whom, value=self._random.choice((0.0, 0.3, 1.0, 3.0)))
            case "pause":
                self._do(at_s, "pause", whom)
                self._do(at_s + self._random.choice((0.3, 1.0, 3.0)), "resume", whom)


# Each kind of change: its weight, and the method that makes it.
CHANGES = {
    "broker joins": (3, MemberChanges.join),
    "broker leaves": (3, MemberChanges.leave),
    "broker replaced": (1, MemberChanges.replace),
}
