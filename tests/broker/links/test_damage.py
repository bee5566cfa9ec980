"""Links on which bits flip: messages arrive as sent, in order, once."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import LinkState
from shoal.broker.links.states import LinkError
from shoal.broker.wire import HEAD_BYTES
from tests.broker.links.ends import Net
from tests.broker.links.keeping import batch
from tests.broker.links.wire import CODEC
from tests.examples import examples


class DamagedNet(Net):
    """As drivers do: bytes before the damage are handled, then the connection ends."""

    def __init__(self, random: Random, every_bytes: int, *, with_spools: bool) -> None:
        super().__init__(with_spools=with_spools)
        self.random = random
        self.every_bytes = every_bytes
        self.problems: list[str] = []

    def arrive(self, name: str, size: int) -> None:
        under_way = self.under_way[name]
        if under_way and self.every_bytes and self.random.random() < size / self.every_bytes:
            under_way[self.random.randrange(min(size, len(under_way)))] ^= (
                1 << self.random.randrange(8)
            )
        try:
            super().arrive(name, size)
        except LinkError as error:
            self.problems.append(str(error))
            end = self.ends[name]
            end.take(1_000)
            end.tell(error.changes)
            self.cut()

    def connect(self, dialler: str, lose: str = "") -> None:
        super().connect(dialler, lose)
        for name in "AB":
            self.send_tables(name)


ACTIONS = {"publish": 20, "write": 25, "arrive": 35, "take": 15, "settle": 15, "connect": 10}


@pytest.mark.parametrize("with_spools", [False, True], ids=["memory", "spools"])
@pytest.mark.parametrize("seed", range(examples(20)))
def test_nothing_is_lost_doubled_or_damaged(seed: int, with_spools: bool) -> None:
    random = Random(seed)
    net = DamagedNet(random, random.choice([300, 1_000]), with_spools=with_spools)
    net.connect("A")
    for _ in range(2_000):
        net.step(random, "", ACTIONS)
        for end in net.ends.values():
            end.write_to_disk()
    assert len(net.problems) > 3
    assert all("damaged" in problem for problem in net.problems)
    net.every_bytes = 0
    net.come_to_rest(random)
    for name, other in (("A", "B"), ("B", "A")):
        published = net.ends[name].published
        assert len(published) > 20
        assert net.ends[other].got == published
        assert net.ends[name].settled == set(published)
        assert net.ends[name].heard == [LinkState.UP]


def test_a_neighbour_in_quarantine_counts_as_disconnected_though_it_connects() -> None:
    """Each connection comes up and is lost at once; publishers must not wait for its end."""
    net = Net(with_spools=True)
    net.connect("A")
    one = net.ends["A"]
    one.session.is_quarantined = True
    for _ in range(3):
        one.publish()
        net.connect("A")
        net.cut()
        one.session.tick(net.now_us)
    one.write_to_disk()
    assert one.settled == {0, 1, 2}
    assert not one.session.buffered_bytes
    one.session.is_quarantined = False
    net.connect("A")
    for name in "AB":
        net.send_tables(name)
    net.write("A")
    net.arrive("B", 10_000)
    net.ends["B"].take(100)
    assert net.ends["B"].got == [0, 1, 2]


def test_frames_before_the_damage_in_one_read_count() -> None:
    """Otherwise a link with some damage in every read would never progress."""
    net = Net()
    net.connect("A")
    one, other = net.ends["A"], net.ends["B"]
    for number in range(9):
        ack_tracker = AckTracker(partial(one.settled.add, number))
        one.session.send(batch(number), ack_tracker)
        ack_tracker.settle()
    data = bytearray(one.session.to_write())
    length = len(CODEC.encode(batch(0)))
    data[2 * length + HEAD_BYTES + 5] ^= 4
    with pytest.raises(LinkError, match=f"a damaged frame: the {length - HEAD_BYTES} bytes"):
        other.session.receive(bytes(data), 0)
    other.take(100)
    assert other.got == [0, 1]
    net.connect("A")
    net.write("A")
    net.arrive("B", 10_000)
    other.take(100)
    assert other.got == list(range(9))
