"""Synchronisation after a start or a new link: awaited neighbours, and end markers owed to others.

A broker that has just started waits for its neighbours. It sends the end marker for tables to a
broker of its cluster when all others there have sent theirs, as on a tree, which a cluster is; and
the end marker for bits to a host in another cluster when the whole cluster has. No broker waits for
bits before it sends tables, so the wait has no cycle. A neighbour that does not connect is skipped
after `WAIT_US`; if it was a neighbour before the start, it is skipped after the time in which a
lost neighbour is declared dead.

If an awaited neighbour has left meanwhile, the broker waits for the neighbours in its place, until
one of them has sent all tables of the cluster.

A joiner of a running network sends no end marker before a broker of its cluster, if there is one,
has sent all tables. The same holds for a broker that restarts alone in its cluster, as far as it
knows, until all its former neighbours have sent the roster (`introduced`); and if the roster shows
a new broker of its cluster, until that one has sent its tables. The roster is sent first, before
any wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.broker.effects import Effect, Send, SetTimer, Started, TimerKey
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import BitsSaid, TablesSaid

WAIT_US = 10_000_000
TIMER: TimerKey = ("exchange",)


class KnownExchange:
    """State of one broker.

    It waits for `primaries`, of this cluster, and `secondaries`, of others.
    """

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
        # Former neighbours that have not sent the roster yet.
        self._unmet: dict[BrokerId, None] = {}
        # Whether hosts may enter the cluster here.
        self.is_entered = True
        self._owes_tables: dict[BrokerId, None] = {}
        self._owes_bits: dict[BrokerId, None] = {}

    @property
    def is_ready(self) -> bool:
        """Whether all awaited brokers have sent all."""
        return self.knows_tables and not self._secondaries

    @property
    def knows_tables(self) -> bool:
        """Whether all tables of its cluster are known here, as far as a broker is there to send
        them.
        """
        return not (self._primaries or self._is_learning or self._unmet)

    @property
    def awaited(self) -> Collection[BrokerId]:
        """The awaited brokers."""
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
        """The broker has just joined: it knows no tables of its cluster, which others do."""
        self._is_learning = True
        self._give_up_at_us = now_us
        out.append(SetTimer(TIMER, now_us + WAIT_US))

    def found(self, now_us: int, out: list[Effect]) -> None:
        """The cluster has one more broker, which joined while this one was disconnected."""
        if not (self.is_ready or self._primaries or self._is_learning):
            self._is_learning = True
            out.append(SetTimer(TIMER, now_us + WAIT_US))

    def introduced(self, broker: BrokerId) -> bool:
        """A broker has sent the roster; returns whether it was awaited."""
        was_unmet = broker in self._unmet
        self._unmet.pop(broker, None)
        return was_unmet

    def learnt(self) -> None:
        """A broker of its cluster has sent all tables."""
        self._is_learning = False
        for broker in self._instead - self._linked:
            self.on_complete(broker)

    def waited(self, now_us: int, out: list[Effect]) -> list[BrokerId]:
        """The timer fired; returns the brokers that are skipped."""
        self._is_learning = False
        is_over = now_us >= self._give_up_at_us
        missing = [each for each in self.awaited if each not in self._linked]
        gone = [each for each in missing if is_over or each not in self._former]
        for broker in gone:
            self.on_complete(broker)
        if len(gone) < len(missing):
            out.append(SetTimer(TIMER, self._give_up_at_us))
        return gone

    def linked(self, broker: BrokerId) -> None:
        """A link came up: earlier markers are not owed any more."""
        self._linked.add(broker)
        self._owes_tables.pop(broker, None)
        self._owes_bits.pop(broker, None)

    def unlinked(self, broker: BrokerId) -> None:
        """A link is lost, and its other end is not awaited any more."""
        self._linked.discard(broker)
        self._owes_tables.pop(broker, None)
        self._owes_bits.pop(broker, None)
        self.on_complete(broker)

    def left(self, broker: BrokerId, tree: Iterable[BrokerId]) -> None:
        """A broker has left; `tree` are those that this one is beside in its cluster now."""
        self._unmet.pop(broker, None)
        if broker in self._primaries:
            del self._primaries[broker]
            others = [each for each in tree if each not in self._heard]
            self._primaries.update(dict.fromkeys(others))
            self._instead.update(others)

    def on_complete(self, broker: BrokerId) -> None:
        """A broker has sent all, or is skipped."""
        self._heard.add(broker)
        self._primaries.pop(broker, None)
        self._secondaries.pop(broker, None)
        self._unmet.pop(broker, None)

    def owe_tables(self, broker: BrokerId) -> None:
        """A broker of this cluster has got the tables that are known here."""
        self._owes_tables[broker] = None

    def owe_bits(self, broker: BrokerId) -> None:
        """A host in another cluster has sent all its advertisements."""
        self._owes_bits[broker] = None

    def send_markers(self, out: list[Effect]) -> None:
        """Send the owed markers for which nothing is missing."""
        if self._is_learning or self._unmet:
            return
        for broker in [each for each in self._owes_tables if self._primaries.keys() <= {each}]:
            del self._owes_tables[broker]
            out.append(Send(broker, TablesSaid()))
        for broker in list(self._owes_bits) if self.is_entered and not self._primaries else ():
            del self._owes_bits[broker]
            out.append(Send(broker, BitsSaid()))
