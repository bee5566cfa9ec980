"""The live driver of one machine: batches, the order of inputs, timers, measured delays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import (
    CancelTimer,
    Costs,
    Deliver,
    Effect,
    Hold,
    Input,
    LinkChanged,
    LinkLoad,
    LinkState,
    Loads,
    MeasuredDelays,
    Notify,
    Received,
    Release,
    Requested,
    ResetLink,
    Send,
    SetTimer,
    Started,
    TimerFired,
    WatchCosts,
    WatchDelays,
    WatchLoads,
)
from shoal.broker.messages import (
    Message,
    Ping,
    Pong,
    PublicationBatch,
    RoutedPublication,
    Unsubscribe,
)
from shoal.broker.strategy import BaseStrategy
from shoal.broker.wire import WireError
from shoal.model import MessageId, Publication
from shoal.runtime.driving.batches import MAX_BATCH, joined
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing import pauses
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.node import Node
from tests.broker.transcript import publish
from tests.runtime.live import on_loop, until

SESSION = MessageId("B1", "P", 0)


def batch(*numbers: int, hops: int = 1, assured: bool = False) -> PublicationBatch:
    return PublicationBatch(
        tuple(
            RoutedPublication(
                Publication(
                    publisher="P", sequence=number, published_us=0, attributes={}, assured=assured
                ),
                MessageId("B1", "P", number),
            )
            for number in numbers
        ),
        hops,
    )


def test_runs_of_publications_are_one_batch() -> None:
    other = Unsubscribe("s")
    found = joined([batch(0), batch(1, 2), other, batch(3), batch(4, hops=2), batch(5, hops=2)])
    assert found == [(batch(0, 1, 2), 2), (other, 1), (batch(3), 1), (batch(4, 5, hops=2), 2)]
    assert joined([]) == []
    long = joined([batch(number) for number in range(2 * MAX_BATCH + 1)])
    assert [count for _, count in long] == [MAX_BATCH, MAX_BATCH, 1]
    assert [len(each.publications) for each, _ in long if isinstance(each, PublicationBatch)] == [
        MAX_BATCH,
        MAX_BATCH,
        1,
    ]


class Machine:
    """Stands for a broker: returns given effects, and records inputs."""

    strategy = BaseStrategy()
    id = "B1"
    is_ready = True

    def __init__(self, answer: Callable[[Input], list[Effect]]) -> None:
        self.inputs: list[Input] = []
        self.times_us: list[int] = []
        self._answer = answer

    def handle(self, input: Input, now_us: int) -> list[Effect]:
        self.inputs.append(input)
        self.times_us.append(now_us)
        return self._answer(input)


class Links:
    """Reports at once that a link is closed, as a full one would be."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.sent: list[Message] = []
        self.in_ack_tracker: list[AckTracker] = []
        self.queued = {"B2": (5, 2)}

    def send(self, neighbour: str, message: Message, ack_tracker: AckTracker | None = None) -> None:
        if neighbour == "B9":
            raise WireError("cannot be written")
        self.sent.append(message)
        if ack_tracker is not None:
            ack_tracker.extend()
            self.in_ack_tracker.append(ack_tracker)

    def open(self, neighbour: str, address: str, *, is_lasting: bool) -> None: ...

    def end(self, neighbour: str) -> None:
        self._node.changed([LinkChanged(neighbour, LinkState.ENDED)])

    def recall(self, neighbour: str, over: str | None, *, moves: bool) -> None: ...

    def ready(self, neighbour: str) -> None: ...

    def reset(self, neighbour: str) -> None:
        self._node.changed([LinkChanged(neighbour, LinkState.FAILED)])

    def go_on(self) -> None: ...

    def delays_us(self) -> dict[str, int]:
        return {"B2": 300}

    def queues(self) -> dict[str, tuple[int, int]]:
        return dict(self.queued)


class Client:
    def __init__(self) -> None:
        self.notices: list[Message] = []

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: Message) -> None:
        self.notices.append(message)


def node_of(answer: Callable[[Input], list[Effect]]) -> tuple[Node, Machine, Links]:
    machine = Machine(answer)
    node = Node(machine, Clock())  # type: ignore[arg-type]
    links = node.links = Links(node)
    return node, machine, links


@on_loop
async def test_input_during_an_input_is_handled_after_it() -> None:
    def answer(input: Input) -> list[Effect]:
        if isinstance(input, Received):
            return [ResetLink("B2"), Send("B3", Unsubscribe("x")), Notify("C", Pong(SESSION))]
        return [Send("B3", Unsubscribe("s"))] if isinstance(input, LinkChanged) else []

    node, machine, links = node_of(answer)
    client = Client()
    node.attach("C", client)
    node.receive("B2", [batch(1)])
    assert machine.inputs == [Received("B2", batch(1)), LinkChanged("B2", LinkState.FAILED)]
    assert links.sent == [Unsubscribe("x"), Unsubscribe("s")]
    assert client.notices == [Pong(SESSION)]
    assert node.counts["publications_in"] == 1


@on_loop
async def test_unwritable_messages_are_counted_and_stop_nothing() -> None:
    node, _, links = node_of(
        lambda input: [Send("B9", Unsubscribe("x")), Send("B2", Unsubscribe("x"))]
    )
    node.request("C", Ping(SESSION))
    assert node.counts["unwritable"] == 1
    assert links.sent == [Unsubscribe("x")]


@on_loop
async def test_timers_fire_once_and_never_early() -> None:
    clock = Clock()

    def answer(input: Input) -> list[Effect]:
        if not isinstance(input, Requested):
            return []
        soon_us = clock.now_us() + 3_000
        return [
            SetTimer(("a",), soon_us + 10_000_000),
            SetTimer(("a",), soon_us),
            SetTimer(("b",), soon_us),
            CancelTimer(("b",)),
            CancelTimer(("never",)),
        ]

    node, machine, _ = node_of(answer)
    asked_us = clock.now_us()
    node.request("C", Ping(SESSION))
    await until(lambda: len(machine.inputs) == 2)
    assert machine.inputs[1] == TimerFired(("a",))
    assert machine.times_us[1] >= asked_us + 3_000
    node.stop()


@on_loop
async def test_after_a_pause_arrived_input_precedes_timers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pauses, "LONG_US", 50_000)
    node, machine, _ = node_of(
        lambda input: [SetTimer(("a",), node._last_us + 1_000)] if input == Started() else []
    )
    node.start()
    time.sleep(0.2)  # as if it were stopped
    await asyncio.sleep(0.01)  # the loop looks at its timers, and at its sockets
    node.receive("B2", [batch(1)])
    await until(lambda: TimerFired(("a",)) in machine.inputs)
    assert machine.inputs == [Started(), Received("B2", batch(1)), TimerFired(("a",))]
    node.stop()


@on_loop
async def test_a_timer_set_in_the_past_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONG_US", 60_000_000)
    monkeypatch.setattr(pauses, "MOST_US", 2**40)
    node, machine, _ = node_of(lambda input: [SetTimer(("a",), 0)] if input == Started() else [])
    node.start()
    await until(lambda: TimerFired(("a",)) in machine.inputs)
    node.stop()


@on_loop
async def test_an_observing_machine_is_told_measurements() -> None:
    node, machine, _ = node_of(lambda input: [WatchDelays()] if input == Started() else [])
    node.start()
    node.receive("B2", [batch(1, 2)], since_us=node.clock.now_us() - 5_000)
    await until(lambda: any(isinstance(each, MeasuredDelays) for each in machine.inputs))
    (measured,) = (each for each in machine.inputs if isinstance(each, MeasuredDelays))
    assert machine.inputs[0] == Started()
    assert measured.output_us == {"B2": 300}
    assert measured.input_queue_us is not None
    assert measured.input_queue_us >= 5_000
    assert measured.client_output_us is None
    node.stop()


@on_loop
async def test_requests_wait_for_room() -> None:
    node, _, _ = node_of(lambda input: [])
    told: list[bool] = []
    node.at_hold.append(told.append)
    node.hold(True)
    node.hold(True)
    waiting = asyncio.create_task(node.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    node.hold(False)
    await waiting
    assert told == [True, False]


@on_loop
async def test_an_input_is_settled_when_everything_it_caused_is() -> None:
    def answer(input: Input) -> list[Effect]:
        if not isinstance(input, Received) or not isinstance(input.message, PublicationBatch):
            return []
        sent = input.message
        return [Send("B3", sent), Send("B4", sent), Send("B3", Unsubscribe("s"))]

    node, _, links = node_of(answer)
    settled: list[tuple[int, int]] = []

    def owe(first: int, last: int) -> AckTracker:
        return AckTracker(lambda: settled.append((first, last)))

    node.receive("B2", [Unsubscribe("x"), batch(1, assured=True), batch(2)], owe=owe)
    assert len(links.in_ack_tracker) == 2  # the batch for each, and nothing else
    links.in_ack_tracker[0].settle()
    assert settled == []
    links.in_ack_tracker[1].settle()
    assert settled == [(1, 2)]
    node.receive("B2", [batch(3)], owe=owe)  # not awaited
    node.receive("B9", [batch(4, assured=True)])  # nor is this
    assert settled == [(1, 2)]
    assert len(links.in_ack_tracker) == 2


@on_loop
async def test_an_input_without_effects_is_settled_at_once() -> None:
    node, _, _ = node_of(lambda input: [])
    settled: list[int] = []
    node.request("C", Ping(SESSION), ack_tracker=AckTracker(lambda: settled.append(1)))
    assert settled == [1]


@on_loop
async def test_a_restarted_neighbour_does_not_count_as_given_up() -> None:
    node, _, _ = node_of(lambda input: [])
    told: list[tuple[str, bool]] = []
    node.at_link.append(lambda neighbour, is_ready: told.append((neighbour, is_ready)))
    node.changed([LinkChanged("B2", LinkState.FAILED), LinkChanged("B2", LinkState.UP)])
    assert told == []
    node.changed([LinkChanged("B2", LinkState.FAILED)])
    assert told == [("B2", False)]


@on_loop
async def test_a_flush_goes_by_its_phases() -> None:
    node, _, _ = node_of(lambda input: [])
    found: list[Phase] = []
    for phase in (Phase.CLIENTS, Phase.LINKS, Phase.DELIVER, Phase.RECORD):
        node.at_flush(phase, partial(found.append, phase))
    node.flush()
    assert found == [Phase.DELIVER, Phase.RECORD, Phase.LINKS, Phase.CLIENTS]


@on_loop
async def test_publications_of_clients_wait_until_the_machine_is_ready() -> None:
    machine = Machine(lambda input: [])
    machine.is_ready = False
    node = Node(machine, Clock())  # type: ignore[arg-type]
    node.links = Links(node)
    request = publish(1)
    node.request("P", request)
    node.receive("B2", [Unsubscribe("s")])
    assert machine.inputs == [Received("B2", Unsubscribe("s"))]
    assert not node.is_ready
    machine.is_ready = True  # with what it is told next
    node.receive("B2", [Unsubscribe("t")])
    assert node.is_ready
    assert machine.inputs[1:] == [Received("B2", Unsubscribe("t")), Requested("P", request)]


def machine_that_holds(input: Input) -> list[Effect]:
    """A machine that holds and resumes at the requests of client C."""
    match input:
        case Requested("C", Unsubscribe("hold")):
            return [Hold()]
        case Requested("C", Unsubscribe("hold but")) | TimerFired():
            return [Hold(("B2",))]
        case Received("B2", Unsubscribe("release")):
            return [Release()]
    return []


@on_loop
async def test_held_input_comes_later_in_order_and_unsettled() -> None:
    node, machine, _ = node_of(machine_that_holds)
    settled: list[str] = []
    told: list[bool] = []
    node.at_hold.append(told.append)
    node.start()
    node.request("C", Unsubscribe("hold"))
    ack_tracker = AckTracker(lambda: settled.append("x"))
    node.receive("B2", [Unsubscribe("1")])
    node.bring(Received("B3", Unsubscribe("2")), ack_tracker=ack_tracker)
    node.request("P", Unsubscribe("3"))
    node.request("P", Ping(SESSION))  # is answered all the same
    node.receive("B2", [Unsubscribe("4")])
    assert len(machine.inputs) == 3
    assert (told, settled, node.holds_back("B2")) == ([True], [], True)
    node.bring(TimerFired(("t",)))  # from now on but of B2
    assert [input.message for input in machine.inputs if isinstance(input, Received)] == [
        Unsubscribe("1"),
        Unsubscribe("4"),
    ]
    assert not node.holds_back("B2")
    assert node.holds_back("B3")
    node.receive("B2", [Unsubscribe("release")])
    assert machine.inputs[-2:] == [
        Received("B3", Unsubscribe("2")),
        Requested("P", Unsubscribe("3")),
    ]
    assert (told, settled) == ([True, False], ["x"])


@on_loop
async def test_held_input_of_a_lost_link_is_dropped() -> None:
    node, machine, _ = node_of(machine_that_holds)
    node.start()
    node.request("C", Unsubscribe("hold"))
    node.receive("B3", [Unsubscribe("1")])
    node.changed([LinkChanged("B3", LinkState.FAILED)])
    node.bring(TimerFired(("t",)))
    node.receive("B2", [Unsubscribe("release")])
    assert Received("B3", Unsubscribe("1")) not in machine.inputs


@on_loop
async def test_loads_are_of_a_window_and_costs_are_reported_on_change() -> None:
    def answer(input: Input) -> list[Effect]:
        return [WatchLoads(20_000), WatchCosts()] if isinstance(input, Started) else []

    node, machine, links = node_of(answer)
    node.watching.report_costs(Costs(1.0, {"B2": 2.0}))
    node.start()
    links.queued = {"B2": (9, 3), "B3": (4, 4)}
    await until(lambda: any(isinstance(each, Loads) for each in machine.inputs))
    links.queued = {"B2": (9, 0), "B3": (1, 0)}  # B3's link has come up anew
    await until(lambda: sum(isinstance(each, Loads) for each in machine.inputs) > 1)
    node.watching.report_costs(Costs(1.0, {"B2": 2.0}))
    node.watching.report_costs(Costs(1.0, {}))
    node.stop()
    found = [each.links for each in machine.inputs if isinstance(each, Loads)]
    assert found[0] == {"B2": LinkLoad(4, 3, 3), "B3": LinkLoad(4, 0, 4)}
    assert found[1] == {"B2": LinkLoad(0, 3, 0), "B3": LinkLoad(1, 1, 0)}
    costs = [each for each in machine.inputs if isinstance(each, Costs)]
    assert costs == [Costs(1.0, {"B2": 2.0}), Costs(1.0, {})]
