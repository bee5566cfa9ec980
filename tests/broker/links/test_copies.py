"""Copies on disk for a neighbour that cannot write: no settled message is lost."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.spool import OutboxFrame, Spool
from shoal.broker.links.states import LinkSessionState
from tests.broker.links.memory_disk import Disk
from tests.broker.links.test_spool import ROOM, Pair
from tests.examples import examples, one_in


class Neighbours(Pair):
    """A keeps copies of its messages to B while B's disk fails.

    `durable`: the content of B's disk; a kill of B leaves that, a kill of A the `disk` of A.
    """

    def __init__(self, segment_bytes: int = 200) -> None:
        self.segment_bytes = segment_bytes
        super().__init__()
        self.durable: set[int] = set()
        self.stores = True
        self.next = 0
        self.a.open_gate()

    def connect_again(self) -> None:
        if self.a.state is LinkSessionState.AWAY or self.b.state is not LinkSessionState.UP:
            self.connect()
            self.a.open_gate()

    def fill(self, *, is_full: bool) -> None:
        self.stores = not is_full
        self.b.store(self.stores)

    def publish_next(self, count: int) -> None:
        self.publish(*range(self.next, self.next + count))
        self.next += count

    def exchange(self) -> None:
        """Everything that can be sent arrives; B settles the content of its disk."""
        self.go(settles=self.stores)
        if self.stores:
            self.durable.update(number for number, _ in self.got)

    def exchange_some(self, random: Random) -> None:
        """As `exchange`, but B is slow to settle some of it."""
        self.go(settles=False)
        if self.stores:
            self.durable.update(number for number, _ in self.got)
            debts, self.debts = self.debts, []
            for debt in debts:
                if random.random() < 0.3:
                    self.debts.append(debt)
                else:
                    self.b.settle(debt)
            self.go(settles=False)

    def kill_b(self) -> None:
        self.cut()
        self.b = self.end("B", "A")
        self.b.store(self.stores)
        self.debts.clear()
        self.got = [each for each in self.got if each[0] in self.durable]

    def kill_a(self) -> None:
        """Publications that were not acknowledged are lost."""
        self.cut()
        self.a_starts()
        self.a.expect(self.now_us)


def test_a_copy_is_dropped_when_the_other_end_has_settled_it() -> None:
    pair = Neighbours()
    pair.publish_next(2)
    pair.go(settles=False)
    pair.fill(is_full=True)
    pair.exchange()
    assert pair.settled == [0, 1]  # messages under way as well
    pair.publish_next(1)
    pair.exchange()
    assert pair.settled == [0, 1, 2]
    assert [number for number, _ in pair.got] == [0, 1, 2]
    assert pair.disk.kept
    pair.fill(is_full=False)
    pair.exchange()
    pair.publish_next(1)
    pair.exchange()
    assert pair.settled == [0, 1, 2, 3]
    assert not pair.disk.kept
    assert pair.spool.is_empty


@pytest.mark.parametrize("segment_bytes", [200, 100_000])
def test_copies_beyond_the_memory_bound_are_on_disk_only(segment_bytes: int) -> None:
    """Also if copies and other messages share a segment: copies are sent once."""
    pair = Neighbours(segment_bytes)
    pair.fill(is_full=True)
    pair.exchange()
    for _ in range(40):
        pair.publish_next(1)
        pair.exchange()
    assert pair.settled == list(range(40))
    assert not pair.a.is_full
    assert len(pair.got) < 40
    pair.fill(is_full=False)
    pair.exchange()
    assert [number for number, _ in pair.got] == list(range(40))
    assert not pair.disk.kept


def test_the_publisher_waits_if_both_disks_fail() -> None:
    pair = Neighbours()
    pair.fill(is_full=True)
    pair.exchange()
    pair.disk.fails = True
    pair.publish_next(1)
    with pytest.raises(OSError, match="no space"):
        pair.spool.write(ROOM)
    assert pair.settled == []
    assert pair.spool.is_stuck
    pair.disk.fails = False
    pair.exchange()
    assert pair.settled == [0]


@pytest.mark.parametrize("seed", one_in(3, range(examples(120))))
def test_no_settled_message_is_lost_by_kills(seed: int) -> None:
    random = Random(seed)
    pair = Neighbours(random.choice([200, 100_000]))
    for _ in range(60):
        step = random.choice(["publish", "publish", "go", "some", "fill", "cut", "away", "b", "a"])
        match step:
            case "publish":
                pair.publish_next(random.randint(1, 4))
            case "go":
                pair.connect_again()
                pair.exchange()
            case "some":
                pair.connect_again()
                pair.exchange_some(random)
            case "fill":
                pair.fill(is_full=random.random() < 0.6)
            case "cut" if pair.a.state is LinkSessionState.UP:
                pair.cut()
            case "away" if pair.a.state is LinkSessionState.UP:
                pair.away()
            case "b" if pair.a.state is LinkSessionState.UP:
                pair.kill_b()
            case "a" if pair.a.state is LinkSessionState.UP and random.random() < 0.3:
                pair.kill_a()
    pair.fill(is_full=False)
    if pair.a.state is LinkSessionState.UP:
        pair.cut()
    pair.connect_again()
    pair.exchange()
    assert set(pair.settled) <= pair.durable
    assert not pair.disk.kept
    new = list(dict.fromkeys(number for number, _ in pair.got))
    assert new == sorted(new)
    once = [number for number, again in pair.got if not again]
    assert len(once) == len(set(once))


def test_a_copy_is_not_read_while_its_frame_is_on_its_way() -> None:
    """Later messages of its segment are read; all are when the link starts afresh."""
    spool = Spool(Disk(), segment_bytes=100_000)
    spool.copy(OutboxFrame(b"sent", AckTracker(lambda: None)))
    spool.append(b"behind", AckTracker(lambda: None))
    spool.write(ROOM)
    assert [read.data for read in iter(spool.read, None)] == [b"behind"]
    spool.rewind()
    assert [read.data for read in iter(spool.read, None)] == [b"sent", b"behind"]
