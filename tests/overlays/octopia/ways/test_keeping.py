"""Publications without a way are kept for a bounded time, in which pauses do not count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import LinkChanged, LinkState, SetTimer, Started, TimerFired
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, RoutedPublication, Subscribe
from shoal.model import MessageId
from shoal.overlays.octopia.known import exchange
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, RosterPlace
from shoal.overlays.octopia.routing import RETRY
from shoal.overlays.octopia.ways.copies import bits_of
from shoal.overlays.octopia.ways.keeping import QUARTERS, TIMER
from shoal.overlays.registry import strategy_factory
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import examples
from tests.overlays.octopia.order.crowded import break_and_return
from tests.overlays.octopia.stages import ProductStage, rows
from tests.unread import Unread

MINUTE_US = 60_000_000


def stage() -> ProductStage:
    """P at a0, S at c0, whose link to b0 is broken."""
    here = ProductStage(clusters=2)
    here.ask("c0", "S", Subscribe(subscription("s", client="S")))
    here.ask("a0", "P", Advertise(advertisement("p")))
    here.settle()
    here.break_link("b0", "c0")
    return here


def kept(here: ProductStage) -> int:
    return here.brokers["b0"].strategy.description["kept"]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_pause_of_the_broker_does_not_count_as_waiting(is_before: bool) -> None:
    """The pause may begin before the publication comes, or after."""
    here = stage()
    if is_before:
        here.now_us += MINUTE_US
    here.ask("a0", "P", publish(1))
    here.settle()
    here.now_us += MINUTE_US
    here.break_link("b0", "b1")
    assert kept(here) == 1
    here.mend_link("b0", "c0")
    here.settle()
    assert here.delivered() == [(1, "S")]
    assert kept(here) == 0


def test_a_broker_disconnected_for_long_counts_as_dead() -> None:
    here = stage()
    here.ask("a0", "P", publish(1))
    here.settle()
    for _ in range(QUARTERS):
        here.fire("b0", TIMER)
        assert kept(here) == 1
    here.fire("b0", TIMER)
    assert kept(here) == 0
    here.ask("a0", "P", publish(2))
    here.settle()
    assert kept(here) == 0
    assert ("b0", TIMER) not in here.timers


def test_vain_link_requests_do_not_prolong_the_wait() -> None:
    """A dead broker is asked for a link every 2 s; the requests must not prolong its timeout."""
    here = stage()
    here.ask("a0", "P", publish(1))
    here.settle()
    for _ in range(QUARTERS + 1):
        assert kept(here) == 1
        here.handle("b0", LinkChanged("c0", LinkState.FAILED))
        here.fire("b0", TIMER)
    assert kept(here) == 0


def test_a_returning_broker_is_waited_for_until_its_tables_came() -> None:
    here = stage()
    here.ask("a0", "P", publish(1))
    here.settle()
    for _ in range(QUARTERS):
        here.fire("b0", TIMER)
    here.handle("b0", LinkChanged("c0", LinkState.UP))
    for _ in range(QUARTERS):
        here.fire("b0", TIMER)
        assert kept(here) == 1
    here.handle("c0", LinkChanged("b0", LinkState.UP))
    here.settle()
    assert here.delivered() == [(1, "S")]


def test_a_starting_broker_waits_for_former_neighbours_as_for_disconnected_ones() -> None:
    parameters = OctopiaParameters(rows=rows("ab", 2), parents=(0,))
    machine = Broker("a0", (), strategy_factory("octopia", parameters), expected=("a1", "b0"))
    started = Started(former=("b0",), give_up_us=3_000_000)
    now_us, last_us = 0, started.give_up_us + parameters.patience_us
    effects = [each for each in machine.handle(started, now_us) if isinstance(each, SetTimer)]
    while now_us < last_us:
        assert "b0" in machine.awaited
        now_us = next(each.at_us for each in effects if each.key == exchange.TIMER)
        effects = machine.handle(TimerFired(exchange.TIMER), now_us)
        effects = [each for each in effects if isinstance(each, SetTimer)]
    assert now_us == last_us
    assert machine.is_ready


def test_a_publication_for_a_cluster_without_brokers_is_settled() -> None:
    """It returns when the link is known to be lost, and must not wait for ever (random growth)."""
    here = ProductStage("a", (), 2)
    here.ask("a1", "S", Subscribe(subscription("s", client="S")))
    here.ask("a0", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("a0", "P", publish(1))
    here.tell("a1", "a0", PlacesAnnounced((RosterPlace("a1", 5, PlaceStage.LEFT, 0, 0, 1),)))
    break_and_return(here, "a0", "a1")
    here.fire("a0", RETRY)
    assert here.brokers["a0"].strategy.description["kept"] == 1
    for _ in range(QUARTERS + 1):
        here.fire("a0", TIMER)
    assert here.brokers["a0"].strategy.description["kept"] == 0


CLIENTS, HOSTS, CLUSTERS = ("P", "Q"), ("a0", "b1"), (0, 1, 2)
RUNS = st.tuples(
    st.sampled_from(HOSTS),
    st.lists(st.sampled_from(CLIENTS), min_size=1, max_size=3),
    st.sets(st.sampled_from(CLUSTERS), min_size=1),
    st.sets(st.sampled_from(CLUSTERS)),
)


@settings(max_examples=examples(100))
@given(st.lists(st.one_of(st.none(), RUNS), max_size=12))
def test_publishers_with_kept_publications_are_known_without_a_search(
    steps: list[tuple[str, list[str], set[int], set[int]] | None],
) -> None:
    """The index equals a search of all kept publications; None: all is taken out."""
    keeping = ProductStage().brokers["b2"].strategy.routing.kept
    parts: list[tuple[str, list[str], set[int], set[int]]] = []
    for step in steps:
        if step is None:
            assert sum(map(len, keeping.take().values())) == len(parts)
            parts.clear()
        else:
            host, publishers, owed, numbered = step
            run = tuple(
                RoutedPublication(
                    publish(1, publisher=each).publications[0], MessageId(host, each, 1)
                )
                for each in publishers
            )
            shifts = dict.fromkeys(numbered, 5)
            keeping.keep(run, 1, bits_of(owed), (), 0, [], None, shifts)
            parts.append(step)
    keeping._kept = Unread(keeping._kept)
    for cluster in CLUSTERS:
        here = [part for part in parts if cluster in part[2]]
        for host in HOSTS:
            found = any(part[0] == host and cluster in part[3] for part in here)
            assert keeping.has_of(host, cluster) == found
        for client in CLIENTS:
            theirs = [part for part in here if client in part[1]]
            assert keeping.has_for(client, cluster) == bool(theirs)
            assert keeping.holds_up(client, cluster) == any(cluster not in p[3] for p in theirs)
