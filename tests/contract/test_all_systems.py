"""The contract of every overlay system, tree or not, for each registered system."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from shoal.broker.effects import (
    Effect,
    Input,
    Leave,
    LinkChanged,
    LinkReady,
    LinkState,
    Received,
    Requested,
    Started,
    Stays,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    Carrier,
    Goodbye,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BrokerContext
from shoal.broker.wire import COMMON, Codec, FrameReader
from shoal.matching import matches
from shoal.model import Publication
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.trace_rows import SHARED_RECORDS
from shoal.simulation.judging.checkers import check_deliveries
from shoal.simulation.links.overlay_link import SimulatedLink
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import at_length
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import SETTLE_US, UNTIL_US, RandomNetwork
from tests.seeds.networks.random_stays import StayingNetwork
from tests.systems import each_protocol, eager

EVERY = pytest.mark.parametrize("system", SYSTEMS)
# Systems of one protocol share the code that these tests show.
OF_EACH_PROTOCOL = pytest.mark.parametrize("system", each_protocol())


@EVERY
def test_every_system_declares_that_it_keeps_order(system: str) -> None:
    """Order is kept by default; other tests check that the system keeps it."""
    assert strategy_factory(system)(BrokerContext("B1", ("B2", "B3"), Random(1))).keeps_order


@EVERY
def test_tables_are_empty_at_first(system: str) -> None:
    strategy = strategy_factory(system)(BrokerContext("B1", ("B2", "B3"), Random(1)))
    assert strategy.description.get("subscriptions", 0) == len(strategy.searched) == 0
    assert strategy.most_candidates == 0


def run(system: str, seed: int) -> RandomNetwork:
    network = RandomNetwork(seed, system=system)
    network.world.run(UNTIL_US)
    return network


@EVERY
def test_publications_without_subscribers_have_no_cost_estimate_where_declared_so(
    system: str,
) -> None:
    """Otherwise one piece of a divided batch could occupy a broker for long."""
    network = run(system, 42)
    for node in network.world.brokers.values():
        strategy = node.machine.strategy
        assert (strategy.most_candidates > 0) == (len(strategy.searched) > 0)
        for publication in network.publications:
            work = strategy.work_of(publication.attributes)
            assert strategy.most_candidates > 0 or work == 0


@pytest.mark.parametrize("seed", [42, *at_length([11, 23])])
@EVERY
def test_every_publication_reaches_exactly_its_subscribers(system: str, seed: int) -> None:
    """At the end the tables equal those of the system's oracle, if it has one."""
    network = run(system, seed)
    assert network.table_problems() == []
    trace = network.world.trace
    assert not trace.refused
    verdict = check_deliveries(
        network.publications,
        [interest for interest, _ in network.interests],
        sorted(trace.deliveries, key=lambda row: row.delivered_us),
        SETTLE_US,
    )
    assert verdict.required > 0
    assert (verdict.lost, verdict.duplicates, verdict.phantoms) == ((), (), ())
    assert verdict.out_of_order == ()
    # A system without tables writes none to the files of a run.
    tables = {*SYSTEMS[system].records.values(), *SHARED_RECORDS.values()}
    assert {type(row) for row in trace.records} <= tables


@EVERY
def test_a_neighbour_that_is_linked_again_may_be_sent_publications(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a live network publications wait in the link until it is up again."""
    handle, waiting, came_up = Broker.handle, set(), 0

    def watched(self: Broker, input: Input, now_us: int) -> list[Effect]:
        nonlocal came_up
        effects = handle(self, input, now_us)
        match input:
            case LinkChanged(neighbour, LinkState.UP):
                waiting.add((self.id, neighbour))
                came_up += 1
            case LinkChanged(neighbour):
                waiting.discard((self.id, neighbour))
        ready = {(self.id, each.neighbour) for each in effects if isinstance(each, LinkReady)}
        waiting.difference_update(ready)
        return effects

    monkeypatch.setattr(Broker, "handle", watched)
    world = RandomNetwork(11, system=system).world
    for left, right in world.links:
        world.cut(UNTIL_US, left, right)
        world.heal(UNTIL_US + SETTLE_US, left, right)
    world.run(UNTIL_US + 10 * SETTLE_US)
    assert came_up
    assert waiting == set()


@OF_EACH_PROTOCOL
def test_joins_and_leaves_do_not_disturb_other_brokers(system: str) -> None:
    if not SYSTEMS[system].grows:
        machine = Broker("B1", ("B2",), strategy_factory(system))
        (stays,) = machine.handle(Leave(), 1)
        assert isinstance(stays, Stays)
        return
    left = 0
    for seed in (2, 3):
        network = ChangingNetwork(seed, system=system)
        assert network.run(UNTIL_US) == []
        assert network.required > 0
        left += len(network.world.departures)
    assert left > 3


@pytest.mark.parametrize("seed", [17, *at_length([18])])
@OF_EACH_PROTOCOL
def test_a_cancelled_leave_has_no_effect(system: str, seed: int) -> None:
    if SYSTEMS[system].grows:
        network = StayingNetwork(seed, system=system)
        assert network.run(UNTIL_US) == []
        assert network.required > 0
        assert network.stayed


@OF_EACH_PROTOCOL
def test_a_subscriber_that_leaves_receives_nothing_more(system: str) -> None:
    network = run(system, 11)
    world, before = network.world, len(network.world.trace.deliveries)
    for interest, home in network.interests:
        request = Requested(interest.subscription.client, Goodbye())
        world.queue.push(UNTIL_US, world.brokers[home].receive, request)
    for publication in network.publications[-40:]:
        world.request(UNTIL_US + SETTLE_US, publication.publisher, Publish((publication,)))
    world.run(UNTIL_US + 2 * SETTLE_US)
    assert before > 0
    assert len(world.trace.deliveries) == before
    assert not [row for row in world.trace.refused if "Goodbye" in row.reason]


@OF_EACH_PROTOCOL
def test_a_divided_batch_has_the_effects_of_the_whole(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers divide batches that would occupy a broker, and links divide those too long for one
    frame.
    """
    send, cut = SimulatedLink.send, 0

    def in_pieces(self: SimulatedLink, input: Received, units: int, ready_us: int) -> None:
        nonlocal cut
        message = input.message
        if not isinstance(message, Carrier) or len(message.publications) < 2:
            send(self, input, units, ready_us)
            return
        cut += 1
        for each in message.publications:
            piece = message.with_publications((each,))
            send(self, Received(input.neighbour, piece), 1, ready_us)

    monkeypatch.setattr(SimulatedLink, "send", in_pieces)
    for seed in (23, 42):
        network = run(system, seed)
        together: dict[str, list[Publication]] = {}
        promised = [(each.publisher, each.filter) for each in network.kept_advertisements]
        for each in network.publications:
            if not any(
                publisher == each.publisher and matches(filter, each.attributes)
                for publisher, filter in promised
            ):
                continue
            new = msgspec.structs.replace(
                each, sequence=each.sequence + 10_000, published_us=UNTIL_US
            )
            together.setdefault(each.publisher, []).append(new)
        for publisher, some in together.items():
            network.world.request(UNTIL_US, publisher, Publish(tuple(some)))
        network.world.run(UNTIL_US + 2 * SETTLE_US)
        verdict = check_deliveries(
            [*network.publications, *(each for some in together.values() for each in some)],
            [interest for interest, _ in network.interests],
            sorted(network.world.trace.deliveries, key=lambda row: row.delivered_us),
            SETTLE_US,
        )
        assert (verdict.lost, verdict.duplicates, verdict.phantoms) == ((), (), ())
        assert verdict.out_of_order == ()
    assert cut or system == "bluedove"  # this system sends publications one by one


@EVERY
def test_every_message_between_brokers_can_be_encoded(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, kinds = Codec(COMMON + SYSTEMS[system].messages), set()
    send, send_one = SimulatedLink.send, SimulatedLink.send_one

    def encoded(input: Received) -> Received:
        message: Message = input.message
        (body,) = FrameReader().feed(codec.encode(message))
        assert codec.decode(body) == message
        kinds.add(type(message))
        return Received(input.neighbour, codec.decode(body))

    monkeypatch.setattr(
        SimulatedLink, "send", lambda self, input, *when: send(self, encoded(input), *when)
    )
    monkeypatch.setattr(
        SimulatedLink,
        "send_one",
        lambda self, input, ready_us: send_one(self, encoded(input), ready_us),
    )
    run(system, 11)
    assert any(issubclass(kind, Message) for kind in kinds)


@EVERY
def test_the_same_inputs_give_the_same_effects(system: str) -> None:
    def history() -> list[Input]:
        random, inputs = Random(7), []
        for _ in range(300):
            number, other = random.randrange(12), random.choice(["B2", "B3"])
            choices: list[Input] = [
                Requested("P", Advertise(advertisement(f"n{number}", f"x > {number}"))),
                Requested("P", publish(*range(number))),
                Requested("C", Subscribe(subscription(f"n{number}", f"x = {number}"))),
                Requested("C", Unsubscribe(f"n{number}")),
                Requested("P", Unadvertise(f"n{number}")),
                Received(other, Subscribe(subscription(f"{other}{number}", "x < 7", client="D"))),
                LinkChanged(other, random.choice(list(LinkState))),
            ]
            inputs.append(random.choice(choices))
        return [Started(), *inputs]

    def effects() -> list[list[Effect]]:
        factory = strategy_factory(system, eager(system))
        machine = Broker("B1", ("B2", "B3"), factory, seed=5)
        return [machine.handle(input, now_us) for now_us, input in enumerate(history())]

    assert effects() == effects()
