"""GRAPE between brokers as transcripts: trace, ask, choose, move (relocation paper, section 4)."""

from __future__ import annotations

import pytest

from shoal.broker.effects import LinkChanged, LinkState, MeasuredDelays
from shoal.broker.messages import Advertise, PublicationBatch, Subscribe, Unadvertise
from shoal.clients.messages import MigrationAdvertisement, Paused, PingRequest, PingTimes, Relocate
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.messages import (
    PlaceAnswer,
    PlaceRequest,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from tests.broker.transcript import Stage, advertisement, publish, subscription

#  B1 - B2 - B3      P publishes at B1, C subscribes at B3
#        \
#         B4         (no clients)
WEB = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
PATH = ("B1", "B2", "B3")
SESSION = MessageId("B1", "P", 0)
TIMER = ("session", "P")
ANSWER_US, PING_US = 1_000, 500


def grape(
    priority: Priority = Priority.LOAD, weight: int = 100, *, at: str = "B3", length: int = 3
) -> Stage:
    """P at B1, a subscriber of everything, sessions of three publications."""
    parameters = GrapeParameters(
        trace_session_length=length,
        priority=priority,
        weight=weight,
        answer_timeout_us=ANSWER_US,
        ping_timeout_us=PING_US,
    )
    stage = Stage(WEB, "grape", parameters)
    stage.ask("B1", "P", Advertise(advertisement("a")))
    stage.ask(at, "C", Subscribe(subscription("s")))
    stage.settle()
    stage.take_transcript()
    return stage


def fill_session(stage: Stage, first: int = 0) -> None:
    stage.ask("B1", "P", publish(first), publish(first + 1, first + 2))
    stage.settle()


def sessions(stage: Stage) -> dict:
    return stage.brokers["B1"]._strategy.tracer._sessions  # type: ignore[attr-defined]


def test_load_first_from_the_first_publication_to_the_end_of_the_move() -> None:
    stage = grape()
    fill_session(stage)
    assert stage.take_transcript() == [
        "B1 -> B2: PublicationBatch P/0* hops 1",
        "B1 -> B2: PublicationBatch P/1* P/2* hops 1",
        "B1 -> B2: TraceInformationRequest B1-P-M0",
        "B2 -> B3: PublicationBatch P/0* hops 2",
        "B2 -> B3: PublicationBatch P/1* P/2* hops 2",
        "B2 -> B3: TraceInformationRequest B1-P-M0",
        "B3 : delivered P/0 to C (s)",
        "B3 : delivered P/1 to C (s)",
        "B3 : delivered P/2 to C (s)",
        "B3 -> B2: TraceInformationAnswer B1-P-M0 (B3)",
        "B2 -> B1: TraceInformationAnswer B1-P-M0 (B2 B3)",
        "B1 => P: Relocate B1 B2 B3",
    ]
    assert list(stage.timers) == [("B1", ("migration", "P"))]
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (advertisement("a"),), 1))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert [line for line in stage.take_transcript() if "ubscribe" not in line] == [
        "B3 -> B2: MigrationUpdate P retracted (s)",
        "B2 -> B1: MigrationUpdate P retracted (s)",
        "B1 -> B2: MigrationComplete P",
        "B2 -> B3: MigrationComplete P",
        "B3 => P: Resume",
    ]
    assert sessions(stage) == {}
    (selection,) = stage.records
    assert isinstance(selection, SelectionRecord)
    assert (selection.target, selection.candidates) == ("B3", 3)
    assert (selection.rate_now, selection.rate_target) == (9, 3)
    # At the target the next session is named after it, and has no one to ask: stay.
    stage.ask("B3", "P", publish(3), publish(4), publish(5))
    assert stage.take_transcript() == [
        f"B3 : delivered P/{number} to C (s)" for number in (3, 4, 5)
    ]
    assert stage.records[1].target == "B3"  # type: ignore[attr-defined]
    assert stage.timers == {}


def test_delay_first_asks_for_ping_times() -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    assert stage.notified == [("B1", "P", PingRequest(SESSION, ("B1", "B2", "B3")))]
    assert list(stage.timers) == [("B1", TIMER)]
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 100, "B2": 40_000, "B3": 80}))
    assert stage.notified[1:] == [("B1", "P", Relocate(PATH))]
    assert list(stage.timers) == [("B1", ("migration", "P"))]


def test_the_publishers_pings_are_round_trips() -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 100, "B2": 40_000, "B3": 80}))
    (selection,) = stage.records
    assert isinstance(selection, SelectionRecord)
    assert (selection.delay_now_us, selection.delay_target_us) == (50, 40)


def test_a_decision_to_stay_sends_no_move() -> None:
    stage = grape(at="B1")
    fill_session(stage)
    assert [line for line in stage.take_transcript() if "delivered" not in line] == []
    assert stage.records[0].target == "B1"  # type: ignore[attr-defined]
    assert (sessions(stage), stage.timers) == ({}, {})
    stage.ask("B1", "P", publish(3))
    assert sessions(stage)["P"].id == MessageId("B1", "P", 3)


def test_exactly_so_many_publications_are_traced() -> None:
    """A batch that goes beyond the end of a session is traced up to it."""
    stage = grape(length=5)
    stage.ask("B1", "P", publish(0, 1, 2), publish(3, 4, 5, 6), publish(7))
    assert stage.take_transcript() == [
        "B1 -> B2: PublicationBatch P/0* P/1* P/2* hops 1",
        "B1 -> B2: PublicationBatch P/3* P/4* P/5 P/6 hops 1",
        "B1 -> B2: TraceInformationRequest B1-P-M0",
        "B1 -> B2: PublicationBatch P/7 hops 1",
    ]
    stage.settle()
    (answer,) = [row for row in stage.sent(TraceInformationAnswer) if row[0] == "B2"]
    assert [row.bits for row in answer[2].traces] == [0, 0b11111]  # type: ignore[attr-defined]


def test_one_batch_may_be_several_sessions_long() -> None:
    stage = grape(length=2)
    stage.ask("B1", "P", publish(*range(9)))
    stage.settle()
    assert stage.take_transcript()[0].startswith("B1 -> B2: PublicationBatch P/0* P/1* P/2 P/3")


def test_refused_publications_do_not_count() -> None:
    stage = grape()
    stage.ask("B1", "P", publish(-1, 0, -2, 1, -3))
    assert sessions(stage)["P"].count == 2
    assert len(list(stage.sent(TraceInformationRequest))) == 0


def test_one_request_and_one_answer_on_every_link_of_the_session_only() -> None:
    stage = grape()
    stage.ask("B2", "D", Subscribe(subscription("d", client="D")))
    stage.settle()
    fill_session(stage)
    asked = [(source, target) for source, target, _ in stage.sent(TraceInformationRequest)]
    answered = [(source, target) for source, target, _ in stage.sent(TraceInformationAnswer)]
    assert asked == [("B1", "B2"), ("B2", "B3")]  # and not B4
    assert answered == [("B3", "B2"), ("B2", "B1")]


# --- sessions that fail -----------------------------------------------------------------------


def test_a_session_without_answers_is_given_up() -> None:
    stage = grape()
    stage.ask("B1", "P", publish(0, 1, 2))
    assert stage.timers == {("B1", TIMER): stage.now_us + ANSWER_US}
    stage.fire("B1", TIMER)
    assert (sessions(stage), stage.timers) == ({}, {})
    stage.settle()  # late answers
    assert not stage.refusals()
    assert stage.notified == []
    fill_session(stage, 3)
    assert stage.notified == [("B1", "P", Relocate(PATH))]


def test_a_session_without_ping_times_is_given_up() -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    assert stage.timers == {("B1", TIMER): stage.now_us + PING_US}
    stage.fire("B1", TIMER)
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 1, "B2": 1, "B3": 1}))
    assert stage.records == []
    assert sessions(stage) == {}


@pytest.mark.parametrize("when", ["tracing", "retrieving", "pinging"])
def test_a_publisher_that_leaves_takes_its_session_along(when: str) -> None:
    stage = grape(Priority.DELAY)
    stage.ask("B1", "P", publish(0))
    stage.settle()
    if when != "tracing":
        stage.ask("B1", "P", publish(1, 2))
    if when == "pinging":
        stage.settle()
    stage.ask("B1", "P", Unadvertise("a"))
    assert (sessions(stage), stage.timers) == ({}, {})
    stage.settle()
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 1}))
    assert (stage.records, stage.refusals()) == ([], [])
    for broker in stage.brokers.values():
        tracing = broker._strategy.tracer.traces  # type: ignore[attr-defined]
        assert not tracing._traces, broker.id
        assert not tracing._retrievals, broker.id


def test_a_changed_advertisement_begins_a_new_session() -> None:
    stage = grape()
    stage.ask("B1", "P", publish(0, 1), Advertise(advertisement("a", "x > 1")))
    stage.settle()
    assert sessions(stage) == {}
    fill_session(stage, 2)
    (answer,) = [row for row in stage.sent(TraceInformationAnswer) if row[0] == "B2"]
    assert [row.bits for row in answer[2].traces] == [0, 0b111]  # type: ignore[attr-defined]


def test_while_a_publisher_moves_nothing_is_traced() -> None:
    stage = grape()
    fill_session(stage)
    stage.take_transcript()
    stage.ask("B1", "P", publish(3, 4, 5))
    assert stage.take_transcript() == ["B1 -> B2: PublicationBatch P/3 P/4 P/5 hops 1"]


# --- refused or ignored messages --------------------------------------------------------------


def test_ping_times_of_another_client_are_ignored() -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    stage.ask("B1", "C", PingTimes(SESSION, {"B1": 1, "B2": 1, "B3": 1}))
    assert stage.refusals() == ["session B1-P-M0 is not one of C"]
    assert len(stage.timers) == 1  # still waiting for P's


@pytest.mark.parametrize("session", [MessageId("B1", "P", 1), MessageId("B2", "P", 0)])
def test_ping_times_of_another_session_are_ignored(session: MessageId) -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    stage.ask("B1", "P", PingTimes(session, {"B1": 1, "B2": 1, "B3": 1}))
    assert (stage.records, stage.refusals(), len(stage.timers)) == ([], [], 1)


@pytest.mark.parametrize("times", [{}, {"nobody": 5}, {"B1": 1, "B4": 1}])
def test_useless_ping_times_end_the_session(times: dict[str, int]) -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    stage.ask("B1", "P", PingTimes(SESSION, times))
    assert (stage.records, sessions(stage), stage.timers) == ([], {}, {})


def test_a_candidate_without_ping_time_is_left_out() -> None:
    stage = grape(Priority.DELAY)
    fill_session(stage)
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 90_000, "B2": 10}))
    assert stage.notified[1:] == [("B1", "P", Relocate(("B1", "B2")))]


def test_answers_that_form_no_tree_end_the_session() -> None:
    stage = grape()
    stage.ask("B1", "P", publish(0, 1, 2))
    stranger = BrokerTrace(
        broker="Z",
        neighbours=(),
        bits=1,
        deliveries=1,
        input_queue_us=0,
        matching_us=0,
        output_queue_us=(),
        client_output_us=0,
    )
    stage.tell("B2", "B1", TraceInformationAnswer(SESSION, (stranger, stranger)))
    assert (sessions(stage), stage.timers, stage.refusals()) == ({}, {}, [])


def test_unrequested_answers_are_refused() -> None:
    stage = grape()
    stage.ask("B1", "P", publish(0, 1, 2))
    stage.tell("B4", "B2", TraceInformationAnswer(SESSION, ()))  # B2 has not asked any broker yet
    stage.tell("nobody", "B1", TraceInformationAnswer(SESSION, ()))
    stage.tell("nobody", "B1", TraceInformationRequest(SESSION))
    assert stage.refusals() == ["nobody is not a neighbour of B1"] * 2


# --- the paper's figure 3, between brokers ----------------------------------------------------


def test_figure_3_sessions_start_where_the_counter_is() -> None:
    """Section 4.1: message IDs are the first broker and a counter; M = 212 in the example."""
    stage = grape(length=10)
    strategy = stage.brokers["B1"]._strategy  # type: ignore[attr-defined]
    strategy.tree.publishers._next_numbers["P"] = 212
    stage.ask("B3", "C", Subscribe(subscription("s", "x IN (0, 1, 4, 7)")))
    stage.settle()
    stage.ask("B1", "P", *map(publish, range(10)))
    stage.settle()
    batches = [message for _, _, message in stage.sent(PublicationBatch)]
    (session,) = {row.mark for batch in batches for row in batch.publications}  # type: ignore[attr-defined]
    assert session == MessageId("B1", "P", 212)
    (answer,) = [row for row in stage.sent(TraceInformationAnswer) if row[0] == "B3"]
    assert [row.bits for row in answer[2].traces] == [0b10010011]  # type: ignore[attr-defined]


def test_answers_carry_the_monitors_measurements() -> None:
    stage = grape()
    stage.measure("B3", MeasuredDelays(11, 22, {"B2": 33}, 44))
    fill_session(stage)
    (answer,) = [row for row in stage.sent(TraceInformationAnswer) if row[0] == "B3"]
    (trace,) = answer[2].traces  # type: ignore[attr-defined]
    assert (trace.broker, trace.neighbours, trace.deliveries) == ("B3", ("B2",), 3)
    figures = (trace.input_queue_us, trace.matching_us, trace.client_output_us)
    assert (*figures, trace.output_queue_us) == (11, 22, 44, (("B2", 33),))


def busy(share: float) -> MeasuredDelays:
    return MeasuredDelays(0, 1_000, {}, 0, busy=share, served_us=100_000)


def test_the_target_is_asked_for_room() -> None:
    stage = grape()
    stage.measure("B3", busy(0.3))
    fill_session(stage)
    said = [line for line in stage.take_transcript() if "Place" in line or "=>" in line]
    assert said == [
        "B1 -> B2: PlaceRequest B1-P-M0 to B3",
        "B2 -> B3: PlaceRequest B1-P-M0 to B3",
        "B3 -> B2: PlaceAnswer B1-P-M0: room at B3",
        "B2 -> B1: PlaceAnswer B1-P-M0: room at B3",
        "B1 => P: Relocate B1 B2 B3",
    ]
    assert list(stage.timers) == [("B1", ("migration", "P"))]


def test_a_busy_broker_is_no_candidate_but_in_the_papers_way() -> None:
    def target(most_busy_percent: int) -> str:
        parameters = GrapeParameters(trace_session_length=3, most_busy_percent=most_busy_percent)
        stage = Stage(WEB, "grape", parameters)
        stage.ask("B1", "P", Advertise(advertisement("a")))
        stage.ask("B3", "C", Subscribe(subscription("s")))
        stage.settle()
        stage.measure("B3", busy(0.9))
        fill_session(stage)
        return stage.records[0].target  # type: ignore[attr-defined]

    assert target(80) == "B2"
    assert target(100) == "B3"


def test_decisions_at_the_same_time_do_not_fill_a_broker_beyond_its_limit() -> None:
    """Four publishers find B3 best; each adds 5 % there, and 14 % are free."""
    stage = grape()
    stage.measure("B3", busy(0.66))
    names = ("P", "Q", "R", "S")
    for name in names[1:]:
        stage.ask("B1", name, Advertise(advertisement(f"a{name}", publisher=name)))
    stage.settle()
    # A quarter of the work, 0.1 s for each of 2 publications per second, is its first broker's.
    for number in range(3):
        for name in names:
            stage.ask("B1", name, publish(number, publisher=name))
        stage.now_us += 250_000
    stage.settle()
    moved = [message.path[-1] for _, _, message in stage.notified if isinstance(message, Relocate)]
    assert sorted(moved) == ["B2", "B2", "B3", "B3"]


def test_no_room_is_asked_for_over_a_link_that_has_ended() -> None:
    """It ended while the publisher measured ping times; the timeout ends the session."""
    stage = grape(Priority.DELAY)
    stage.measure("B3", busy(0.3))
    fill_session(stage)
    stage.handle("B1", LinkChanged("B2", LinkState.ENDED))
    stage.take_transcript()
    stage.ask("B1", "P", PingTimes(SESSION, {"B1": 100, "B2": 40_000, "B3": 80}))
    assert stage.take_transcript() == []
    assert list(stage.timers) == [("B1", TIMER)]


def test_a_session_ends_when_no_answer_about_room_comes() -> None:
    stage = grape()
    stage.measure("B3", busy(0.3))
    stage.ask("B1", "P", publish(0), publish(1, 2))
    while not any(isinstance(each, PlaceRequest) for each in stage.links["B1", "B2"]):
        stage.carry(*next(way for way, waiting in stage.links.items() if waiting))
    stage.links["B1", "B2"].clear()
    stage.settle()
    assert list(stage.timers) == [("B1", TIMER)]
    stage.fire("B1", TIMER)
    assert (sessions(stage), stage.timers, stage.records) == ({}, {}, [])
    stage.tell("B2", "B1", PlaceAnswer(SESSION, PATH, True))  # too late
    assert (stage.refusals(), stage.notified) == ([], [])


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        ("B1", PlaceRequest(SESSION, ("B3", "B2"), 1.0, 0.0)),
        ("B1", PlaceRequest(SESSION, ("B2", "B1"), 1.0, 0.0)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2", "B1"), 1.0, 0.0)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2"), float("nan"), 0.0)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2"), -1.0, 0.0)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2"), 1e300, 0.0)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2"), 1.0, -1e308)),
        ("B1", PlaceRequest(SESSION, ("B1", "B2"), 1.0, 1.1)),
        ("B3", PlaceAnswer(SESSION, ("B1", "B3"), True)),
        ("B3", PlaceAnswer(SESSION, ("B1", "B2"), True)),
    ],
)
def test_questions_about_room_that_cannot_be_are_refused(sender: str, message: object) -> None:
    stage = grape()
    stage.tell(sender, "B2", message)  # type: ignore[arg-type]
    assert len(stage.refusals()) == 1


@pytest.mark.parametrize("most_busy_percent", [80, 100])
def test_a_load_that_cannot_be_spoils_no_answer(most_busy_percent: int) -> None:
    stage = Stage(WEB, "grape", GrapeParameters(most_busy_percent=most_busy_percent))
    for passing in (0.0, -1e308):
        stage.tell("B1", "B2", PlaceRequest(SESSION, ("B1", "B2"), 1e308, passing))
        stage.measure("B2", busy(0.3))
    stage.tell("B1", "B2", TraceInformationRequest(SESSION))
    stage.settle()
    assert len(stage.refusals()) == 2


def test_sessions_complete_again_after_a_link_was_down() -> None:
    stage = grape()
    stage.break_link("B2", "B3")
    stage.settle()
    stage.mend_link("B2", "B3")
    stage.settle()
    fill_session(stage)
    assert stage.notified == [("B1", "P", Relocate(PATH))]


def test_a_broker_that_starts_without_neighbours_takes_part_when_it_has_some() -> None:
    stage = grape()
    alone = Stage((("B2", "unlinked"),), "grape").factory
    machine = type(stage.brokers["B2"])("B2", (), alone)
    for neighbour in ("B1", "B3", "B4"):
        stage.break_link("B2", neighbour)
    stage.brokers["B2"] = machine
    for neighbour in ("B1", "B3", "B4"):
        stage.mend_link("B2", neighbour)
    stage.settle()
    fill_session(stage)
    assert stage.notified == [("B1", "P", Relocate(PATH))]
