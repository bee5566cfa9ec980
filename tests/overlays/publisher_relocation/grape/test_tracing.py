"""Notes of a trace session at a broker, and its answers (relocation paper, 4.1)."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Effect, MeasuredDelays, Send
from shoal.broker.messages import RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.grape.messages import (
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.grape.parameters import MAX_TRACE_SESSION_LENGTH
from shoal.overlays.publisher_relocation.grape.tracing import GrapeTracing
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.tree.routes import Route
from tests.broker.transcript import publication

M212 = MessageId("B1", "P", 212)
NEWER = MessageId("B1", "P", 312)


# A publication, and its route.
Went = tuple[RoutedPublication, Route]


def routed(number: int, session: MessageId | None = M212) -> RoutedPublication:
    return RoutedPublication(publication(number), MessageId("B1", "P", number), session)


def deliver(number: int, client: str = "C", session: MessageId | None = M212) -> list[Went]:
    return [(routed(number, session), Route((), ((client, ("s",)),)))]


def forward(neighbour: str, *numbers: int, session: MessageId | None = M212) -> list[Went]:
    return [(routed(number, session), Route((neighbour,), ())) for number in numbers]


def note(tracing: GrapeTracing, *noted: list[Went], upstream: str | None = None) -> None:
    for each in noted:
        for one, route in each:
            tracing.note(one, route, upstream, 0, [])


def tracing_at_b5() -> GrapeTracing:
    return GrapeTracing("B5", ("B6", "B1", "B7"))


def answer(broker: str, session: MessageId = M212) -> TraceInformationAnswer:
    return TraceInformationAnswer(session, (trace(broker),))


def trace(broker: str) -> BrokerTrace:
    return BrokerTrace(
        broker=broker,
        neighbours=("B5",),
        bits=1,
        deliveries=1,
        input_queue_us=0,
        matching_us=0,
        output_queue_us=(("B5", 0),),
        client_output_us=0,
    )


def test_figure_3_bits_start_at_the_session() -> None:
    """M = 212: publication M+d sets bit d, whatever the order; two subscribers, one bit."""
    tracing = tracing_at_b5()
    note(tracing, deliver(213), deliver(213, "D"), deliver(216), deliver(212))
    note(tracing, deliver(219), deliver(215, session=None), deliver(12_000, session=None))
    out: list[Effect] = []
    traces = tracing.retrieve(M212, None, out)
    assert traces is not None
    assert (traces[0].bits, traces[0].deliveries) == (0b10010011, 5)
    assert out == []


def test_all_seven_fields_of_the_payload() -> None:
    tracing = tracing_at_b5()
    tracing.measured(MeasuredDelays(30, 20, {"B1": 100, "B6": 200}, 7))
    tracing.measured(MeasuredDelays(None, None, {"B6": 250}, None))  # nothing new to average
    tracing.measured(MeasuredDelays(31, None, {}, None))
    note(tracing, deliver(212), deliver(214))
    traces = tracing.retrieve(M212, None, [])
    assert traces == (
        BrokerTrace(
            broker="B5",
            neighbours=("B1", "B6", "B7"),
            bits=0b101,
            deliveries=2,
            input_queue_us=31,
            matching_us=20,
            output_queue_us=(("B1", 100), ("B6", 250), ("B7", 0)),
            client_output_us=7,
        ),
    )


def test_only_neighbours_that_received_the_session_are_asked() -> None:
    tracing = tracing_at_b5()
    note(tracing, forward("B7", 212, 213), forward("B6", 213, session=None))
    out: list[Effect] = []
    assert tracing.retrieve(M212, "B1", out) is None
    assert out == [Send("B7", TraceInformationRequest(M212))]


def test_the_upstream_neighbour_is_not_asked() -> None:
    tracing = tracing_at_b5()
    note(tracing, forward("B1", 212), forward("B6", 212), upstream="B1")
    assert tracing.retrieve(M212, None, []) is None
    tracing = tracing_at_b5()
    note(tracing, forward("B1", 212), upstream="B1")
    assert tracing.retrieve(M212, None, []) is not None


def test_a_former_upstream_neighbour_is_asked_once_upstream_changed() -> None:
    """B6 and B7 swap places as upstream within a session: each received from the other."""
    tracing, out = tracing_at_b5(), list[Effect]()
    note(tracing, forward("B7", 212), upstream="B6")
    note(tracing, [(routed(213), Route(("B6", "B7"), (("C", ("s",)),)))], upstream="B7")
    note(tracing, deliver(214), upstream="B7")
    tracing.retrieve(M212, "B1", out)
    assert [effect.neighbour for effect in out] == ["B6", "B7"]  # type: ignore[union-attr]
    assert (tracing._traces["P"].bits, tracing._traces["P"].deliveries) == (0b110, 2)


def test_answers_are_joined_into_one_message_upstream() -> None:
    tracing = tracing_at_b5()
    note(tracing, forward("B7", 212), forward("B6", 212))
    out: list[Effect] = []
    tracing.retrieve(M212, "B1", out)
    assert [effect.neighbour for effect in out] == ["B6", "B7"]  # type: ignore[union-attr]
    out.clear()
    assert tracing.on_answer("B7", answer("B7"), out) is None
    assert out == []
    assert tracing.on_answer("B6", answer("B6"), out) is None
    (sent,) = out
    assert isinstance(sent, Send)
    assert sent.neighbour == "B1"
    assert isinstance(sent.message, TraceInformationAnswer)
    assert [row.broker for row in sent.message.traces] == ["B5", "B7", "B6"]
    assert holds_nothing(tracing)


def test_a_lost_asker_is_not_answered() -> None:
    tracing, out = tracing_at_b5(), list[Effect]()
    note(tracing, forward("B6", 212))
    assert tracing.retrieve(M212, "B1", out) is None
    assert out == [Send("B6", TraceInformationRequest(M212))]
    tracing.link("B1", up=False)
    assert tracing.on_answer("B6", answer("B6"), out) is None
    assert len(out) == 1


def test_a_broker_that_saw_nothing_of_the_session_answers_so() -> None:
    out: list[Effect] = []
    tracing = tracing_at_b5()
    tracing.retrieve(M212, "B1", out)
    (sent,) = out
    assert isinstance(sent, Send)
    assert isinstance(sent.message, TraceInformationAnswer)
    assert (sent.message.traces[0].bits, sent.message.traces[0].deliveries) == (0, 0)
    assert holds_nothing(tracing)


def test_a_newer_session_takes_the_place_of_an_older_one() -> None:
    tracing = tracing_at_b5()
    note(tracing, deliver(212), forward("B6", 212))
    tracing.retrieve(M212, "B1", [])
    note(tracing, deliver(312, session=NEWER))
    out: list[Effect] = []
    assert tracing.on_answer("B6", answer("B6"), out) is None  # too late: no broker waits for it
    assert out == []
    traces = tracing.retrieve(NEWER, None, out)
    assert traces is not None
    assert (traces[0].bits, traces[0].deliveries) == (1, 1)


def test_unrequested_answers_are_refused_or_ignored() -> None:
    tracing = tracing_at_b5()
    note(tracing, forward("B6", 212), forward("B7", 212))
    tracing.retrieve(M212, "B1", [])
    out: list[Effect] = []
    assert tracing.on_answer("B6", answer("B6", NEWER), out) is None
    with pytest.raises(ProtocolError, match="B1 was not asked"):
        tracing.on_answer("B1", answer("B1"), out)
    tracing.on_answer("B6", answer("B6"), out)
    with pytest.raises(ProtocolError, match="B6 was not asked"):
        tracing.on_answer("B6", answer("B6"), out)
    assert out == []


@pytest.mark.parametrize("number", [0, 211, 212 + MAX_TRACE_SESSION_LENGTH, 10**18, -5])
def test_numbers_outside_a_session_take_no_memory(number: int) -> None:
    tracing = tracing_at_b5()
    note(tracing, deliver(number))
    traces = tracing.retrieve(M212, None, [])
    assert traces is not None
    assert traces[0].bits == 0


def test_one_session_is_kept_for_each_publisher() -> None:
    tracing = tracing_at_b5()
    for start in range(0, 10_000, 100):
        session = MessageId("B1", "P", start)
        note(tracing, deliver(start, session=session), forward("B6", start, session=session))
        tracing.retrieve(session, "B1", [])
    assert len(tracing._traces) == len(tracing._retrievals) == 1
    tracing.forget("P")
    assert holds_nothing(tracing)


def test_a_changed_link_changes_the_neighbours_that_are_reported() -> None:
    tracing = tracing_at_b5()
    tracing.measured(MeasuredDelays(1, 1, {"B6": 5, "B7": 6}, 1))
    tracing.link("B6", False)
    tracing.link("B8", True)
    note(tracing, deliver(212))
    traces = tracing.retrieve(M212, None, [])
    assert traces is not None
    assert traces[0].neighbours == ("B1", "B7", "B8")
    assert traces[0].output_queue_us == (("B1", 0), ("B7", 6), ("B8", 0))


def holds_nothing(tracing: GrapeTracing) -> bool:
    return not tracing._traces and not tracing._retrievals
