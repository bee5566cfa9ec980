"""Who has said all that must be known, and what this broker owes others of that.

A broker that has just started waits for its neighbours: to one of its cluster it says that all
tables are said when all others there have said theirs, as on a tree, which a cluster is; to a host
in another cluster that all bits are said, when the whole cluster has.  Nobody waits for bits to say
tables, so nobody waits in a circle.  Who does not come is waited for no longer after `WAIT_US`, or
if it was a neighbour before, when it would count as gone had it gone away just now.

Who was waited for may have left meanwhile.  Then those that are beside this broker now are waited
for, until one of them has said all tables of the cluster.

Who comes to a network that runs says nothing of the kind before somebody of its cluster, if anybody
is there, has said all tables.  Nor does who starts again alone in its cluster, as far as it knows,
before all its former neighbours have said who is where (`introduced`), and if it is told before it
is ready that somebody has come to its cluster meanwhile.  They say that first of all, whatever they
wait for themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.broker.effects import Effect, Send, SetTimer, Started, TimerKey
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import BitsSaid, TablesSaid

WAIT_US = 10_000_000
TIMER: TimerKey = ("exchange",)


class Exchange:
    """`primaries`, of this cluster, and `secondaries`, of others, are who it waits for."""

    def __init__(self, primaries: Iterable[BrokerId], secondaries: Iterable[BrokerId]) -> None:
        self._primaries = dict.fromkeys(primaries)
        self._secondaries = dict.fromkeys(secondaries)
        # Primaries in the place of others that have left.
        self._instead: set[BrokerId] = set()
        self._heard: set[BrokerId] = set()
        self._linked: set[BrokerId] = set()
        self._former: tuple[BrokerId, ...] = ()
        self._give_up_at_us = 0
        self._is_learning = False
        # Former neighbours that have not said yet who is where.
        self._unmet: dict[BrokerId, None] = {}
        # Whether hosts may enter the cluster here.
        self.is_entered = True
        self._owes_tables: dict[BrokerId, None] = {}
        self._owes_bits: dict[BrokerId, None] = {}

    @property
    def is_ready(self) -> bool:
        """Whether all who were waited for have said all."""
        return self.knows_tables and not self._secondaries

    @property
    def knows_tables(self) -> bool:
        """Whether all tables of its cluster are known here, as far as somebody is there to say."""
        return not (self._primaries or self._is_learning or self._unmet)

    @property
    def awaited(self) -> Collection[BrokerId]:
        """Who of them has not."""
        return list(dict.fromkeys((*self._primaries, *self._secondaries, *self._unmet)))

    def start(
        self,
        started: Started,
        primaries: Iterable[BrokerId],
        unmet: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The broker starts; it waits for these `primaries`, too, and for introductions."""
        self._former = started.former
        self._primaries.update(dict.fromkeys(primaries))
        self._unmet.update(dict.fromkeys(unmet))
        self._give_up_at_us = now_us + started.give_up_us
        if not self.is_ready:
            out.append(SetTimer(TIMER, now_us + min(WAIT_US, started.give_up_us)))

    def learn(self, now_us: int, out: list[Effect]) -> None:
        """The broker has just come: it knows no tables of its cluster, which others do."""
        self._is_learning = True
        self._give_up_at_us = now_us
        out.append(SetTimer(TIMER, now_us + WAIT_US))

    def found(self, now_us: int, out: list[Effect]) -> None:
        """Its cluster turns out to have one more broker, which came while this one was away."""
        if not (self.is_ready or self._primaries or self._is_learning):
            self._is_learning = True
            out.append(SetTimer(TIMER, now_us + WAIT_US))

    def introduced(self, broker: BrokerId) -> bool:
        """A broker has said who is where; whether that was waited for."""
        was_unmet = broker in self._unmet
        self._unmet.pop(broker, None)
        return was_unmet

    def learnt(self) -> None:
        """Somebody of its cluster has said all tables."""
        self._is_learning = False
        for broker in self._instead - self._linked:
            self.heard(broker)

    def waited(self, now_us: int, out: list[Effect]) -> list[BrokerId]:
        """The timer fired; who has not come and is waited for no longer."""
        self._is_learning = False
        is_over = now_us >= self._give_up_at_us
        missing = [each for each in self.awaited if each not in self._linked]
        gone = [each for each in missing if is_over or each not in self._former]
        for broker in gone:
            self.heard(broker)
        if len(gone) < len(missing):
            out.append(SetTimer(TIMER, self._give_up_at_us))
        return gone

    def linked(self, broker: BrokerId) -> None:
        """A link came up: what was owed before is owed no more."""
        self._linked.add(broker)
        self._owes_tables.pop(broker, None)
        self._owes_bits.pop(broker, None)

    def unlinked(self, broker: BrokerId) -> None:
        """A link is gone, and nobody waits for what would have come over it."""
        self._linked.discard(broker)
        self._owes_tables.pop(broker, None)
        self._owes_bits.pop(broker, None)
        self.heard(broker)

    def left(self, broker: BrokerId, tree: Iterable[BrokerId]) -> None:
        """A broker has left; `tree` are those that this one is beside in its cluster now."""
        self._unmet.pop(broker, None)
        if broker in self._primaries:
            del self._primaries[broker]
            others = [each for each in tree if each not in self._heard]
            self._primaries.update(dict.fromkeys(others))
            self._instead.update(others)

    def heard(self, broker: BrokerId) -> None:
        """A broker has said all, or is waited for no longer."""
        self._heard.add(broker)
        self._primaries.pop(broker, None)
        self._secondaries.pop(broker, None)
        self._unmet.pop(broker, None)

    def owe_tables(self, broker: BrokerId) -> None:
        """A broker of this cluster has been told the tables that are known here."""
        self._owes_tables[broker] = None

    def owe_bits(self, broker: BrokerId) -> None:
        """A host in another cluster has said all that it advertises."""
        self._owes_bits[broker] = None

    def say(self, out: list[Effect]) -> None:
        """Say what is owed and can be said now."""
        if self._is_learning or self._unmet:
            return
        for broker in [each for each in self._owes_tables if self._primaries.keys() <= {each}]:
            del self._owes_tables[broker]
            out.append(Send(broker, TablesSaid()))
        for broker in list(self._owes_bits) if self.is_entered and not self._primaries else ():
            del self._owes_bits[broker]
            out.append(Send(broker, BitsSaid()))
