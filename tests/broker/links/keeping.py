"""Two ends of a link of which one keeps handled messages until the test settles them."""

from __future__ import annotations

from functools import partial

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.inbox import Debt
from shoal.broker.links.session import LinkSession
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.model import MessageId, Publication
from tests.broker.links.wire import CODEC, SMALL, Wire


def batch(number: int) -> PublicationBatch:
    publication = Publication(
        publisher="P", sequence=number, published_us=0, attributes={}, assured=True
    )
    return PublicationBatch((RoutedPublication(publication, MessageId("A", "P", number)),), 1)


class Keeping(Wire):
    """A sends awaited messages to B, and B settles them when told to."""

    def __init__(self, is_graceful: bool = True) -> None:
        super().__init__()
        self.is_graceful = is_graceful
        self.ends = {name: self.end(name, 1) for name in ("A", "B")}
        self.settled: list[int] = []
        self.debts: dict[int, Debt] = {}
        self.got: list[tuple[int, bool]] = []

    def end(self, name: str, incarnation: int) -> LinkSession:
        other = "B" if name == "A" else "A"
        return LinkSession(
            "net", name, other, incarnation, CODEC, SMALL, is_graceful=self.is_graceful
        )

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            ack_tracker = AckTracker(partial(self.settled.append, number))
            assert self.ends["A"].send(batch(number), ack_tracker)
            ack_tracker.settle()

    def returned(self) -> list[int]:
        """Messages returned to A, which ignores them."""
        found = []
        for carrier, ack_tracker in self.ends["A"].returned():
            (routed,) = carrier.publications
            assert routed.publication.again
            found.append(routed.publication.sequence)
            ack_tracker.settle()
        return found

    def go(self) -> None:
        """Everything written arrives, and B takes it."""
        for _ in range(50):
            for name in ("A", "B"):
                self.write(name)
            for name in ("A", "B"):
                self.arrive(name, 10_000)
            link = self.ends["B"]
            messages = link.take()
            for at, message in enumerate(messages, link.handled - len(messages)):
                if isinstance(message, PublicationBatch):
                    (publication,) = (each.publication for each in message.publications)
                    self.got.append((publication.sequence, publication.again))
                    self.debts[publication.sequence] = link.owe(at, at)

    def settle(self, *numbers: int) -> None:
        for number in numbers:
            self.ends["B"].settle(self.debts[number])
        self.go()

    def come_back(self) -> None:
        """B, restarted and connected."""
        self.cut()
        self.incarnations += 1
        self.ends["B"] = self.end("B", self.incarnations)
        self.connect()


def keeping(is_graceful: bool = True) -> Keeping:
    wire = Keeping(is_graceful)
    wire.connect()
    for end in wire.ends.values():
        end.open_gate()
    return wire
