"""The contract of every system on a tree. A registered system is tested without further code.

`test_all_systems.py` has the contract of all systems.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

import msgspec
import pytest

from shoal.broker.effects import (
    Effect,
)
from shoal.broker.messages import (
    Advertise,
    PublicationBatch,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BrokerContext
from shoal.model import MessageId
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.forwarding import TreeForwarding
from shoal.overlays.tree.propagation import Propagation
from shoal.simulation.judging.checkers import CheckerVerdict, TimedSubscription, check_deliveries
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription
from tests.seeds.networks.random_network import RandomNetwork
from tests.systems import TREES, calm

pytestmark = pytest.mark.parametrize("system", TREES)

STAR = (("B1", "B2"), ("B1", "B3"), ("B1", "B4"))


def stage(system: str) -> Stage:
    return Stage(STAR, system, calm(system))


def test_tables_are_empty_at_first(system: str) -> None:
    strategy = strategy_factory(system)(BrokerContext("B1", ("B2", "B3"), Random(1)))
    assert (strategy.tables.advertisements, strategy.tables.subscriptions) == ({}, {})


@pytest.mark.parametrize("order", list(permutations(["advertise", "subscribe", "link"])))
def test_the_order_of_requests_does_not_change_the_tables(
    system: str, order: tuple[str, ...]
) -> None:
    here = stage(system)
    here.break_link("B1", "B3")
    here.take_transcript()
    for what in order:
        match what:
            case "advertise":
                here.ask("B2", "P", Advertise(advertisement("a")))
            case "subscribe":
                here.ask("B3", "C", Subscribe(subscription("s")))
            case "link":
                here.mend_link("B1", "B3")
        here.settle()
    here.ask("B2", "P", publish(1, 2))
    here.settle()
    assert here.delivered() == [(1, "C"), (2, "C")]
    assert not here.problems([(advertisement("a"), "B2")], [(subscription("s"), "B3")])


def test_withdrawing_everything_empties_the_tables(system: str) -> None:
    here = stage(system)
    for broker in ("B2", "B3", "B4"):
        here.ask(
            broker, f"P{broker}", Advertise(advertisement(f"a{broker}", "x > 1", f"P{broker}"))
        )
        here.ask(broker, f"C{broker}", Subscribe(subscription(f"s{broker}", "x < 9", f"C{broker}")))
    here.settle()
    here.ask("B2", "PB2", publish(3, 4, publisher="PB2"))
    here.settle()
    assert len(here.delivered()) == 6
    for broker in ("B3", "B2", "B4"):
        here.ask(broker, f"C{broker}", Unsubscribe(f"s{broker}"))
        here.ask(broker, f"P{broker}", Unadvertise(f"a{broker}"))
    here.settle()
    for row in here.rows().values():
        assert (row.advertisements, row.subscriptions) == ({}, {})
    assert not here.refusals()


def test_a_publication_goes_over_each_link_once_and_only_towards_subscribers(system: str) -> None:
    here = stage(system)
    here.ask("B2", "P", Advertise(advertisement("a")))
    for client in ("C", "D", "E"):
        here.ask("B3", client, Subscribe(subscription(f"s{client}", client=client)))
    here.settle()
    before = len(here.everything_sent)
    here.ask("B2", "P", publish(1))
    here.settle()
    carried = [row for row in here.everything_sent[before:] if isinstance(row[2], PublicationBatch)]
    assert [row[:2] for row in carried] == [("B2", "B1"), ("B1", "B3")]
    assert sorted(client for _, client in here.delivered()) == ["C", "D", "E"]


def test_strangers_and_foreign_clients_are_refused(system: str) -> None:
    here = stage(system)
    here.ask("B2", "P", Advertise(advertisement("a")))
    here.ask("B2", "C", Subscribe(subscription("s")))
    here.settle()
    before = here.rows()
    routed = RoutedPublication(publication(1), MessageId("B2", "P", 0))
    here.tell("stranger", "B2", PublicationBatch((routed,), 1))
    here.tell("stranger", "B2", Subscribe(subscription("t")))
    here.ask("B2", "Q", Unadvertise("a"), Unsubscribe("s"), publish(1, publisher="Q"))
    assert len(here.refusals()) == 5
    assert (here.rows(), here.delivered()) == (before, [])


def test_inputs_of_other_brokers_do_not_change_this_one(system: str) -> None:
    """Brokers share no state; they only send messages."""
    one, two = stage(system), stage(system)
    one.ask("B2", "P", Advertise(advertisement("a")))
    assert two.rows() == stage(system).rows()


# --- mutants that the checkers must find, in any system ---------------------------------------


def notices(system: str, what: str, count: int = 4) -> bool:
    """Whether the checkers report such a problem in a random network."""
    networks = (RandomNetwork(seed, system=system) for seed in range(count))
    return any(what in problem for network in networks for problem in network.run())


def mutate_forward(monkeypatch: pytest.MonkeyPatch, change) -> None:  # type: ignore[no-untyped-def]
    """Apply `change(effects)` after each forwarding of publications."""
    forward = TreeForwarding.forward

    def mutant(self, publications, hops, hop, out):  # type: ignore[no-untyped-def]
        mine: list[Effect] = []
        routes = forward(self, publications, hops, hop, mine)
        out.extend(change(mine))
        return routes

    monkeypatch.setattr(TreeForwarding, "forward", mutant)


def test_doubled_messages_are_noticed(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate_forward(monkeypatch, lambda effects: effects + effects[-1:])
    network = RandomNetwork(1, system=system)
    network.run()
    interests = [interest for interest, _ in network.interests]
    verdict = verdict_of(network, interests)
    assert verdict.duplicates
    assert not verdict.lost


def test_dropped_messages_are_noticed(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate_forward(monkeypatch, lambda effects: effects[:-1] if len(effects) > 1 else effects)
    assert notices(system, "lost=((")


def test_deliveries_to_others_are_noticed(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = RandomNetwork(1, system=system)
    network.run()
    interests = [interest for interest, _ in network.interests]
    deliveries = network.world.trace.deliveries
    deliveries[5] = msgspec.structs.replace(deliveries[5], client="nobody")
    assert verdict_of(network, interests).phantoms


def test_tables_that_keep_too_much_are_noticed(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Propagation, "release", lambda self, hop, rows, out: [])
    assert notices(system, "subscriptions", 8)


def verdict_of(network: RandomNetwork, interests: list[TimedSubscription]) -> CheckerVerdict:
    deliveries = sorted(network.world.trace.deliveries, key=lambda row: row.delivered_us)
    return check_deliveries(network.publications, interests, deliveries, 6_000_000)
