"""The broker machine: only errors of a driver raise, whatever neighbours and clients send."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    Costs,
    Deliver,
    Effect,
    Input,
    LinkChanged,
    LinkState,
    MeasuredDelays,
    Notify,
    Received,
    Record,
    Requested,
    Send,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    Carrier,
    Goodbye,
    Message,
    Ping,
    Pong,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Together,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.records import RefusalRecord
from shoal.clients.forwarding_channel_messages import ClientNotice, ClientRequest
from shoal.clients.front_ends import (
    DeliveriesReported,
    StandsFor,
    Stayed,
    Wants,
    WhoHad,
    WhoWants,
    Wish,
)
from shoal.clients.messages import (
    CannotMove,
    MigrationAdvertisement,
    Paused,
    PingRequest,
    PingTimes,
    Relocate,
    Resume,
)
from shoal.model import Advertisement, MessageId, Publication, Subscription
from shoal.overlays.coordination.messages import ChangeMessage
from shoal.overlays.dynatops.messages import (
    Between,
    MembersMessage,
    TopicMessage,
    UserArriving,
    ViewCarrier,
)
from shoal.overlays.link_admission import ReadyToRoute
from shoal.overlays.octopia.messages import DepartingMessage
from shoal.overlays.publisher_relocation.grape.messages import (
    PlaceAnswer,
    PlaceRequest,
    SessionTraces,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.pop.messages import (
    RelocationAnswer,
    RelocationRequest,
    TraceResult,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Doubt,
    ExchangeForgotten,
    RingMessage,
)
from shoal.overlays.self_organising.links.healing import HealingMessage
from shoal.overlays.self_organising.moves.path_messages import PathMessage
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid
from shoal.simulation.links.reliable import ReliableBroker, ReliableFrame
from tests.broker.transcript import publish
from tests.examples import examples
from tests.overlays.bluedove.anything import cluster_messages
from tests.overlays.coordination.anything import change_messages
from tests.overlays.dynatops.anything import ring_messages
from tests.overlays.octopia.anything import product_messages
from tests.overlays.self_organising.anything import (
    exchange_messages,
    path_messages,
    self_organising_messages,
)
from tests.overlays.tid.anything import tree_messages
from tests.strategies import attributes, filters
from tests.systems import TREES, covering, eager

SESSION = MessageId("B1", "P", 0)


def broker(system: str = "tree", *, is_covering: bool = False) -> Broker:
    parameters = eager(system, 2)
    if is_covering:
        parameters = covering(system, parameters)
    return Broker("B1", ("B0", "B2"), strategy_factory(system, parameters))


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_going_backwards_raises(system: str) -> None:
    machine = broker(system)
    machine.handle(Requested("C", Ping(SESSION)), 100)
    machine.handle(Requested("C", Ping(SESSION)), 100)
    with pytest.raises(ValueError, match="broker B1: time went back from 100 to 99"):
        machine.handle(Requested("C", Ping(SESSION)), 99)


@pytest.mark.parametrize("system", SYSTEMS)
def test_any_client_may_ping(system: str) -> None:
    effects = broker(system).handle(Requested("anybody", Ping(SESSION)), 1)
    assert effects == [Notify("anybody", Pong(SESSION))]


def test_refusals_are_sent_to_clients_not_to_neighbours() -> None:
    reason = "P has not advertised at B1"
    record = Record(RefusalRecord(broker="B1", sender="P", reason=reason))
    effects = broker().handle(Requested("P", publish(1)), 1)
    assert effects == [record, Notify("P", Rejected(reason))]
    reason = "Resume is not expected from neighbour B2"
    record = Record(RefusalRecord(broker="B1", sender="B2", reason=reason))
    assert broker().handle(Received("B2", Resume(1, True)), 1) == [record]


# --- random input -----------------------------------------------------------------------------

BROKERS = st.sampled_from(["B0", "B1", "B2", "B3", "unknown"])
CLIENTS = st.sampled_from(["P", "Q", "C"])
NAMES = st.sampled_from(["n1", "n2", "n3"])
NUMBERS = st.one_of(st.integers(-3, 6), st.sampled_from([10**9, -(10**18), 2**63 - 1]))
PATHS = st.lists(BROKERS, max_size=4).map(tuple)
FILTERS = filters(["a", "b"], max_leaves=3)
RATES = st.floats(allow_nan=False)
IDS = st.builds(MessageId, BROKERS, CLIENTS, NUMBERS)
ADVERTISEMENTS = st.builds(Advertisement, id=NAMES, publisher=CLIENTS, filter=FILTERS)
SUBSCRIPTIONS = st.builds(Subscription, id=NAMES, client=CLIENTS, filter=FILTERS)
PUBLICATIONS = st.builds(
    Publication,
    publisher=CLIENTS,
    sequence=NUMBERS,
    published_us=NUMBERS,
    attributes=attributes(["a", "b"]),
    assured=st.booleans(),
    again=st.booleans(),
)
ROUTED = st.builds(RoutedPublication, PUBLICATIONS, IDS, st.one_of(st.none(), IDS))
NOT_NEGATIVE = st.integers(0, 2**70)
TRACES = st.builds(
    BrokerTrace,
    broker=BROKERS,
    neighbours=st.lists(BROKERS, max_size=3).map(tuple),
    bits=NOT_NEGATIVE,
    deliveries=NOT_NEGATIVE,
    input_queue_us=NOT_NEGATIVE,
    matching_us=NOT_NEGATIVE,
    output_queue_us=st.lists(st.tuples(BROKERS, NOT_NEGATIVE), max_size=3).map(tuple),
    client_output_us=NOT_NEGATIVE,
)
BITS = st.dictionaries(CLIENTS, NOT_NEGATIVE, max_size=3)


def tuples(of: st.SearchStrategy) -> st.SearchStrategy:  # type: ignore[type-arg]
    return st.lists(of, max_size=3).map(tuple)


MESSAGES: dict[type[Message], st.SearchStrategy[Message]] = {
    Advertise: st.builds(Advertise, ADVERTISEMENTS, NUMBERS),
    Unadvertise: st.builds(Unadvertise, NAMES),
    Subscribe: st.builds(Subscribe, SUBSCRIPTIONS),
    Unsubscribe: st.builds(Unsubscribe, NAMES),
    AdvertisementsSaid: st.builds(AdvertisementsSaid),
    SubscriptionsSaid: st.builds(SubscriptionsSaid),
    PublicationBatch: st.builds(PublicationBatch, tuples(ROUTED), NUMBERS),
    Publish: st.builds(Publish, tuples(PUBLICATIONS)),
    PingRequest: st.builds(PingRequest, IDS, PATHS),
    Ping: st.builds(Ping, IDS),
    Pong: st.builds(Pong, IDS),
    PingTimes: st.builds(PingTimes, IDS, st.dictionaries(BROKERS, NUMBERS, max_size=4)),
    CannotMove: st.builds(CannotMove),
    Relocate: st.builds(Relocate, PATHS),
    Paused: st.builds(Paused, PATHS, NUMBERS),
    MigrationAdvertisement: st.builds(
        MigrationAdvertisement, PATHS, tuples(ADVERTISEMENTS), NUMBERS
    ),
    StandsFor: st.builds(StandsFor),
    WhoHad: st.builds(WhoHad, IDS),
    DeliveriesReported: st.builds(
        DeliveriesReported,
        IDS,
        BITS,
        NOT_NEGATIVE,
        NUMBERS,
        st.dictionaries(CLIENTS, NUMBERS),
        tuples(CLIENTS),
    ),
    WhoWants: st.builds(WhoWants),
    Wants: st.builds(
        Wants, tuples(st.builds(Wish, CLIENTS, tuples(NAMES), NUMBERS, st.booleans()))
    ),
    Stayed: st.builds(Stayed, CLIENTS),
    Resume: st.builds(Resume, NUMBERS, st.booleans()),
    Goodbye: st.builds(Goodbye),
    Rejected: st.builds(Rejected, NAMES),
    TraceInformationRequest: st.builds(TraceInformationRequest, IDS),
    TraceInformationAnswer: st.builds(TraceInformationAnswer, IDS, tuples(TRACES)),
    SessionTraces: st.builds(SessionTraces, IDS, BROKERS, tuples(TRACES)),
    PlaceRequest: st.builds(PlaceRequest, IDS, PATHS, RATES, RATES),
    PlaceAnswer: st.builds(PlaceAnswer, IDS, PATHS, st.booleans()),
    MigrationUpdate: st.builds(
        MigrationUpdate, CLIENTS, PATHS, tuples(ADVERTISEMENTS), tuples(NAMES), NUMBERS
    ),
    MigrationComplete: st.builds(MigrationComplete, CLIENTS, PATHS, NUMBERS, st.booleans()),
    TraceResult: st.builds(TraceResult, IDS, NUMBERS, NUMBERS),
    RelocationRequest: st.builds(RelocationRequest, CLIENTS, RATES, PATHS, RATES, NUMBERS),
    RelocationAnswer: st.builds(RelocationAnswer, CLIENTS, PATHS, RATES, NUMBERS),
} | cluster_messages(BROKERS, NAMES, SUBSCRIPTIONS, IDS, ROUTED)
MESSAGES |= product_messages(BROKERS, NAMES, CLIENTS, SUBSCRIPTIONS, ROUTED)
MESSAGES |= tree_messages(BROKERS, NAMES, SUBSCRIPTIONS, ADVERTISEMENTS, ROUTED)
MESSAGES |= self_organising_messages(BROKERS)
MESSAGES |= exchange_messages(BROKERS, NAMES, SUBSCRIPTIONS)
MESSAGES |= path_messages(CLIENTS, PATHS)
MESSAGES |= change_messages(BROKERS, NAMES, SUBSCRIPTIONS)
MESSAGES[ReadyToRoute] = st.just(ReadyToRoute())
MESSAGES |= ring_messages(BROKERS, CLIENTS, FILTERS, ROUTED)
BASES = {
    Message,
    Carrier,
    RingMessage,
    ChangeMessage,
    DepartingMessage,
    HealingMessage,
    PathMessage,
    MembersMessage,
    TopicMessage,
    ViewCarrier,
    UserArriving,
    Between,
}
JOINS = st.one_of([strategy for kind, strategy in MESSAGES.items() if kind.joins])
MESSAGES[Together] = st.builds(Together, st.lists(JOINS, min_size=1, max_size=3).map(tuple))
ANY_MESSAGE = st.one_of(list(MESSAGES.values()))
FRAMES = st.builds(ReliableFrame, NUMBERS, NUMBERS, st.one_of(st.none(), ANY_MESSAGE))
NEIGHBOURS = st.sampled_from(["B0", "B2"])
TIMERS = st.sampled_from(["session", "link", "trace", "request", "migration"])
OTHER_INPUTS = st.one_of(
    st.builds(TimerFired, st.tuples(TIMERS, CLIENTS)),
    st.builds(LinkChanged, NEIGHBOURS, st.sampled_from(LinkState)),
    st.builds(
        MeasuredDelays,
        st.one_of(st.none(), NOT_NEGATIVE),
        st.one_of(st.none(), NOT_NEGATIVE),
        st.dictionaries(BROKERS, NOT_NEGATIVE),
        st.one_of(st.none(), NOT_NEGATIVE),
    ),
    st.builds(Costs, st.floats(0, 9), st.dictionaries(BROKERS, st.floats(0, 9))),
)


def inputs(from_neighbours: st.SearchStrategy[Message]) -> st.SearchStrategy[list[Input]]:
    return st.lists(
        st.one_of(
            st.builds(Received, BROKERS, from_neighbours),
            st.builds(Requested, CLIENTS, ANY_MESSAGE),
            OTHER_INPUTS,
        ),
        max_size=25,
    )


def test_every_message_type_has_a_strategy() -> None:
    def kinds(base: type[Message]) -> set[type[Message]]:
        return {base, *(kind for sub in base.__subclasses__() for kind in kinds(sub))}

    between_drivers = {ReliableFrame, ClientRequest, ClientNotice}
    ours = {kind for kind in kinds(Message) if kind.__module__.startswith("shoal.")}
    assert ours - BASES - between_drivers == set(MESSAGES)


def feed(machine: Broker | ReliableBroker, happenings: list[Input]) -> list[Effect]:
    effects: list[Effect] = []
    for now_us, input in enumerate(happenings):
        effects += machine.handle(input, now_us)
    return effects


@pytest.mark.parametrize("is_covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("system", TREES)
@given(st.data())
@settings(max_examples=examples(25))
def test_no_input_raises(system: str, is_covering: bool, data: st.DataObject) -> None:
    machine = broker(system, is_covering=is_covering)
    effects = feed(machine, data.draw(inputs(ANY_MESSAGE)))
    for effect in effects:
        if isinstance(effect, Send):
            assert effect.neighbour in ("B0", "B2"), effect
        if isinstance(effect, Deliver):
            assert set(effect.subscriptions) <= {"n1", "n2", "n3"}
    assert_tables_hold_together(machine)


def test_a_broker_that_is_no_neighbour_gets_no_answer() -> None:
    machine = broker("self_organising", is_covering=False)
    assert feed(machine, [Received("B0", Doubt(("B9", 0)))]) == [
        Send("B0", ExchangeForgotten(("B9", 0)))
    ]
    assert feed(machine, [Received("unknown", Doubt(("B9", 0)))]) == []


@given(inputs(FRAMES))
@settings(max_examples=examples(30))
def test_no_frame_raises(happenings: list[Input]) -> None:
    machine = ReliableBroker(broker("grape"))
    feed(machine, happenings)


def assert_tables_hold_together(machine: Broker) -> None:
    """The invariant of tree routing, after any messages: see `shoal.overlays.tree.propagation`."""
    tables = machine.strategy.tables
    if tables.wanted is not None:
        assert tables.wanted.keys() <= {"B0", "B2"}
        for neighbour, wanted in tables.wanted.items():
            told = {id for id, row in tables.subscriptions.items() if row.is_told(neighbour)}
            assert told == {*wanted.kept}
            assert {*wanted} == {
                id
                for id, row in tables.subscriptions.items()
                if row.last_hop != neighbour and row.is_wanted_by(neighbour)
            }
        return
    for entry in tables.subscriptions.values():
        assert entry.last_hop not in entry.forwarded_to
        for neighbour in ("B0", "B2"):
            if neighbour in entry.forwarded_to:
                assert entry.is_wanted_by(neighbour), (entry.id, neighbour)
            elif entry.last_hop != neighbour:
                assert not entry.is_wanted_by(neighbour), (entry.id, neighbour)
