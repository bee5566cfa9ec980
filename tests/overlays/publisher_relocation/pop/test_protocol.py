"""POP's messages: tracing, asking, moving, and faults on the way."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Effect, MeasuredDelays
from shoal.broker.messages import (
    Advertise,
    PublicationBatch,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BrokerContext
from shoal.clients.messages import MigrationAdvertisement, Paused, Relocate
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.pop.messages import (
    RelocationAnswer,
    RelocationRequest,
    TraceResult,
)
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.pop.protocol import Pop
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.publisher_relocation.relocation import Relocation
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription

#   B1 - B2 - B3       P at B1, two subscribers at B3, one at B4.
#        |
#        B4
WEB = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
PATH = ("B1", "B2", "B3")
TIMEOUT_US = 1_000
SUBSCRIBERS = {"C": "B3", "D": "B3", "E": "B4"}


def stage_of(**parameters: int) -> Stage:
    given = {"threshold": 2, "answer_timeout_us": TIMEOUT_US, **parameters}
    stage = Stage(WEB, "pop", PopParameters(**given))
    stage.ask("B1", "P", Advertise(advertisement("a")))
    for client, broker in SUBSCRIBERS.items():
        stage.ask(broker, client, Subscribe(subscription(f"s{client}", client=client)))
    stage.settle()
    stage.take_transcript()
    return stage


def tracer(stage: Stage, broker: str) -> Pop:
    strategy = stage.brokers[broker]._strategy
    assert isinstance(strategy, Relocation)
    assert isinstance(strategy.tracer, Pop)
    return strategy.tracer


def selections(stage: Stage) -> list[SelectionRecord]:
    return [record for record in stage.records if isinstance(record, SelectionRecord)]


def run_out(stage: Stage) -> None:
    """The traces' timers fire, and none is set again."""
    for broker, key in list(stage.timers):
        assert key == ("trace", "P")
        stage.fire(broker, key)
    assert stage.timers == {}
    assert all(tracer(stage, name).traces.outstanding("P") == 0 for name in stage.brokers)


def test_from_the_first_publication_to_the_end_of_the_move() -> None:
    stage = stage_of(window_publications=65_536)
    stage.ask("B1", "P", publish(0), publish(1))
    stage.settle()
    assert [line for line in stage.take_transcript() if "delivered" not in line] == [
        "B1 -> B2: PublicationBatch P/0* hops 1",
        "B1 -> B2: PublicationBatch P/1* hops 1",
        "B2 -> B3: PublicationBatch P/0* hops 2",
        "B2 -> B4: PublicationBatch P/0* hops 2",
        "B2 -> B3: PublicationBatch P/1* hops 2",
        "B2 -> B4: PublicationBatch P/1* hops 2",
        "B3 -> B2: TraceResult B1-P-M0: 2",
        "B3 -> B2: TraceResult B1-P-M1: 2",
        "B4 -> B2: TraceResult B1-P-M0: 1",
        "B4 -> B2: TraceResult B1-P-M1: 1",
        "B2 -> B1: TraceResult B1-P-M0: 3",
        "B2 -> B1: TraceResult B1-P-M1: 3",
        "B1 -> B2: RelocationRequest P: 0 behind (B1)",
        "B2 -> B3: RelocationRequest P: 1 behind (B2 B1)",
        "B3 -> B2: RelocationAnswer P (B3 B2 B1)",
        "B2 -> B1: RelocationAnswer P (B3 B2 B1)",
        "B1 => P: Relocate B1 B2 B3",
    ]
    assert [key for key in stage.timers if key[1][0] != "trace"] == [("B1", ("migration", "P"))]
    (selection,) = selections(stage)
    assert (selection.broker, selection.target, selection.candidates) == ("B1", "B3", 3)
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (advertisement("a"),), 1))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert stage.take_transcript()[-1] == "B3 => P: Resume"
    # The values that pointed towards B3 are dropped, so that new averages are of the new place.
    assert [tracer(stage, name).held_bytes for name in PATH] == [0, 0, 0]
    stage.ask("B3", "P", publish(2), publish(3))
    stage.settle()
    assert selections(stage)[1].target == "B3"  # two of three are here: stay
    run_out(stage)
    assert selections(stage)[2:] == []


def test_nothing_is_traced_while_a_request_is_under_way() -> None:
    stage = stage_of(window_publications=65_536)
    stage.ask("B1", "P", publish(0), publish(1), publish(2))  # the third: enough are outstanding
    stage.settle()
    assert "B1 -> B2: PublicationBatch P/2 hops 1" in stage.take_transcript()


def test_a_window_bounds_traces_and_its_first_publication_is_traced() -> None:
    stage = stage_of(
        threshold=1_000, window_publications=5, trace_window_us=10_000, most_busy_percent=100
    )

    def traced(first: int) -> list[bool]:
        stage.ask("B1", "P", *(publish(number) for number in range(first, first + 200)))
        sent = [message for _, _, message in stage.sent(PublicationBatch)]
        return [message.publications[0].mark is not None for message in sent][first:]

    one = traced(0)
    stage.now_us = 20_000
    other = traced(200)
    for window in (one, other):
        assert window[0]
        assert sum(window) == 5
        assert not all(window[:5])  # the probability falls with every one


def test_a_broker_without_deliveries_answers() -> None:
    stage = stage_of()
    stage.links["B2", "B4"].clear()
    stage.ask("B4", "E", Unsubscribe("sE"))
    stage.ask("B1", "P", publish(0))
    stage.settle()
    said = stage.take_transcript()
    assert "B4 -> B2: TraceResult B1-P-M0: 0" in said
    assert "B2 -> B1: TraceResult B1-P-M0: 2" in said


def test_an_answer_that_never_comes_ends_the_trace_and_blocks_nothing() -> None:
    stage = stage_of(window_publications=65_536)
    stage.ask("B1", "P", publish(0))
    stage.carry("B1", "B2")
    stage.links["B2", "B3"].clear()  # B3 died with it
    stage.settle()
    assert stage.timers.keys() == {("B1", ("trace", "P")), ("B2", ("trace", "P"))}
    stage.fire("B1", ("trace", "P"))
    stage.fire("B2", ("trace", "P"))
    assert stage.timers == {}
    stage.tell("B3", "B2", TraceResult(MessageId("B1", "P", 0), 2))  # too late
    assert stage.refusals() == []
    stage.ask("B1", "P", publish(1), publish(2))
    stage.settle()
    assert [selection.target for selection in selections(stage)] == ["B3"]


def busy(share: float, served_us: int = 1_000) -> MeasuredDelays:
    return MeasuredDelays(0, served_us, {}, 0, busy=share, served_us=served_us)


def test_few_publications_are_traced_while_a_broker_is_busy() -> None:
    def traced(**parameters: int) -> int:
        stage = stage_of(threshold=1_000, window_publications=50, **parameters)
        stage.measure("B3", busy(0.96))
        for number in range(60):
            stage.ask("B1", "P", publish(number))
            stage.settle()
        sent = stage.sent(PublicationBatch)
        batches = [message for source, _, message in sent if source == "B1"]
        return sum(each.publications[0].mark is not None for each in batches)

    assert traced(most_busy_percent=100) > 20
    assert traced() <= 2  # one before the first result
    # Also if the limit is below what it is busy for: a tenth is left of the usual traces.
    assert 2 <= traced(most_busy_percent=90) <= 20


def test_a_busy_network_decides_with_few_results() -> None:
    stage = stage_of(threshold=100, window_publications=50, trace_window_us=1)
    stage.measure("B4", busy(0.99))
    number = 0
    while not selections(stage):
        stage.ask("B1", "P", publish(number))
        stage.settle()
        number += 1
    assert number <= 10
    assert selections(stage)[0].target == "B3"


def test_expired_traces_count_once_the_averages_are_whole() -> None:
    stage = stage_of(threshold=20, window_publications=65_536)
    for number in range(7):
        stage.ask("B1", "P", publish(number))
        stage.settle()
    for number in range(7, 20):
        assert selections(stage) == []
        stage.ask("B1", "P", publish(number))
        stage.links["B1", "B2"].clear()
        if ("B1", ("trace", "P")) in stage.timers and number % 4 == 2:
            stage.fire("B1", ("trace", "P"))
    while ("B1", ("trace", "P")) in stage.timers:
        stage.fire("B1", ("trace", "P"))
    stage.settle()
    (selection,) = selections(stage)
    assert selection.target == "B3"
    assert selection.expired


def test_a_target_without_room_gives_the_answer_to_its_predecessor() -> None:
    stage = stage_of(window_publications=65_536)
    stage.measure("B3", busy(0.9))
    stage.ask("B1", "P", publish(0), publish(1))
    stage.settle()
    assert [line for line in stage.take_transcript() if "Relocation" in line] == [
        "B1 -> B2: RelocationRequest P: 0 behind (B1)",
        "B2 -> B3: RelocationRequest P: 1 behind (B2 B1)",
        "B3 -> B2: RelocationAnswer P (B2 B1)",
        "B2 -> B1: RelocationAnswer P (B2 B1)",
    ]
    assert stage.notified == [("B1", "P", Relocate(("B1", "B2")))]


def test_a_publisher_stays_if_no_broker_has_room() -> None:
    stage = stage_of(window_publications=65_536)
    for name in ("B2", "B3"):
        stage.measure(name, busy(0.9))
    stage.ask("B1", "P", publish(0))
    stage.ask("B1", "P", publish(1))
    stage.settle()
    assert [selection.target for selection in selections(stage)] == ["B1"]
    assert stage.notified == []
    stage = stage_of(window_publications=65_536, most_busy_percent=100)
    stage.measure("B3", busy(1.0))
    stage.ask("B1", "P", publish(0), publish(1))
    stage.settle()
    assert [selection.target for selection in selections(stage)] == ["B3"]


def test_older_traces_end_before_younger_ones() -> None:
    stage = stage_of(threshold=9, window_publications=65_536)
    stage.ask("B1", "P", publish(0))
    stage.now_us += TIMEOUT_US // 2
    stage.ask("B1", "P", publish(1))
    stage.fire("B1", ("trace", "P"))
    assert tracer(stage, "B1").traces.outstanding("P") == 1
    assert stage.timers["B1", ("trace", "P")] > stage.now_us


@pytest.mark.parametrize("neighbour", ["B1", "B3"])
def test_a_link_that_breaks_ends_the_traces_over_it(neighbour: str) -> None:
    stage = stage_of()
    stage.ask("B1", "P", publish(0))
    stage.carry("B1", "B2")
    stage.break_link("B2", neighbour)
    assert tracer(stage, "B2").traces.outstanding("P") == 0
    stage.fire("B2", ("trace", "P"))
    assert not [key for key in stage.timers if key[0] == "B2"]


def test_a_request_without_an_answer_is_given_up() -> None:
    stage = stage_of(window_publications=65_536)
    stage.ask("B1", "P", publish(0), publish(1))
    while not stage.links["B2", "B1"] or len(stage.links["B1", "B2"]):
        stage.carry(*next(way for way, waiting in stage.links.items() if waiting))
    stage.settle()
    # The answer is already there; one after the time-out changes nothing.
    slow = stage_of(window_publications=65_536)
    slow.ask("B1", "P", publish(0), publish(1))
    for way in (("B1", "B2"), ("B2", "B3"), ("B2", "B4"), ("B3", "B2"), ("B4", "B2")):
        while slow.links[way]:
            slow.carry(*way)
    while not slow.links["B1", "B2"]:
        slow.carry("B2", "B1")
    slow.fire("B1", ("request", "P"))
    slow.settle()
    assert selections(slow) == []
    assert slow.refusals() == []
    slow.ask("B1", "P", publish(2), publish(3))
    slow.settle()
    assert [selection.target for selection in selections(slow)] == ["B3"]


def test_a_publisher_that_leaves_is_forgotten_everywhere() -> None:
    stage = stage_of(threshold=9)
    stage.ask("B1", "P", publish(0))
    stage.settle()
    assert all(tracer(stage, name).held_bytes for name in stage.brokers)
    stage.ask("B1", "P", publish(1), Unadvertise("a"))
    stage.settle()
    assert not any(tracer(stage, name).held_bytes for name in stage.brokers)
    assert stage.timers == {}


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        ("B2", TraceResult(MessageId("B1", "P", 0), -1)),
        ("B2", TraceResult(MessageId("B1", "P", 0), 1, -1)),
        ("B2", TraceResult(MessageId("B1", "P", 0), 1, 101)),
        ("B2", RelocationRequest("P", 3.0, ("B2",), -1.0, 1)),
        ("B2", RelocationRequest("P", 3.0, ("B2",), 1e300, 1)),
        ("B2", RelocationRequest("P", 3.0, ("B3", "B2"))),
        ("B2", RelocationRequest("P", 3.0, ("B2", "B1"))),
        ("B2", RelocationRequest("P", -1.0, ("B2",))),
        ("B2", RelocationRequest("P", float("inf"), ("B2",))),
        ("B2", RelocationAnswer("P", ("B3", "B1"))),
        ("B2", RelocationAnswer("P", ("B1", "B2"))),
        ("B2", RelocationAnswer("P", ("B1",), float("nan"))),
        ("B2", RelocationRequest("P", 3.0, ("B2",), float("inf"), 1)),
        ("B2", RelocationAnswer("P", ())),
    ],
)
def test_invalid_messages_are_refused(sender: str, message: object) -> None:
    stage = stage_of()
    stage.ask("B1", "P", publish(0))
    stage.tell(sender, "B1", message)  # type: ignore[arg-type]
    assert len(stage.refusals()) == 1


def test_a_result_of_a_neighbour_without_the_publication_is_refused() -> None:
    stage = stage_of()
    stage.ask("B1", "P", publish(0))
    stage.carry("B1", "B2")
    stage.tell("B1", "B2", TraceResult(MessageId("B1", "P", 0), 1))
    assert len(stage.refusals()) == 1


def test_a_broker_without_a_profile_is_the_closest() -> None:
    stage = stage_of()
    stage.tell("B1", "B2", RelocationRequest("Q", 7.0, ("B1",)))
    assert stage.take_transcript() == ["B2 -> B1: RelocationAnswer Q (B2 B1)"]
    stage.tell("B1", "B2", RelocationAnswer("Q", ("B1", "B2")))  # no broker asked for that
    assert stage.take_transcript() == []


def test_the_same_randomness_traces_the_same_publications() -> None:
    def never(publisher: str, path: tuple[str, ...], now_us: int, out: list[Effect]) -> None:
        raise AssertionError("nobody has answered")

    def marks() -> list[bool]:
        parameters = PopParameters(most_busy_percent=100)
        pop = Pop(BrokerContext("B1", (), Random(7)), parameters, never)
        rows = tuple(
            RoutedPublication(publication(number), MessageId("B1", "P", number))
            for number in range(100)
        )
        return [routed.mark is not None for routed in pop.mark("P", rows, 0)]

    assert marks() == marks()
    assert 20 < sum(marks()) < 50
