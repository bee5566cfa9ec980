"""Links that are ended on purpose: both ends report it once all is settled, whatever breaks."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import Over
from shoal.broker.links.states import LinkSessionState
from shoal.broker.wire import WireError
from tests.broker.links.ends import ACTIONS, ENDED, FAILED, LIMITS, OTHER, UP, Net, numbers_of
from tests.broker.links.keeping import batch, keeping
from tests.broker.links.wire import CODEC
from tests.examples import examples, one_in


@pytest.mark.parametrize("seed", one_in(4, range(examples(200))))
def test_a_link_ends_at_both_ends_once_all_is_settled(seed: int) -> None:
    random, net = Random(seed), Net()
    net.connect("A")
    asker = random.choice(["A", "B", "AB"])
    for _ in range(random.randint(20, 500)):
        net.step(random, asker, ACTIONS)
    net.ends[asker[0]].end()
    net.come_to_rest(random)
    for name, end in net.ends.items():
        other = net.ends[OTHER[name]]
        assert end.heard == [UP, ENDED]
        assert end.session.state is LinkSessionState.GONE
        got = other.got
        numbers = [each for each in got if isinstance(each, int)]
        words = [each for each in got if isinstance(each, str)]
        assert numbers == end.published[: len(numbers)], "once and in order"
        assert words == end.said[: len(words)]
        assert numbers + end.returned == end.published, "nothing is lost"
        assert end.settled == set(end.published)
        if end.before is None:
            assert (numbers, words) == (end.published, end.said), "the other end misses nothing"
        else:
            assert numbers[: len(end.before[0])] == end.before[0]
            assert words[: len(end.before[1])] == end.before[1]
        assert end.session.to_write() is not None


@pytest.mark.parametrize("seed", one_in(3, range(examples(100))))
def test_an_end_that_has_forgotten_does_not_bring_the_link_back(seed: int) -> None:
    """Both ends report it, and publications are settled or returned."""
    random, net = Random(seed), Net()
    net.connect("A")
    for _ in range(random.randint(20, 200)):
        net.step(random, "", ACTIONS)
    net.ends["A"].end()
    for _ in range(random.randint(0, 60)):
        net.step(random, "", ACTIONS)
    fault = random.choice(["restart", "give up", "give up"])
    net.step(random, "", {fault: 1})
    ups = [end.heard.count(UP) for end in net.ends.values()]
    net.come_to_rest(random)
    if net.ends["A"].before is None:
        return  # the end that requested it restarts: its driver has the request on disk
    assert ups == [end.heard.count(UP) for end in net.ends.values()]
    for end in net.ends.values():
        assert end.session.state is LinkSessionState.GONE
        assert end.heard[-1] in (ENDED, FAILED)
        assert end.settled == set(end.published)


def test_a_link_that_is_not_up_ends_at_once() -> None:
    net = Net()
    net.ends["A"].end()
    assert net.ends["A"].heard == [ENDED]
    net.connect("B")
    assert net.ends["B"].heard == [FAILED]
    assert net.ends["A"].session.may_be_forgotten(0)


def test_the_last_message_is_repeated_until_confirmed() -> None:
    net = Net()
    net.connect("A")
    net.ends["A"].end()
    net.write("A")
    net.arrive("B", 1_000)
    assert net.ends["B"].heard == [UP, ENDED]
    net.cut()
    assert net.ends["A"].heard == [UP]
    assert not net.ends["B"].session.may_be_forgotten(LIMITS.give_up_us)
    assert net.ends["B"].session.may_be_forgotten(2 * LIMITS.give_up_us)
    net.connect("A")
    net.write("B")
    net.arrive("A", 1_000)
    assert net.ends["A"].heard == [UP, ENDED]
    net.write("A")
    net.arrive("B", 1_000)
    assert all(end.session.may_be_forgotten(0) for end in net.ends.values())


def test_a_link_without_a_request_to_end_does_not_end() -> None:
    net = Net()
    net.connect("A")
    with pytest.raises(WireError, match="the end of a link that is not ending"):
        net.ends["A"].session.receive(CODEC.encode(Over()), 1)


def test_held_publications_are_delivered_if_the_other_end_wants_no_link() -> None:
    """B has restarted, and its broker wants no link to A before A has sent its tables."""
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.come_back()
    wire.publish(2)
    wire.got.clear()
    wire.ends["B"].end()
    wire.go()
    assert wire.got == [(0, True), (1, True), (2, False)]
    wire.settle(0, 1, 2)
    assert [end.state for end in wire.ends.values()] == [
        LinkSessionState.GONE,
        LinkSessionState.GONE,
    ]


def test_held_publications_are_returned_when_the_link_ends() -> None:
    """B has restarted; A's broker ends the link before B can accept publications."""
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.come_back()
    wire.publish(2)
    a, b = wire.ends["A"], wire.ends["B"]
    assert a.end() == []
    assert wire.returned() == [0, 1, 2]
    assert wire.settled == [0, 1, 2]
    wire.go()
    assert (a.state, b.state) == (LinkSessionState.GONE, LinkSessionState.GONE)
    assert wire.got == [(0, False), (1, False)], "in its former incarnation"


def test_a_link_ends_without_returned_publications() -> None:
    wire = keeping()
    wire.publish(0, 1, 2)
    wire.go()
    wire.settle(1)
    a, b = wire.ends["A"], wire.ends["B"]
    recalled = a.recall(None, moves=True)
    assert a.end() == []
    wire.go()
    assert (a.state, b.state) == (LinkSessionState.GONE, LinkSessionState.GONE)
    assert wire.returned() == []
    assert wire.settled == [1]
    assert numbers_of(recalled) == [0, 2]
    assert wire.settled == [1, 0, 2], "once they are settled elsewhere"


def test_a_publication_sent_two_ways_is_settled_by_both() -> None:
    wire = keeping()
    a = wire.ends["A"]
    wire.publish(0, 1)
    came_over_c = AckTracker(partial(wire.settled.append, 2), "C")
    assert a.send(batch(2), came_over_c)
    came_over_c.settle()
    wire.publish(3, 3)
    assert numbers_of(a.recall("C", moves=False)) == [0, 1, 3], "each once, and none of C's own"
    assert wire.settled == []
    wire.go()
    wire.settle(0, 1, 2)
    assert wire.settled == [0, 1, 2]


def test_publications_moved_by_an_exchange_are_returned_in_order() -> None:
    """0, 1 and 2 were for another neighbour as well, and came here after 2 was sent here."""
    wire = keeping()
    wire.publish(2)
    wire.go()
    wire.publish(0, 1, 2)
    wire.go()
    assert numbers_of(wire.ends["A"].recall(None, moves=False)) == [0, 1, 2]


def test_publications_moved_by_an_exchange_are_retransmitted_in_order() -> None:
    wire = keeping()
    wire.publish(2)
    wire.publish(0, 1, 2)
    wire.go()
    wire.come_back()
    wire.ends["A"].open_gate()
    before = len(wire.got)
    wire.go()
    assert [number for number, _ in wire.got[before:]] == [0, 1, 2, 2]


def test_publications_moved_by_an_exchange_come_back_in_order() -> None:
    wire = keeping()
    wire.publish(2)
    wire.publish(0, 1, 2)
    wire.go()
    wire.ends["A"].give_up()
    assert wire.returned() == [0, 1, 2, 2]
