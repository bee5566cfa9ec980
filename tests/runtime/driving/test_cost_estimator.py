"""Expensive batches are divided, whatever their source; later input waits in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized

import msgspec
import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Effect, Input, Received, Requested, TimerFired
from shoal.broker.holding import Holding
from shoal.broker.messages import PublicationBatch, Publish, RoutedPublication
from shoal.broker.strategy import BaseStrategy
from shoal.model import Attributes, MessageId, Publication
from shoal.runtime.driving.cost_estimator import (
    EACH_ASSURED,
    PIECE_US,
    TURN_US,
    ConsumerLimits,
    CostEstimator,
)
from shoal.runtime.driving.flushing import Flushing, Phase
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.turns import MachineTurns
from shoal.runtime.node import Node
from tests.runtime.live import on_loop, until

# As many subscriptions as one publication of a slice may match.
MANY = TURN_US // 2


class Heavy(BaseStrategy):
    """Publications state their own cost."""

    @property
    def searched(self) -> Sized:
        return range(MANY)

    def work_of(self, attributes: Attributes) -> int:
        work = attributes.get("work", 0)
        assert isinstance(work, int)
        return work


class Machine:
    """Takes as long as a publication says, by a clock of its own."""

    id = "B1"
    is_ready = True
    strategy = Heavy()

    def __init__(self, spend: Callable[[int], None]) -> None:
        self.inputs: list[Input] = []
        self._spend = spend

    def handle(self, input: Input, now_us: int) -> list[Effect]:
        self.inputs.append(input)
        self._spend(sum(each.attributes.get("work", 0) for each in published(input)))  # type: ignore[misc]
        return []


class Virtual(Clock):
    def __init__(self) -> None:
        self.at_us = 0

    def now_us(self) -> int:
        return self.at_us

    def spend(self, us: int) -> None:
        self.at_us += us


def published(input: Input) -> list[Publication]:
    if isinstance(input, Received) and isinstance(input.message, PublicationBatch):
        return [each.publication for each in input.message.publications]
    if isinstance(input, Requested) and isinstance(input.request, Publish):
        return list(input.request.publications)
    return []


def publication(number: int, work: int) -> Publication:
    return Publication(
        publisher="P",
        sequence=number,
        published_us=0,
        attributes={"work": work},
        body=b"",
        assured=True,
    )


def batch(*works: int) -> PublicationBatch:
    return PublicationBatch(
        tuple(
            RoutedPublication(publication(number, work), MessageId("B2", "P", number))
            for number, work in enumerate(works)
        ),
        1,
    )


def heavy() -> tuple[Node, Machine]:
    clock = Virtual()
    machine = Machine(clock.spend)
    return Node(machine, clock), machine  # type: ignore[arg-type]


@on_loop
async def test_a_neighbours_batch_is_divided_by_cost() -> None:
    """Otherwise a thousand would be handled at once, whatever each costs."""
    node, machine = heavy()
    settled: list[tuple[int, int]] = []

    def owe(first: int, last: int) -> AckTracker:
        return AckTracker(lambda: settled.append((first, last)), "B2")

    node.receive("B2", [batch(*[MANY] * 20)], owe=owe)
    assert node.is_behind
    assert node.is_holding
    assert not settled
    node.bring(TimerFired(("t",)))
    await until(lambda: not node.is_behind)
    *pieces, timer = machine.inputs
    assert timer == TimerFired(("t",))
    sizes = [len(published(piece)) for piece in pieces]
    assert sum(sizes) == 20
    assert max(sizes) <= 2
    numbers = [each.sequence for piece in pieces for each in published(piece)]
    assert numbers == list(range(20))
    assert settled == [(0, 0)]
    assert not node.is_holding


@on_loop
async def test_a_clients_batch_is_divided_by_cost() -> None:
    node, machine = heavy()
    settled: list[str] = []
    request = Publish(tuple(publication(number, MANY) for number in range(10)))
    node.request("P", request, ack_tracker=AckTracker(lambda: settled.append("all")))
    await until(lambda: not node.is_behind)
    assert max(len(published(each)) for each in machine.inputs) <= 2
    assert sum(len(published(each)) for each in machine.inputs) == 10
    assert settled == ["all"]


@on_loop
async def test_a_cheap_batch_is_not_divided() -> None:
    node, machine = heavy()
    node.receive("B2", [batch(*[0] * 500)])
    assert [len(published(each)) for each in machine.inputs] == [500]
    assert not node.is_behind


@on_loop
async def test_no_cost_is_estimated_if_no_piece_can_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An estimate for each would make brokers with a thousand subscriptions half as fast."""
    node, machine = heavy()
    monkeypatch.setattr(Heavy, "searched", range(1_000))
    monkeypatch.setattr(Heavy, "work_of", None)
    node.receive("B2", [batch(*[0] * 500)])
    sizes = [len(published(each)) for each in machine.inputs]
    assert sum(sizes) == 500
    assert max(sizes) * 1_000 < PIECE_US < (max(sizes) + 2) * 1_010


@pytest.mark.parametrize(("size", "most"), [(500, 100), (16_384, 4)])
def test_long_texts_make_pieces_smaller(
    monkeypatch: pytest.MonkeyPatch, size: int, most: int
) -> None:
    """Twenty of them with 1,000 filters' patterns must not share a slice."""
    node, _ = heavy()
    monkeypatch.setattr(Heavy, "searched", range(300))
    carried = tuple(
        msgspec.structs.replace(
            each, publication=msgspec.structs.replace(each.publication, body=bytes(size))
        )
        for each in batch(*[0] * 100).publications
    )
    first, *rest = node.cost_estimator.cut(Received("B2", PublicationBatch(carried, 1)))
    assert len(published(first)) == most
    assert sum(len(published(each)) for each in rest) == 100 - most


@on_loop
async def test_an_expensive_publication_is_delivered_before_the_next() -> None:
    """Two publications with fan-outs of a slice each must not share one flush."""
    node, machine = heavy()
    clients: list[str] = []
    node.at_flush(Phase.DELIVER, lambda: clients.append(f"delivered {len(machine.inputs)}"))
    node.at_flush(Phase.CLIENTS, lambda: clients.append(f"told {len(machine.inputs)}"))
    for number in range(3):
        node.request("P", Publish((publication(number, 2 * TURN_US),)))
    assert len(machine.inputs) == 1
    await until(lambda: not node.is_behind)
    assert [each for each in clients if each.startswith("delivered")][:1] == ["delivered 1"]
    assert {"told 1", "told 2", "told 3"} <= set(clients)


@on_loop
async def test_an_expensive_delivery_is_reported_in_the_next_slice() -> None:
    """Otherwise one flush records and writes as well, for more than 100 ms."""
    clock = Virtual()
    calls: list[str] = []
    flushing = Flushing(lambda: calls.append("done"), clock)
    takes = [TURN_US, TURN_US, 0]

    def deliver() -> None:
        calls.append("deliver")
        clock.spend(takes.pop(0))

    flushing.at(Phase.CLIENTS, lambda: calls.append("tell"))
    flushing.at(Phase.RECORD, lambda: calls.append("record"))
    flushing.at(Phase.DELIVER, deliver)
    flushing.schedule()
    await asyncio.sleep(0)
    assert calls == ["deliver"]
    await asyncio.sleep(0)
    assert calls == ["deliver", "deliver", "record", "tell", "done"]


@on_loop
async def test_batches_that_arrive_together_share_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice for each would have all deliveries in one flush: 0.18 s."""
    monkeypatch.setattr("shoal.runtime.driving.batches.MAX_BATCH", 1)
    node, machine = heavy()
    delivered: list[int] = []
    node.at_flush(Phase.DELIVER, lambda: delivered.append(len(machine.inputs)))
    node.receive("B2", [batch(TURN_US // 2 + 1) for _ in range(10)])
    assert node.is_behind
    assert delivered == [1]
    assert len(machine.inputs) == 2
    await until(lambda: not node.is_behind)
    assert len(machine.inputs) == 10


@on_loop
async def test_a_broker_that_stops_handles_waiting_input() -> None:
    node, machine = heavy()
    node.receive("B2", [batch(*[MANY] * 20)])
    assert node.is_behind
    node.flush()
    assert not node.is_behind
    assert sum(len(published(each)) for each in machine.inputs) == 20


@pytest.mark.parametrize("work", [0, 3, MANY])
def test_the_cost_of_deliveries_counts(work: int) -> None:
    node, _ = heavy()
    taker = ConsumerLimits(
        lambda: 1_000, lambda attributes: 1_000, lambda attributes, work_us: True
    )
    node.cost_estimator.takers.append(taker)
    input = Received("B2", batch(*[work] * 100))
    first, *rest = node.cost_estimator.cut(input)
    most = TURN_US // (10 + EACH_ASSURED * 1_000 + work) + 1
    assert len(published(first)) == most
    assert [len(published(each)) for each in rest] == [100 - most]


@on_loop
async def test_held_input_is_divided_when_released() -> None:
    """Held input and all later input must not be handled at once."""
    clock = Virtual()
    machine = Machine(clock.spend)
    holding: Holding[AckTracker | None] = Holding()
    spent: list[int] = []
    settled: list[str] = []

    def handle(input: Input, ack_tracker: AckTracker | None, since_us: int | None) -> None:
        machine.handle(input, clock.now_us())
        if ack_tracker is not None:
            ack_tracker.settle()

    def end() -> None:
        spent.append(clock.now_us() - sum(spent))

    cost_estimator = CostEstimator(machine, clock)  # type: ignore[arg-type]
    turns = MachineTurns(
        handle, holding, cost_estimator, clock, lambda: None, end, lambda is_behind: None
    )
    holding.hold(())
    for name in ("B2", "B3"):
        ack_tracker = AckTracker(lambda name=name: settled.append(name), name)  # type: ignore[misc]
        turns.bring([(Received(name, batch(*[MANY] * 20)), ack_tracker)], None)
    assert not machine.inputs
    holding.release()
    turns.bring([(TimerFired(("t",)), None)], None)
    assert turns.is_behind
    assert not settled
    await until(lambda: not turns.is_behind)
    *pieces, timer = machine.inputs
    assert timer == TimerFired(("t",))
    numbers = [each.sequence for piece in pieces for each in published(piece)]
    assert numbers == [*range(20), *range(20)]
    assert settled == ["B2", "B3"]
    assert max(spent) <= 2 * TURN_US


@on_loop
async def test_a_long_text_is_searched_in_slices_before_its_handling() -> None:
    """Searches of long texts take several slices; later input waits."""
    node, machine = heavy()
    left, looked, taken = [3], [0], [0]

    def prepare(attributes: Attributes, work_us: float) -> bool:
        looked[0] += 1
        left[0] -= 1
        return left[0] == 0

    def takes_it(attributes: Attributes, work_us: float) -> bool:
        taken[0] += 1
        return True

    machine.strategy = Heavy()
    machine.strategy.prepare = prepare  # type: ignore[method-assign]
    node.cost_estimator.takers.append(ConsumerLimits(lambda: 0, lambda attributes: 0, takes_it))
    long = msgspec.structs.replace(
        publication(1, 0), attributes={"work": 0, "text": "x" * 16_384}, body=b"x" * 16_384
    )
    settled: list[str] = []
    node.request("P", Publish((long,)), ack_tracker=AckTracker(lambda: settled.append("long")))
    node.request("P", Publish((publication(2, 0),)))
    assert (machine.inputs, looked, settled) == ([], [1], [])
    await until(lambda: not node.is_behind)
    assert [each.sequence for input in machine.inputs for each in published(input)] == [1, 2]
    assert (looked, taken, settled) == ([3], [1], ["long"])


@on_loop
async def test_an_endless_search_does_not_block_others() -> None:
    node, machine = heavy()
    machine.strategy = Heavy()
    machine.strategy.prepare = lambda attributes, work_us: False  # type: ignore[method-assign]
    long = msgspec.structs.replace(publication(1, 0), attributes={"work": 0, "text": "x" * 16_384})
    node.request("P", Publish((msgspec.structs.replace(long, body=b"x" * 16_384),)))
    await until(lambda: not node.is_behind)
    assert len(machine.inputs) == 1


@pytest.mark.parametrize(("is_assured", "most"), [(False, 130), (True, 33)])
def test_assured_publications_cost_more_with_many_sessions(is_assured: bool, most: int) -> None:
    """300 subscribers at QoS 1 take longer than at QoS 0: a batch of 250 takes 225 ms."""
    node, _ = heavy()
    cost_estimator = CostEstimator(Light(), node.clock)  # type: ignore[arg-type]
    cost_estimator.takers.append(ConsumerLimits(lambda: 300, lambda _: 0, lambda *_: True))
    published = tuple(
        msgspec.structs.replace(publication(number, 0), assured=is_assured) for number in range(250)
    )
    piece, _ = cost_estimator.cut(Requested("c", Publish(published)))
    assert isinstance(piece, Requested)
    assert isinstance(piece.request, Publish)
    assert len(piece.request.publications) <= most


def test_delivered_publications_cost_more_than_undelivered_ones() -> None:
    """4,000 retained messages for other brokers take 40 ms to handle, and 170 to deliver."""
    node, _ = heavy()
    cost_estimator = CostEstimator(Light(), node.clock)  # type: ignore[arg-type]
    published = Requested("c", Publish(tuple(publication(number, 0) for number in range(5_000))))
    for taken in (False, True):
        if taken:
            cost_estimator.takers.append(ConsumerLimits(lambda: 0, lambda _: 0, lambda *_: True))
        piece, _ = cost_estimator.cut(published)
        assert isinstance(piece, Requested)
        assert isinstance(piece.request, Publish)
        assert len(piece.request.publications) == (1_333 if taken else 4_000)


def test_controls_between_brokers_cost_more_than_messages() -> None:
    """1,333 questions with an answer each would take 0.2 s in one piece."""
    node, _ = heavy()
    cost_estimator = CostEstimator(Light(), node.clock)  # type: ignore[arg-type]
    cost_estimator.takers.append(ConsumerLimits(lambda: 0, lambda _: 0, lambda *_: True, "work"))
    published = tuple(publication(number, 0) for number in range(1_000))
    piece, _ = cost_estimator.cut(Requested("c", Publish(published)))
    assert isinstance(piece, Requested)
    assert isinstance(piece.request, Publish)
    assert len(piece.request.publications) == 93
    plain = tuple(msgspec.structs.replace(each, attributes={}) for each in published)
    assert len(cost_estimator.cut(Requested("c", Publish(plain)))) == 1


class Few(BaseStrategy):
    @property
    def searched(self) -> Sized:
        return ()


class Light:
    strategy = Few()
