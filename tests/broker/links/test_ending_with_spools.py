"""The end of a link with a spool for an end that was disconnected."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkSessionState
from tests.broker.links.ends import ACTIONS, ENDED, LIMITS, OTHER, UP, Net, numbers_of
from tests.examples import examples, one_in


def with_one_on_disk() -> tuple[Net, Spool]:
    """B is disconnected, and A's publications since then are in A's spool."""
    net = Net(with_spools=True)
    net.connect("A")
    one = net.ends["A"]
    one.session.open_gate()
    net.cut()
    net.now_us = 3 * LIMITS.park_us
    one.tell(one.session.tick(net.now_us))
    one.publish()
    one.write_to_disk()
    assert one.spool is not None
    return net, one.spool


def test_spooled_publications_are_delivered_before_the_link_ends() -> None:
    net, spool = with_one_on_disk()
    one, other = net.ends["A"], net.ends["B"]
    assert one.settled == {0}
    one.end()
    net.connect("B")
    for end in (one, other):
        end.session.open_gate()
    net.come_to_rest(Random(1))
    assert other.got == [0]
    assert (one.heard[-1], other.heard[-1]) == (ENDED, ENDED)
    assert spool.is_empty


@pytest.mark.parametrize("seed", one_in(4, range(examples(200))))
def test_a_link_with_spools_ends_whichever_end_is_disconnected(seed: int) -> None:
    """Spooled ends begin anew; an end that does not want the link sends no tables."""
    random, net = Random(seed), Net(with_spools=True)
    net.connect("A")
    asker = random.choice(["A", "B", "AB"])
    for _ in range(random.randint(50, 500)):
        match random.randrange(12):
            case 0:
                net.send_tables(random.choice("AB"))
            case 1:
                net.ends[random.choice("AB")].write_to_disk()
            case 2 if not net.is_connected:
                net.now_us += 2 * LIMITS.park_us
            case _:
                net.step(random, asker, ACTIONS)
    net.ends[asker[0]].end()
    for _ in range(20):
        net.come_to_rest(random, steps=200)
        for name in net.ends:
            net.send_tables(name)
    for name, end in net.ends.items():
        assert end.heard[-1] == ENDED, "once all is settled"
        assert end.session.state is LinkSessionState.GONE
        assert end.is_disk_empty
        numbers = [each for each in net.ends[OTHER[name]].got if isinstance(each, int)]
        assert {*numbers, *end.returned} == {*end.published}
        assert end.settled == {*end.published}
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), "front ends drop duplicates, and nothing else"


@pytest.mark.parametrize("askers", ["B", "AB"])
@pytest.mark.parametrize("is_early", [False, True])
def test_spooled_publications_are_delivered_without_tables_before_the_end(
    askers: str, is_early: bool
) -> None:
    """The hold for tables must not keep such a link from ending."""
    net, spool = with_one_on_disk()
    if is_early:
        net.connect("B")
    for name in askers:
        net.ends[name].end()
    if not is_early:
        net.connect("B")
    net.come_to_rest(Random(1))
    for end in net.ends.values():
        assert end.heard == [UP, UP, ENDED]
    assert net.ends["B"].got == [0]
    assert spool.is_empty


def test_spooled_publications_wait_for_tables_of_an_end_that_keeps_the_link() -> None:
    """The other end may have restarted, and would not know the subscribers."""
    net, spool = with_one_on_disk()
    net.ends["A"].end()
    net.restart("B")
    net.connect("B")
    net.come_to_rest(Random(1))
    assert net.ends["B"].got == []
    net.send_tables("B")
    net.come_to_rest(Random(2))
    assert net.ends["B"].got == [0]
    assert spool.is_empty


def test_returned_spooled_publications_stay_on_disk_until_settled() -> None:
    net, spool = with_one_on_disk()
    one, other = net.ends["A"], net.ends["B"]
    one.publish()
    recalled = one.session.recall(None, moves=True)
    one.end()
    net.connect("B")  # the other end is sent no tables
    net.come_to_rest(Random(1))
    assert not spool.is_empty
    assert one.session.state is LinkSessionState.ENDING
    assert one.settled == {0}
    assert numbers_of(recalled) == [0, 1]
    assert one.settled == {0, 1}
    net.come_to_rest(Random(2))
    assert spool.is_empty
    assert (one.heard[-1], other.heard[-1]) == (ENDED, ENDED)
    assert other.got == []
