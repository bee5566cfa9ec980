"""A broker that restarts after joins and leaves waits for the brokers that know more."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from shoal.broker.effects import (
    Effect,
    EndLink,
    Left,
    LinkState,
    Remember,
    Send,
    SetTimer,
    Started,
)
from shoal.broker.messages import Subscribe
from shoal.broker.strategy import BrokerContext
from shoal.overlays.octopia.known.exchange import TIMER
from shoal.overlays.octopia.messages import BitsSaid, TablesKnown, TablesSaid
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.places.news import PlaceNews
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, Roster, RosterPlace
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.tree.messages import AdvertisementsSaid
from tests.broker.transcript import subscription
from tests.overlays.octopia.stages import rows

SECOND_US = 1_000_000


def test_a_restarted_broker_waits_for_its_departed_neighbours_successors() -> None:
    """Without them it would settle publications that its cluster wants, and lose them."""
    parameters = OctopiaParameters(rows=rows("abc", 2), parents=(0, 0))
    context = BrokerContext("b0", (), Random(1), expected=("a0", "b1"))
    strategy = Octopia(context, parameters)
    out: list[Effect] = []
    former = Started(former=("a0", "b1"), give_up_us=3 * SECOND_US, facts={})
    strategy.start(former, 1, out)
    strategy.link("b1", LinkState.UP, 2, out)
    strategy.receive(
        "b1", PlacesAnnounced((RosterPlace("a0", 5, PlaceStage.LEFT, 0, 0, 0),)), 3, out
    )
    strategy.receive("b1", AdvertisementsSaid(), 4, out)
    strategy.receive("b1", BitsSaid(), 4, out)
    assert not strategy.is_ready
    assert strategy.awaited == ["c0"]
    strategy.link("c0", LinkState.UP, 5, out)
    assert not [each for each in out if isinstance(each, Send) and type(each.message) is BitsSaid]
    strategy.receive("c0", TablesSaid(), 6, out)
    assert strategy.is_ready
    assert Send("b1", BitsSaid()) in out


def test_a_restarted_joined_broker_knows_the_founders() -> None:
    """A joined broker must not take itself for the first of its cluster (random growth)."""
    parameters = OctopiaParameters(rows=rows("ab", 2), parents=(0,))
    context = BrokerContext("n", (), Random(1), expected=("b1",))
    first, out = Octopia(context, parameters), list[Effect]()
    first.start(Started(former=(), give_up_us=3 * SECOND_US, facts={}), 1, out)
    first.link("b1", LinkState.UP, 2, out)
    founders = Roster(parameters.product()).places.values()
    first.receive(
        "b1",
        PlacesAnnounced((*founders, RosterPlace("n", 10, PlaceStage.THERE, 10, 2, 0, 1))),
        3,
        out,
    )
    facts = [each.facts for each in out if isinstance(each, Remember)][-1]
    second = Octopia(context, parameters)
    second.start(Started(former=("b1",), give_up_us=3 * SECOND_US, facts=facts), 20, [])
    assert second.product.brokers == first.product.brokers
    assert second.is_placed
    assert not second.is_ready


@pytest.mark.parametrize("is_told", [False, True])
def test_a_restarted_last_broker_of_a_cluster_waits_for_new_members(
    is_told: bool,
) -> None:
    """Otherwise it would settle publications for brokers that it does not know, and lose them
    (random growth).
    """
    context = BrokerContext("n", (), Random(1), expected=("a0",))
    parameters = OctopiaParameters(rows=(("a0", "a1", "n"), ("b0", "b1", "")), parents=(0,))
    strategy, out = Octopia(context, parameters), list[Effect]()
    strategy.start(Started(former=("a0",), give_up_us=3 * SECOND_US, facts={}), 20, out)
    strategy.link("a0", LinkState.UP, 21, out)
    came = PlacesAnnounced((RosterPlace("m", 15, PlaceStage.THERE, 15, 1, 2, 0),))
    strategy.receive("a0", came if is_told else PlacesAnnounced(()), 22, out)
    strategy.receive("a0", AdvertisementsSaid(), 23, out)
    strategy.receive("a0", BitsSaid(), 23, out)
    assert strategy.is_ready is not is_told
    assert (Send("a0", BitsSaid()) in out) is not is_told
    strategy.receive("a0", came, 24, out)
    assert strategy.is_ready is not is_told  # it stays ready: joining brokers have no clients yet
    strategy.link("m", LinkState.UP, 25, out)
    strategy.receive("m", TablesSaid(), 26, out)
    assert strategy.is_ready
    assert Send("a0", BitsSaid()) in out


OWN = RosterPlace("n", 10, PlaceStage.THERE, 10, 0, 2, -1)
CAME = RosterPlace("m", 15, PlaceStage.THERE, 15, 1, 2, 0)


def alone(*former: str) -> tuple[Octopia, list[Effect]]:
    """n, which joined without a place of its own, restarts alone in its cluster."""
    parameters = OctopiaParameters(rows=rows("ab", 2), parents=(0,))
    founders = Roster(parameters.product()).places.values()
    facts = {"places": msgspec.to_builtins([*founders, OWN])}
    strategy = Octopia(BrokerContext("n", (), Random(1), expected=former), parameters)
    out: list[Effect] = []
    strategy.start(Started(former=former, give_up_us=3 * SECOND_US, facts=facts), 20, out)
    return strategy, out


@pytest.mark.parametrize("came", [(), (CAME,)])
def test_a_restarted_lone_joined_broker_first_learns_of_new_members(
    came: tuple[RosterPlace, ...],
) -> None:
    """Otherwise it would be ready at once."""
    strategy, out = alone("a0", "b1")
    strategy.link("a0", LinkState.UP, 21, out)
    strategy.receive("a0", PlacesAnnounced(()), 22, out)
    strategy.receive("a0", AdvertisementsSaid(), 22, out)
    strategy.receive("a0", BitsSaid(), 22, out)
    assert not strategy.is_ready
    assert Send("a0", BitsSaid()) not in out
    strategy.link("b1", LinkState.UP, 23, out)
    strategy.receive("b1", PlacesAnnounced(came), 24, out)
    assert strategy.is_ready is (not came)
    assert (Send("a0", BitsSaid()) in out) is (not came)
    if came:
        strategy.link("m", LinkState.UP, 25, out)
        strategy.receive("m", TablesSaid(), 26, out)
    assert strategy.is_ready
    assert Send("a0", BitsSaid()) in out


@pytest.mark.parametrize("end", ["given up", "left", "gone"])
def test_a_restarted_lone_broker_waits_a_bounded_time(end: str) -> None:
    strategy, out = alone("a0", "b1")
    strategy.link("a0", LinkState.UP, 21, out)
    strategy.receive("a0", PlacesAnnounced(()), 22, out)
    strategy.receive("a0", AdvertisementsSaid(), 22, out)
    assert not strategy.is_ready
    if end == "left":
        strategy.receive(
            "a0", PlacesAnnounced((RosterPlace("b1", 19, PlaceStage.LEFT, 0, 1, 1, 0),)), 23, out
        )
    elif end == "gone":
        strategy.link("b1", LinkState.FAILED, 23, out)
    else:
        for _ in range(2):
            timers = [each for each in out if isinstance(each, SetTimer) and each.key == TIMER]
            assert not strategy.is_ready
            strategy.timer(TIMER, timers[-1].at_us, out)
    assert strategy.is_ready
    assert Send("a0", BitsSaid()) in out


def test_a_restarted_broker_waits_for_earlier_joined_members() -> None:
    """It knows them, and must not wait for founders only."""
    parameters = OctopiaParameters(rows=(("a0", "a1"), ("", "b1")), parents=(0,))
    strategy = Octopia(BrokerContext("a0", (), Random(1), expected=("a1", "n")), parameters)
    out: list[Effect] = []
    facts = {"places": msgspec.to_builtins([RosterPlace("n", 10, PlaceStage.THERE, 10, 1, 0, 0)])}
    started = Started(former=("a1", "n"), give_up_us=3 * SECOND_US, facts=facts)
    strategy.start(started, 20, out)
    strategy.link("a1", LinkState.UP, 21, out)
    strategy.receive("a1", PlacesAnnounced(()), 22, out)
    strategy.receive("a1", AdvertisementsSaid(), 22, out)
    strategy.receive("a1", BitsSaid(), 22, out)
    assert not strategy.is_ready
    assert Send("a1", BitsSaid()) not in out
    strategy.link("n", LinkState.UP, 23, out)
    strategy.receive("n", TablesKnown({}), 23, out)
    assert Send("n", TablesSaid()) in out
    strategy.receive("n", TablesSaid(), 24, out)
    assert strategy.is_ready
    assert Send("a1", BitsSaid()) in out


def test_a_broker_that_has_left_remembers_it() -> None:
    """Others know it by then, and it must not take itself for a broker with a place."""
    roster = Roster(OctopiaParameters(rows=rows("ab", 2), parents=(0,)).product())
    out: list[Effect] = []
    PlaceNews("a1", roster, {"a0"}).announce_left(10, out)
    [facts] = [each.facts for each in out if isinstance(each, Remember)]
    assert ["a1", 10, "left"] in [place[:3] for place in facts["places"]]


def test_a_broker_killed_after_its_leave_only_ends_its_links() -> None:
    """Its clients' subscriptions do not matter any more, and no request withdraws them."""
    parameters = OctopiaParameters(rows=rows("ab", 2), parents=(0,))
    strategy = Octopia(BrokerContext("a1", (), Random(1), expected=("a0", "b1")), parameters)
    out: list[Effect] = []
    places = list(Roster(parameters.product()).places.values())
    left = msgspec.to_builtins([*places, RosterPlace("a1", 10, PlaceStage.LEFT, 0, 0, 1)])
    former = Started(former=("a0", "b1"), give_up_us=3 * SECOND_US, facts={"places": left})
    strategy.start(former, 20, out)
    assert strategy.is_leaving
    strategy.request("C", Subscribe(subscription("c", client="C")), 20, out)
    strategy.link("a0", LinkState.UP, 21, out)
    out.clear()
    strategy.leave(22, out)
    assert out == [EndLink("a0")]
    strategy.link("b1", LinkState.UP, 23, out)
    assert EndLink("b1") in out
    strategy.link("b1", LinkState.ENDED, 24, out)
    assert Left() not in out
    strategy.link("a0", LinkState.ENDED, 24, out)
    assert out[-1] == Left()
