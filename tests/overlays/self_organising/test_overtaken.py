"""A broker that decided on an exchange and was disconnected learns the others' later changes."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from shoal.broker.effects import Effect, EndLink, LinkState, OpenLink, Remember, Started
from shoal.broker.strategy import BrokerContext
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    Greeting,
    LinkStanding,
)
from shoal.overlays.self_organising.links.memory import DONE as REMEMBERED
from shoal.overlays.self_organising.links.memory import STANDINGS, UNHEARD, UNKNOWN, LinkMemory
from tests.forced_exchanges import Forced

# B2 decided at 20, and died: B4 - B1 goes for B4 - B2.
EXCHANGE = LinkExchange(cycle=("B2", "B0", "B1", "B4"), remove=2, saving=0)
DONE = ExchangeDecision(("B4", 15), EXCHANGE, is_done=True, at_us=20, latest_us=18)


def b4_meets_b2(old_link: LinkStanding) -> tuple[bool, list[Effect]]:
    """Whether B4, which took the exchange for aborted, accepts the new link as one of the tree."""
    forced = Forced(BrokerContext("B4", ("B1", "B5"), Random(1)))
    known = {"B1": old_link, "B5": LinkStanding(True, 0), "B2": LinkStanding(False, 11)}
    out: list[Effect] = []
    facts = {STANDINGS: msgspec.to_builtins(known)}
    forced.start(Started(former=(), give_up_us=60_000_000, facts=facts), 40, out)
    forced.link("B2", LinkState.UP, 50, out)
    out.clear()
    forced.receive("B2", Greeting(LinkStanding(True, 20), (DONE,)), 60, out)
    return forced.overlay.memory.standing("B2").is_in, out


def test_a_late_decision_holds_though_others_had_aborted() -> None:
    is_in, out = b4_meets_b2(LinkStanding(True, 11))
    assert is_in
    assert EndLink("B1") in out
    assert OpenLink("B2", is_lasting=True) in out


def test_a_late_decision_fails_once_its_old_link_was_exchanged() -> None:
    is_in, out = b4_meets_b2(LinkStanding(False, 30))
    assert not is_in
    assert EndLink("B2") in out


@pytest.mark.parametrize(
    ("new_link", "old_link", "done"),
    [
        (LinkStanding(True, 20), LinkStanding(True, 50), [DONE]),
        (LinkStanding(True, 20), LinkStanding(True, 50), []),
        (LinkStanding(False, 25), LinkStanding(False, 20), [DONE]),
        (LinkStanding(False, 25), LinkStanding(True, 50), [DONE]),
    ],
    ids=["the old link is back", "it is, all else is forgotten", "the new link has gone", "both"],
)
def test_a_broker_that_committed_ignores_later_deciders(
    new_link: LinkStanding, old_link: LinkStanding, done: list[ExchangeDecision]
) -> None:
    # A broker that agreed and was cut off decides when the old link ends: at its own time.
    forced = Forced(BrokerContext("B4", ("B1", "B5"), Random(1)))
    known = {"B1": old_link, "B5": LinkStanding(True, 0), "B2": new_link}
    facts = msgspec.to_builtins({STANDINGS: known, REMEMBERED: done})
    out: list[Effect] = []
    forced.start(Started(former=(), give_up_us=60_000_000, facts=facts), 40, out)
    for neighbour in ("B1", "B2"):
        forced.link(neighbour, LinkState.UP, 50, out)
    out.clear()
    forced.receive("B1", msgspec.structs.replace(DONE, at_us=30), 60, out)
    memory = forced.overlay.memory
    assert memory.standing("B2").is_in == new_link.is_in
    assert memory.standing("B1") == old_link
    assert not any(isinstance(effect, EndLink) for effect in out)


def test_a_successors_time_is_later_than_clocks_that_are_ahead() -> None:
    forced = Forced(BrokerContext("B4", ("B1", "B5"), Random(1)))
    known = {"B1": LinkStanding(True, 900), "B5": LinkStanding(False, 800)}
    out: list[Effect] = []
    facts = {STANDINGS: msgspec.to_builtins(known)}
    forced.start(Started(former=(), give_up_us=60_000_000, facts=facts), 40, out)
    for name, is_in in (("B1", False), ("B5", True), ("B6", True)):
        forced.overlay.memory.settle(name, 50, is_in=is_in)
    found = {name: forced.overlay.memory.standing(name) for name in ("B1", "B5", "B6")}
    assert found == {
        "B1": LinkStanding(False, 901),
        "B5": LinkStanding(True, 801),
        "B6": LinkStanding(True, 50),
    }


def test_a_later_decision_has_a_later_time_whatever_the_clock_says() -> None:
    memory = LinkMemory(["B1"], dict)
    memory.put("B1", LinkStanding(False, 900))
    memory.put("B1", LinkStanding(True, 50))
    assert memory.standing("B1") == LinkStanding(True, 901)
    memory.put("B1", LinkStanding(True, 60))
    assert memory.standing("B1") == LinkStanding(True, 901)


def test_a_broker_with_records_of_links_refuses_any_other_link() -> None:
    """Otherwise a link of an exchange that died with its initiator closes a cycle for good."""
    memory = LinkMemory((), dict)
    assert memory.standing("B2") == UNKNOWN
    memory.start({STANDINGS: {"B1": msgspec.to_builtins(LinkStanding(True, 900))}}, 0)
    assert memory.standing("B2") == UNHEARD


def test_a_broker_without_a_links_record_does_not_report_its_removal() -> None:
    forced = Forced(BrokerContext("B1", (), Random(1)))
    out: list[Effect] = []
    forced.start(Started(former=(), give_up_us=60_000_000, facts={}), 40, out)
    forced.link("B4", LinkState.UP, 50, out)
    out.clear()
    forced.receive("B4", Greeting(LinkStanding(False, 20), (DONE,)), 60, out)
    assert forced.overlay.memory.decisions == [DONE]
    assert not forced.overlay.memory.standing("B4").is_in


def test_a_rejoined_brokers_link_is_not_its_former_one() -> None:
    """The other end remembers the end of the former link."""
    ended = LinkStanding(False, 900)
    joiner = LinkMemory(["B1"], dict, is_founder=False)
    joiner.start({}, 1_000)
    assert joiner.agree("B1", ended) == LinkStanding(True, 1_000)
    # After a restart it knows what it has agreed to.
    again = LinkMemory(["B1"], dict, is_founder=False)
    again.start({STANDINGS: {"B1": msgspec.to_builtins(LinkStanding(False, 1_100))}}, 2_000)
    assert not again.standing("B1").is_in


def test_decisions_on_exchanges_of_an_earlier_life_have_no_effect() -> None:
    """Else it waits for the tables of a broker that has left since."""
    forced = Forced(BrokerContext("B4", ("B2",), Random(1), is_founder=False))
    out: list[Effect] = []
    forced.start(Started(former=("B2",), give_up_us=60_000_000, facts={}), 40, out)
    forced.link("B2", LinkState.UP, 50, out)
    opened = LinkExchange(cycle=("B4", "B2", "B1"), remove=1, saving=0)
    former = ExchangeDecision(("B1", 15), opened, is_done=True, at_us=20, latest_us=18)
    forced.receive("B2", Greeting(LinkStanding(True, 45), (former,)), 60, out)
    assert list(forced.overlay.memory.neighbours) == ["B2"]

    # Nor have they after a restart.
    facts = [effect.facts for effect in out if isinstance(effect, Remember)][-1]
    again = LinkMemory(["B2"], dict, is_founder=False)
    again.start(facts, 90)
    assert again.standing("B1") == LinkStanding(False, 40)
