"""Compares acknowledged publications with deliveries, and knows which losses are excused.

The exceptions of docs/background/guarantees.md that an afternoon meets:

| event | excused |
| --- | --- |
| a broker is down for longer than `give_up_us` | its subscribers |
| a broker or its links end, in `tid` | every subscriber |
| a broker's folder is an older copy | its subscribers |
| a broker is forgotten | its subscribers and its publishers |

`give_up_us` is 10 s on rings and 60 s elsewhere; OctopiA's brokers wait for 3 s and `patience_us`.
`tid` loses the content of a failed link or broker. A message that is on a forgotten broker's disk
only is lost.

A subscriber is at the broker to which it connected last. After an excused event its debts begin
anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.afternoon.clients import Publisher, Subscriber

# The content of a failed link or broker is lost in these systems.
LOSING = frozenset({"tid"})


class Ledger:
    """Debts: for each subscriber and publisher, acknowledged numbers that have not arrived."""

    def __init__(self, system: str, give_up_s: float) -> None:
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self._loses = system in LOSING
        self._give_up_s = give_up_s
        # By subscriber and publisher: numbers below this one are not owed.
        self._first: dict[tuple[str, str], int] = {}
        # Pairs whose debts begin anew at the end of this step.
        self._excused: set[tuple[str, str]] = set()

    def marks(self) -> dict[str, int]:
        """The next number of each publisher."""
        return {each.name: each.next for each in self.publishers}

    def unheard(self, marks: dict[str, int]) -> list[str]:
        """Pairs of a subscriber and a publisher without a delivery since these marks."""
        return [
            f"{reader.name} from {name}"
            for reader in self.subscribers
            for name, mark in marks.items()
            if not any(number >= mark for number in tuple(reader.received.get(name, ())))
        ]

    def debts(self) -> dict[str, list[int]]:
        """Acknowledged numbers that a subscriber has not received, by both their names."""
        found = {}
        for reader in self.subscribers:
            for publisher in self.publishers:
                pair = (reader.name, publisher.name)
                first = self._first.get(pair, 0)
                owed = {n for n in tuple(publisher.acknowledged) if n >= first and reader.wants(n)}
                if missing := owed - reader.received.get(publisher.name, set()):
                    found[" from ".join(pair)] = sorted(missing)
        return found

    def add_subscriber(self, subscriber: Subscriber) -> None:
        """Add a subscriber; its debts begin once it hears everybody."""
        self.subscribers.append(subscriber)
        self._excuse([subscriber], self.publishers)

    def add_publisher(self, publisher: Publisher) -> None:
        """Add a publisher; its subscribers' debts begin once they all hear it."""
        self.publishers.append(publisher)
        self._excuse(self.subscribers, [publisher])

    # --- excused events -------------------------------------------------------------------------

    def excuse_end(self) -> None:
        """A broker's process ended without a leave, or its links did."""
        if self._loses:
            self._excuse(self.subscribers, self.publishers)

    def at(self, *brokers: str) -> list[Subscriber]:
        """The subscribers at these brokers."""
        return [each for each in self.subscribers if each.broker in brokers]

    def excuse_outage(self, at: list[Subscriber], seconds: float) -> None:
        """The broker of these subscribers was down for so long."""
        if seconds > self._give_up_s:
            self.excuse_older_copy(at)

    def excuse_older_copy(self, at: list[Subscriber]) -> None:
        """The broker of these subscribers has lost what their sessions got since some time."""
        self._excuse(at, self.publishers)

    def excuse_forget(self, broker: str) -> None:
        """The folder of a broker counts no more; call it before the broker's clients go on."""
        self._excuse(self.at(broker), self.publishers)
        self._excuse(self.subscribers, [p for p in self.publishers if p.broker == broker])

    def _excuse(self, subscribers: Iterable[Subscriber], publishers: list[Publisher]) -> None:
        self._excused |= {(s.name, p.name) for s in subscribers for p in publishers}

    def begin_anew(self, *, with_all: bool = False) -> None:
        """Begin the debts of excused pairs anew, or those of all (a fault is reported once)."""
        marks = self.marks()
        if with_all:
            self._excuse(self.subscribers, self.publishers)
        for reader, publisher in self._excused:
            self._first[reader, publisher] = marks[publisher]
        self._excused.clear()
