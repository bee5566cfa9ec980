"""A cluster is entered in each publisher's order, whichever ways its publications took there."""

from __future__ import annotations

from collections import OrderedDict, deque
from random import Random
from typing import Any

import msgspec
import pytest

from shoal.broker.effects import (
    Input,
    Leave,
    LinkChanged,
    LinkLoad,
    LinkState,
    Loads,
    Received,
    Returned,
    Send,
    Settled,
    Unsettled,
)
from shoal.broker.messages import Advertise, Goodbye, Publish, RoutedPublication, Subscribe
from shoal.model import MessageId
from shoal.overlays.octopia.messages import (
    BitsSaid,
    HomeChange,
    Notification,
    NumbersBegin,
    NumbersEnd,
    Sweep,
    WayLost,
)
from shoal.overlays.octopia.order.sequencer import TIMER
from shoal.overlays.octopia.parameters import OctopiaParameters
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import one_in
from tests.overlays.octopia.order.crowded import (
    CROWDED,
    break_and_return,
    carry_all_but,
    got,
    held,
    stage,
    wait_in_vain,
)
from tests.overlays.octopia.stages import ProductStage
from tests.unread import Unread

DEFAULTS = OctopiaParameters()


def test_an_overtaking_publication_waits_at_the_sequencer() -> None:
    here = stage()
    here.ask("b2", "P", publish(0))
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1, 2))
    assert ("b2", "b1", 0b001) in here.copies()
    carry_all_but(here, ("b2", "b0"))
    assert got(here, "S2") == [0, 1, 2]  # to cluster 1 nothing has to wait
    assert (got(here, "S1"), held(here)) == ([], {"b0": 2})
    here.carry("b2", "b0")
    carry_all_but(here, ("b2", "b0"))
    assert got(here, "S1") == [0]  # numbers have not begun there yet
    here.settle()
    assert got(here, "S1") == [0, 1, 2]
    assert held(here) == {}


def test_a_held_publication_is_settled_after_its_next_hops() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    carry_all_but(here, ("b2", "b0"))
    effects = here.handle("b0", Received("b2", here.links["b2", "b0"].popleft()))
    kinds = [type(effect) for effect in effects if isinstance(effect, Settled | Unsettled)]
    assert kinds == [Settled]


def test_numbering_ends_when_the_shortest_way_has_long_been_free() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    here.handle("b2", Loads({"b0": LinkLoad(0, 40, 0)}))
    here.ask("b2", "P", publish(1))
    assert here.brokers["b2"].strategy.description["numbered"] == 1
    here.now_us += 2_000_000
    here.ask("b2", "P", publish(2, 3))
    assert here.brokers["b2"].strategy.description["numbered"] == 0
    # 2 and 3 come over the host's own link before 0, which was diverted.
    carry_all_but(here, ("b2", "b1"))
    assert (got(here, "S1"), held(here)) == ([], {"b0": 3})
    here.settle()
    assert got(here, "S1") == [0, 1, 2, 3]
    assert not here.brokers["b0"].strategy.routing.sequencer.lines.has_of("b2")


def test_numbering_ends_with_its_publisher() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    here.ask("b2", "P", Goodbye())
    here.settle()
    begun, ended = [next(here.sent(kind))[2].number for kind in (NumbersBegin, NumbersEnd)]
    assert ended == begun + 1
    assert not here.brokers["b0"].strategy.routing.sequencer.lines.has_of("b2")


@pytest.mark.parametrize("seed", one_in(3, range(30)))
def test_order_holds_for_any_order_of_messages_and_changing_links(seed: int) -> None:
    """Numbering begins and ends repeatedly while earlier publications are under way."""
    random = Random(seed)
    here = stage()
    for number in range(60):
        here.ask("b2", "P", publish(2 * number, 2 * number + 1))
        here.now_us += 1_000_000
        crowded = [
            ("b2", to, random.randint(11, 40)) for to in ("b0", "b1") if random.random() < 0.4
        ]
        here.congest(*crowded)
        for pair in random.sample(sorted(here.links), k=len(here.links)):
            here.carry(*pair, random.randint(0, min(3, len(here.links[pair]))))
    here.settle(random)
    assert got(here, "S1") == got(here, "S2") == list(range(120))
    assert held(here) == {}
    assert len(list(here.sent(NumbersBegin))) > 3
    assert len(list(here.sent(NumbersEnd))) > 3


def test_a_missing_publication_is_given_up() -> None:
    """A carrier is lost with publications that are not retransmitted."""
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    here.congest()
    here.ask("b2", "P", publish(1))
    here.break_link("b2", "b1")
    carry_all_but(here)
    assert (got(here, "S1"), held(here)) == ([], {"b0": 1})
    wait_in_vain(here, "b0")
    here.settle()
    assert got(here, "S1") == [1]


@pytest.mark.parametrize("is_numbered_anew", [False, True])
def test_a_publication_returned_after_its_numbering_keeps_its_place(is_numbered_anew: bool) -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    here.congest()
    here.now_us += 2_000_000
    here.ask("b2", "P", publish(1))  # not numbered, held at the sequencer until 0 is there
    if is_numbered_anew:
        here.congest(CROWDED)
        here.ask("b2", "P", publish(2))
    break_and_return(here, "b2", "b1")
    here.settle()
    assert got(here, "S1") == ([0, 1, 2] if is_numbered_anew else [0, 1])
    assert held(here) == {}


def test_a_returned_publication_goes_to_its_original_receivers() -> None:
    """c0 had linked up elsewhere before b0 noticed the loss of its link to c0."""
    here = ProductStage(clusters=2)
    here.ask("c0", "S1", Subscribe(subscription("s", client="S1")))
    here.ask("a0", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("a0", "P", publish(0))
    here.carry("a0", "b0")
    version = here.brokers["b0"].strategy.tables.homes[2].version
    here.tell("a0", "b0", HomeChange(2, version + 1, 0, (), ()))
    here.links["b0", "c0"].pop()  # what is said on
    break_and_return(here, "b0", "c0")
    (message,) = here.links["b0", "a0"]
    assert isinstance(message, Notification)
    assert message.only == (2,)


def test_a_sequencer_returns_held_publications_of_a_lost_host() -> None:
    here = stage()
    here.ask("b2", "P", publish(0))
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1))
    carry_all_but(here, ("b2", "b0"))
    assert held(here) == {"b0": 1}
    break_and_return(here, "b2", "b0")
    here.settle()
    # 0 came back, too; there is no other way into cluster 0 yet.
    assert (got(here, "S1"), held(here)) == ([], {})
    here.mend_link("b2", "b0")
    here.settle()
    here.ask("b2", "P", publish(2))
    here.settle()
    # Earlier publications to an interim sequencer may be on their way.
    assert held(here) == {"b0": 3}
    wait_in_vain(here, "b0")
    here.settle()
    assert got(here, "S1") == [0, 1, 2]


def test_a_sequencer_admits_held_publications_of_a_dead_host() -> None:
    here = stage()
    here.ask("b2", "P", publish(0))
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1, 2))
    carry_all_but(here, ("b2", "b0"))
    for other in ("b1", "b0", "c2", "a2"):
        if ("b2", other) in here.links:
            here.break_link("b2", other)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})


def test_a_carrier_that_cannot_reach_a_sequencer_returns_publications() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    here.carry("b2", "b1")
    here.congest()
    here.ask("b2", "P", publish(1))
    break_and_return(here, "b1", "b0")
    here.settle()
    assert got(here, "S1") == [0, 1]
    assert held(here) == {}


@pytest.mark.parametrize(("assured", "arrives"), [(True, []), (False, [1])])
def test_carried_publications_of_a_dead_host_do_not_overtake_direct_ones(
    assured: bool, arrives: list[int]
) -> None:
    """0 dies with its host on the way; its publisher retransmits 0 and 1, if it awaits them."""
    here = stage()
    zero, one = (
        msgspec.structs.replace(publish(n).publications[0], assured=assured) for n in (0, 1)
    )
    here.ask("b2", "P", Publish((zero,)))
    here.congest(CROWDED)
    here.ask("b2", "P", Publish((one,)))
    carry_all_but(here, ("b2", "b0"))
    assert held(here) == {"b0": 1}
    for left, right in [pair for pair in here.edges if "b2" in pair]:
        here.break_link(left, right)
    here.settle()
    assert (got(here, "S1"), held(here)) == (arrives, {})


@pytest.mark.parametrize(
    ("then", "back"),
    [(Received("b2", BitsSaid()), [1]), (LinkChanged("b2", LinkState.FAILED), [])],
)
def test_carried_publications_wait_for_a_returned_hosts_first_message(
    then: Input, back: list[int]
) -> None:
    """It may be a new incarnation, which publishes unsettled publications again: 0 and then 1."""
    here = stage()
    zero, one = (msgspec.structs.replace(publish(n).publications[0], assured=True) for n in (0, 1))
    here.ask("b2", "P", Publish((zero,)))
    here.congest(CROWDED)
    here.ask("b2", "P", Publish((one,)))
    carry_all_but(here, ("b2", "b0"))
    for left, right in [pair for pair in here.edges if "b2" in pair]:
        here.break_link(left, right)
    here.handle("b1", LinkChanged("b2", LinkState.UP))
    here.links["b1", "b2"].clear()
    here.settle()
    assert got(here, "S1") == []
    effects = here.handle("b1", then)
    assert [type(each) for each in effects].count(Settled) == 1
    given = [each.message for each in effects if type(each) is Send and each.neighbour == "b2"]
    carried = [each for each in given if type(each) is Notification]
    assert [each.publications[0].publication.sequence for each in carried] == back
    here.settle()
    assert got(here, "S1") == []


def routed(number: int, host: str, publisher: str) -> RoutedPublication:
    publication = publish(number, publisher=publisher).publications[0]
    publication = msgspec.structs.replace(publication, assured=True)
    return RoutedPublication(publication, MessageId(host, publisher, number))


def test_the_publishers_numbers_show_a_returned_publications_incarnation() -> None:
    here = stage()
    here.ask("b2", "Q", Advertise(advertisement("q", publisher="Q")))
    here.ask("b2", "Q", publish(0, 1, 2, publisher="Q"))
    here.settle()
    back = Notification((routed(1, "b2", "P"),), 3, 0b001, (), {})
    assert not here.handle("b2", Received("b1", back))


def test_returned_publications_of_a_former_incarnation_do_not_precede_retransmissions() -> None:
    here = stage()
    own = routed(1, "b2", "P")
    back = Notification((own,), 3, 0b001, (), {})
    assert not here.handle("b2", Received("b1", back))
    # A publication made since the broker's start is its own.
    here.ask("b2", "P", Publish((own.publication,)), Publish((own.publication,)))
    here.settle()
    assert here.handle("b2", Received("b1", back))


def test_a_batch_with_publications_of_a_former_incarnation_is_split() -> None:
    """One batch must not count as wholly of the former incarnation; its rest would be lost (random
    growth).
    """
    here = stage()
    here.tell("b2", "b0", Notification((routed(1, "b0", "Q"), routed(2, "b2", "P")), 2))
    here.settle()
    assert got(here, "S1") == [2]


def test_a_returned_batch_is_split_by_host() -> None:
    """Otherwise the host of the first publication would drop the rest."""
    here = stage(clusters=4)
    one, two = routed(1, "b2", "P"), routed(2, "b3", "Q")
    here.tell("b0", "b1", Notification((one, two), 3, 0b0001, (), {}))
    back = {target: each.publications for _, target, each in here.sent(Notification)}
    assert back == {"b2": (one,), "b3": (two,)}


def test_publications_of_a_dead_carrier_are_waited_for_until_returned() -> None:
    """The link to the carrier is given up later than a gap usually is."""
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0))
    carry_all_but(here, ("b2", "b1"))
    lost = here.links["b2", "b1"].popleft()
    here.handle("b2", Loads({"b0": LinkLoad(0, 40, 0)}))
    here.ask("b2", "P", publish(1))
    here.settle()
    assert (got(here, "S1"), held(here)) == ([], {"b0": 1})
    here.handle("b0", LinkChanged("b1", LinkState.FAILED))
    here.links["b0", "b1"].clear()
    here.links["b1", "b0"].clear()
    while here.now_us < 2 * DEFAULTS.doubt_us and ("b0", TIMER) in here.timers:
        here.fire("b0", TIMER)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([], {"b0": 1})
    here.handle("b2", LinkChanged("b1", LinkState.FAILED))
    here.handle("b2", Returned("b1", lost))
    here.settle()
    assert (got(here, "S1"), held(here)) == ([0, 1], {})


def test_a_paused_sequencer_does_not_give_up_sooner() -> None:
    """The missing publication was delayed as long, before the broker or on its way."""
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(0, 1))
    carry_all_but(here, ("b2", "b0"))
    here.handle("b0", Received("b1", WayLost()))
    assert held(here) == {"b0": 2}
    here.now_us += 2 * DEFAULTS.doubt_us
    here.fire("b0", TIMER)
    assert held(here) == {"b0": 2}
    wait_in_vain(here, "b0")
    carry_all_but(here, ("b2", "b0"))
    assert (held(here), got(here, "S1")) == ({}, [0, 1])


@pytest.mark.parametrize("is_given_back", [False, True])
def test_publications_for_a_leaving_sequencer_arrive_before_the_sweep(
    is_given_back: bool,
) -> None:
    """Otherwise it waits for the sweep, and the sweep waits behind later publications for 30 s."""
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1))
    here.congest(("b2", "b0", 0))
    here.ask("b2", "P", publish(2))
    carried = ("b2", "b1")
    carry_all_but(here, carried)
    assert held(here) == {"b0": 1}
    here.handle("b0", Leave())
    carry_all_but(here, carried)
    for link in [("b1", "a0"), ("b2", "a0")]:
        here.links |= {link: deque(), link[::-1]: deque()}
        here.mend_link(*link)
    carry_all_but(here, carried)
    assert [source for source, *_ in here.sent(Sweep)] == ["b1", "b2"]
    if is_given_back:
        here.break_link("b0", "b1")
    here.settle()
    assert got(here, "S1") == [1, 2]
    assert held(here) == {}
    here.ask("b2", "P", publish(3))
    here.settle()
    wait_in_vain(here, "a0")
    here.settle()
    assert got(here, "S1") == [1, 2, 3]
    assert ("b2", "a0") in {ends[:2] for ends in here.sent(Notification)}


class FrontOnly(OrderedDict[Any, Any]):
    """A table of which only the front may be read."""

    def items(self) -> Any:
        raise AssertionError("all are looked at")

    keys = items


def test_ended_numberings_are_dropped_from_the_front() -> None:
    """Copying all ended ones at each end takes 1 ms with 10,000 of them."""
    here, order_us = stage(), DEFAULTS.order_us
    numbering = here.brokers["b2"].strategy.routing.numbering
    numbering._ended = FrontOnly()
    parts = range(1, 9)
    for part in parts:
        publications = (routed(1, "b2", f"P{part}"),)
        now_us = part * order_us // 4
        numbering.number(publications, {0: "b0"}, {"b1": 0b001}, {}, now_us, [])
        numbering.end(f"P{part}", now_us, [])
    remembered = [part for part in parts if numbering.sequencer_of((f"P{part}", 0)) == "b0"]
    assert remembered == [4, 5, 6, 7, 8]


def test_a_leaving_publisher_ends_its_own_numbering() -> None:
    """A search of all numbered publishers takes 0.5 ms with 10,000 of them."""
    here = stage()
    for name in ("P", "Q"):
        here.ask("b2", name, Advertise(advertisement(name, publisher=name)))
    here.settle()
    here.congest(CROWDED)
    for name in ("P", "Q"):
        here.ask("b2", name, publish(1, publisher=name))
    numbering = here.brokers["b2"].strategy.routing.numbering
    numbering._numbers = Unread(numbering._numbers)
    here.ask("b2", "P", Goodbye())
    here.ask("b2", "P", Goodbye())
    assert numbering._numbers.rows().keys() == {("Q", 0)}
    assert numbering.sequencer_of(("P", 0)) == "b0"  # of ended numberings
    here.settle()
    assert [each.publisher for _, _, each in here.sent(NumbersEnd)] == ["P"]
