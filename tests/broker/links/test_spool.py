"""Spools: messages for a disconnected end are on disk, settled here, and sent after its return."""

from __future__ import annotations

from functools import partial

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Deliver, Input, LinkReady, Received, Requested, Send, Started
from shoal.broker.links.inbox import Debt
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkSessionState
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, PublicationBatch, Publish, Unsubscribe
from shoal.model import EVERYTHING, Advertisement, Publication
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid
from shoal.overlays.tree.placeholder import placeholder
from shoal.overlays.tree.routing import TreeRouting
from tests.broker.links.keeping import batch
from tests.broker.links.memory_disk import Disk
from tests.broker.links.wire import CODEC

LIMITS = LinkLimits(window_bytes=200, high_bytes=500, low_bytes=200, park_us=1_000)
ROOM = 2**30


class Pair:
    """A, with a spool, sends awaited messages to B."""

    segment_bytes = 200

    def __init__(self) -> None:
        self.now_us = 0
        self.disk = Disk()
        self.incarnations = 0
        self.settled: list[int] = []
        self.got: list[tuple[int, bool]] = []
        self.others: list[str] = []
        self.debts: list[Debt] = []
        self.a_starts()
        self.b = self.end("B", "A")
        self.connect()

    def end(self, name: str, other: str, spool: Spool | None = None) -> LinkSession:
        self.incarnations += 1
        number = self.incarnations
        return LinkSession("n", name, other, number, CODEC, LIMITS, is_graceful=True, spool=spool)

    def a_starts(self) -> None:
        self.spool = Spool(self.disk, 10_000_000, segment_bytes=self.segment_bytes)
        self.a = self.end("A", "B", self.spool)

    def connect(self) -> None:
        said, answer = self.a.hello(), self.b.hello()
        self.b.connected(said, self.now_us)
        self.a.connected(answer, self.now_us)

    def cut(self) -> None:
        self.a.lost(self.now_us)
        self.b.lost(self.now_us)

    def wait(self, us: int = 2_000) -> None:
        self.now_us += us
        self.a.tick(self.now_us)

    def away(self) -> None:
        """The connection is gone, and B for longer."""
        self.cut()
        self.wait()
        self.spool.write(ROOM)

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            ack_tracker = AckTracker(partial(self.settled.append, number))
            assert self.a.send(batch(number), ack_tracker)
            ack_tracker.settle()

    def go(self, *, settles: bool = True) -> None:
        """Everything written arrives, and B has handled it."""
        for _ in range(50):
            self.spool.write(ROOM)
            self.b.receive(self.a.to_write(), self.now_us)
            messages = self.b.take()
            for at, message in enumerate(messages, self.b.handled - len(messages)):
                if isinstance(message, PublicationBatch):
                    (publication,) = (each.publication for each in message.publications)
                    self.got.append((publication.sequence, publication.again))
                    self.debts.append(self.b.owe(at, at))
                elif isinstance(message, Unsubscribe):
                    self.others.append(message.subscription_id)
            if settles:
                debts, self.debts = self.debts, []
                for debt in debts:
                    self.b.settle(debt)
            self.a.receive(self.b.to_write(), self.now_us)


def test_a_message_for_a_disconnected_end_is_settled_when_written() -> None:
    pair = Pair()
    pair.a.open_gate()
    pair.publish(0, 1)
    pair.go(settles=False)
    pair.publish(2)
    pair.cut()
    pair.publish(3)
    pair.wait(500)
    pair.spool.write(ROOM)
    assert pair.settled == []  # it may be back at once
    pair.wait(600)
    assert pair.settled == []
    pair.spool.write(ROOM)
    pair.publish(4)
    assert pair.settled == [0, 1, 2, 3]
    pair.spool.write(ROOM)
    assert pair.settled == [0, 1, 2, 3, 4]
    assert pair.a.buffered_bytes == 0
    pair.connect()
    pair.publish(5)
    pair.go()
    assert pair.got == [(0, False), (1, False)]  # tables are not synced
    pair.a.open_gate()
    pair.publish(6)
    pair.go()
    # Messages that were never sent are not marked, and need not be.
    again = [(0, True), (1, True), (2, True), (3, True), (4, False), (5, False), (6, False)]
    assert pair.got[2:] == again
    assert pair.settled == list(range(7))
    assert pair.spool.is_empty
    assert not pair.disk.kept


def test_an_end_that_returns_soon_resumes_its_session() -> None:
    pair = Pair()
    pair.a.open_gate()
    pair.publish(0, 1)
    pair.go()
    pair.cut()
    pair.publish(2)
    pair.wait(500)
    pair.connect()
    pair.go()
    assert pair.got == [(0, False), (1, False), (2, False)]
    assert not pair.disk.kept


def test_a_spool_outlives_its_broker_until_the_other_end_has_settled_it() -> None:
    pair = Pair()
    pair.a.open_gate()
    pair.away()
    pair.publish(*range(10))
    pair.spool.write(ROOM)
    assert pair.settled == list(range(10))
    for attempt in range(3):
        pair.cut()
        pair.a_starts()
        pair.a.expect(pair.now_us)
        pair.publish(10 + attempt)
        pair.spool.write(ROOM)
        pair.connect()
        pair.a.open_gate()
        pair.got.clear()
        pair.go(settles=attempt == 2)
        # As much as memory holds at once; never a later one before an earlier one.
        numbers = [number for number, _ in pair.got]
        assert numbers == list(range(len(numbers)))
    assert pair.got[:12] == [(number, True) for number in range(12)]
    assert pair.got[12:] == [(12, False)]
    assert not pair.disk.kept


def test_messages_behind_a_spool_keep_their_order() -> None:
    """Other messages too, unless the link starts afresh: then they are obsolete."""
    pair = Pair()
    pair.a.open_gate()
    pair.away()
    pair.a.send(Unsubscribe("while away"))
    pair.publish(*range(10))
    pair.spool.write(ROOM)
    pair.connect()
    pair.a.open_gate()
    pair.a.send(Unsubscribe("behind"))
    pair.publish(10)
    assert pair.others == []
    pair.go()
    assert pair.others == ["behind"]
    assert [number for number, _ in pair.got] == list(range(11))
    pair.away()
    pair.publish(11)
    pair.spool.write(ROOM)
    pair.connect()
    pair.a.open_gate()
    pair.a.send(Unsubscribe("of a session that is over"))
    pair.spool.write(ROOM)
    pair.away()
    pair.connect()
    pair.a.open_gate()
    pair.go()
    assert pair.others == ["behind"]
    assert pair.got[11:] == [(11, False)]
    assert not pair.disk.kept


@pytest.mark.parametrize("fails", [False, True], ids=["bound", "disk"])
def test_messages_that_cannot_be_written_are_kept_unsettled(fails: bool) -> None:
    pair = Pair()
    pair.a.open_gate()
    pair.away()
    pair.publish(0)
    pair.spool.write(ROOM)
    pair.publish(1, 2)
    pair.disk.fails = fails
    room = ROOM if fails else 0
    for _ in range(2):
        if fails:
            with pytest.raises(OSError, match="no space"):
                pair.spool.write(room)
        else:
            pair.spool.write(room)
    assert pair.settled == [0]
    assert pair.spool.is_stuck
    assert not pair.a.is_full
    pair.publish(*range(3, 30))
    assert pair.a.is_full  # and the sender waits
    pair.connect()
    pair.a.open_gate()
    pair.spool.write = lambda room: None  # type: ignore[method-assign]
    pair.go()
    assert [number for number, _ in pair.got] == list(range(30))
    assert pair.settled == list(range(30))
    assert pair.spool.is_empty
    assert not pair.a.is_full


def test_an_end_disconnected_for_too_long_counts_as_dead() -> None:
    pair = Pair()
    pair.a.open_gate()
    pair.away()
    pair.publish(0)
    pair.spool.write(ROOM)
    pair.publish(1)
    assert pair.a.tick(pair.now_us + 9_000_000) == []
    (change,) = pair.a.tick(pair.now_us + 11_000_000)
    assert not change.up
    assert pair.a.state is LinkSessionState.IDLE
    assert pair.settled == [0, 1]
    assert not pair.disk.kept
    pair.connect()
    pair.a.open_gate()
    pair.publish(2)
    pair.go()
    assert pair.got == [(2, False)]


def test_a_neighbour_missing_since_the_start_has_a_placeholder() -> None:
    """No broker waits for it; its own tables, when it is back, replace the placeholder."""
    machine = Broker("B2", (), TreeRouting, 0, ("B1", "B3"))

    def handle(input: Input) -> list[object]:
        return list(machine.handle(input, 0))

    def sent(number: int) -> list[str]:
        publication = Publication(publisher="c", sequence=number, published_us=0, attributes={})
        effects = handle(Requested("c", Publish((publication,))))
        assert not any(isinstance(effect, Deliver) for effect in effects)
        return [each.neighbour for each in effects if isinstance(each, Send)]

    handle(Started())
    for input in placeholder("B1", "B2"):
        handle(input)
    assert not machine.is_ready
    found = [effect for input in placeholder("B3", "B2") for effect in handle(input)]
    assert machine.is_ready
    assert LinkReady("B3") in found
    handle(Requested("c", Advertise(Advertisement(id="a", publisher="c", filter=EVERYTHING))))
    assert sent(1) == ["B1", "B3"]
    handle(placeholder("B3", "B2")[0])
    assert sent(2) == ["B1", "B3"]
    handle(Received("B3", AdvertisementsSaid()))
    handle(Received("B3", SubscriptionsSaid()))
    assert sent(3) == ["B1"]
