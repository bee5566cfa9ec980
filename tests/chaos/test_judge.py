"""Violations that the judge reports, and histories in which it must report none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.chaos.history import (
    Asked,
    Died,
    Disk,
    Done,
    Entered,
    Event,
    GivenUp,
    Got,
    Granted,
    Killed,
    Left,
    Logged,
    Measured,
    Paused,
    Ready,
    Refused,
    Resumed,
    Sent,
    Silent,
    Started,
    Taken,
    read_history,
    write_history,
)
from tests.chaos.judge import Violation, judge
from tests.chaos.schedule import Plan, PublisherPlan, SubscriberPlan

PLAN = Plan(
    system="tree",
    seed=0,
    seconds=10.0,
    acknowledge="settled",
    brokers=("B1", "B2"),
    links=(("B1", "B2"),),
    publishers=(
        PublisherPlan("P1", "B1", 1, 10.0, 1.0),
        PublisherPlan("P2", "B1", 2, 10.0, 1.0),
        PublisherPlan("P3", "B1", 2, 10.0, 1.0, advertises=True),
    ),
    subscribers=(
        SubscriberPlan("S1", "B2", 2),
        SubscriberPlan("S2", "B2", 1, least=50),
        SubscriberPlan("G1", "B1", 2, group="g"),
        SubscriberPlan("G2", "B2", 2, group="g"),
        SubscriberPlan("F1", "B1", 1, lasts=False),
    ),
    actions=(),
)
QOS = {each.name: each.qos for each in PLAN.publishers}


def sent(at_s: float, client: str, number: int, x: int = 10, *, again: bool = False) -> Sent:
    qos = QOS[client]
    return Sent(at_s=at_s, client=client, number=number, qos=qos, x=x, broker="B1", again=again)


def published(at_s: float, client: str, number: int, x: int = 10) -> list[Event]:
    """Events of a publication that is acknowledged a tenth of a second later."""
    return [
        sent(at_s, client, number, x),
        Taken(at_s=at_s + 0.1, client=client, number=number),
        Done(at_s=at_s + 0.1, client=client, number=number),
    ]


def got(at_s: float, client: str, publisher: str, number: int, x: int = 10) -> Got:
    return Got(at_s=at_s, client=client, publisher=publisher, number=number, x=x, broker="B2")


def entered(at_s: float, client: str, broker: str = "B2", *, present: bool = False) -> list[Event]:
    return [
        Asked(at_s=at_s - 0.01, client=client, broker=broker),
        Entered(at_s=at_s, client=client, broker=broker, present=present),
    ]


# All clients are connected and subscribed.
BEGINNING = [
    event
    for name, broker in (("S1", "B2"), ("S2", "B2"), ("G1", "B1"), ("G2", "B2"), ("F1", "B1"))
    for event in (*entered(-0.5, name, broker), Granted(at_s=-0.4, client=name))
]


def kinds(events: list[Event], plan: Plan = PLAN) -> list[tuple[str, str]]:
    """The kind and the subject of each violation."""
    history = sorted([*BEGINNING, *events], key=lambda event: event.at_s)
    return [(each.kind, each.who) for each in judge(plan, history)]


def to_all(at_s: float, publisher: str, number: int, x: int = 10) -> list[Event]:
    """Events of a publication that reaches every subscriber."""
    wanting = [("S1", 0), ("S2", 50), ("G1", 0), ("F1", 0)]
    return [
        *published(at_s, publisher, number, x),
        *(got(at_s + 0.05, name, publisher, number, x) for name, least in wanting if x >= least),
    ]


WELL = [event for n in range(1, 6) for event in to_all(n, "P1", n, 40 + 5 * n)]


def test_a_good_run_has_no_violations() -> None:
    assert kinds([]) == []
    assert kinds(WELL) == []


def test_an_acknowledged_publication_that_is_not_delivered_is_lost() -> None:
    without = [event for event in WELL if not (isinstance(event, Got) and event.client == "S1")]
    assert kinds(without) == [("lost", "S1")]
    (violation,) = judge(PLAN, sorted([*BEGINNING, *without], key=lambda event: event.at_s))
    assert violation.what == "never got P1's 1-5 (5), sent 1.00 to 5.00 s, taken 1.10 to 5.10 s"


def test_pubrec_counts_as_an_acknowledgement() -> None:
    assert ("lost", "S1") in kinds([sent(1, "P2", 1), Taken(at_s=1.1, client="P2", number=1)])


@pytest.mark.parametrize(
    "instead",
    [
        [Refused(at_s=1.1, client="P2", number=1, reason=0x97)],
        [GivenUp(at_s=1.1, client="P2", number=1)],
    ],
)
def test_an_unacknowledged_publication_may_be_lost(instead: list[Event]) -> None:
    assert kinds([sent(1, "P2", 1), *instead]) == []


def test_publications_before_suback_may_be_lost() -> None:
    assert kinds([e for e in to_all(-0.45, "P1", 1) if not isinstance(e, Got)]) == []


def test_only_publications_that_match_the_filter_are_owed() -> None:
    well = to_all(1, "P1", 1, x=50)
    assert kinds(well) == []
    assert kinds([e for e in well if not (isinstance(e, Got) and e.client == "S2")]) == [
        ("lost", "S2")
    ]
    phantom = [*to_all(1, "P1", 1, x=49), got(1.2, "S2", "P1", 1, 49)]
    assert kinds(phantom) == [("phantom", "S2")]


def test_only_publications_on_the_topic_are_owed() -> None:
    choosy = SubscriberPlan("S9", "B2", 2, publisher="P2")
    plan = PLAN._replace(subscribers=(*PLAN.subscribers, choosy))
    granted = [*entered(-0.5, "S9"), Granted(at_s=-0.4, client="S9")]
    assert kinds([*granted, *to_all(1, "P1", 1)], plan) == []
    assert kinds([*granted, *to_all(1, "P2", 1)], plan) == [("lost", "S9")]
    phantom = [*granted, *to_all(1, "P1", 1), got(1.2, "S9", "P1", 1)]
    assert kinds(phantom, plan) == [("phantom", "S9")]


def test_a_session_that_ends_with_its_connection_is_owed_nothing() -> None:
    assert kinds([e for e in WELL if not (isinstance(e, Got) and e.client == "F1")]) == []


def test_one_member_of_a_group_must_receive_it() -> None:
    others = [e for e in WELL if not (isinstance(e, Got) and e.client == "G1")]
    assert kinds(others) == [("lost", "group g")]
    assert kinds([*others, *(got(n + 0.5, "G2", "P1", n, 40 + 5 * n) for n in range(1, 6))]) == []


def test_a_member_whose_session_ends_takes_its_in_flight_messages() -> None:
    fickle = SubscriberPlan("G3", "B1", 2, group="g", lasts=False)
    plan = PLAN._replace(subscribers=(*PLAN.subscribers, fickle))
    others = [e for e in to_all(5, "P1", 1) if not (isinstance(e, Got) and e.client == "G1")]
    for left_s, found in ((1, True), (4.4, True), (4.6, False), (8, False), (8.2, True)):
        left = Left(at_s=left_s, client="G3", broker="B1", why="")
        assert kinds([*others, left], plan) == [("lost", "group g")] * found
    assert kinds([*others, got(5.1, "G3", "P1", 1)], plan) == []


def test_killed_brokers_learn_of_a_left_member_when_they_are_back() -> None:
    fickle = SubscriberPlan("G3", "B1", 2, group="g", lasts=False)
    plan = PLAN._replace(subscribers=(*PLAN.subscribers, fickle))
    others = [e for e in to_all(5, "P1", 1) if not (isinstance(e, Got) and e.client == "G1")]
    left = Left(at_s=2, client="G3", broker="B1", why="")
    for killed_s, ready_s, found in (
        (1, 4, True),
        (1, 4.6, False),
        (2.4, 4.6, False),
        (3, 9, True),
    ):
        down = [Killed(at_s=killed_s, broker="B2"), Ready(at_s=ready_s, broker="B2")]
        assert kinds([left, *down, *others], plan) == [("lost", "group g")] * found


def test_a_second_copy_at_qos_2_is_doubled() -> None:
    assert kinds([*to_all(1, "P2", 1), got(2, "S1", "P2", 1)]) == [("doubled", "S1")]
    assert kinds([*to_all(1, "P2", 1), got(2, "G2", "P2", 1)]) == [("doubled", "group g")]


def test_a_second_copy_is_allowed_if_either_end_has_qos_1() -> None:
    well = to_all(1, "P1", 1, 60) + to_all(2, "P2", 1, 60)
    assert kinds([*well, got(3, "S1", "P1", 1, 60), got(3, "S2", "P2", 1, 60)]) == []


def test_a_publisher_that_advertises_may_be_doubled_by_its_own_brokers_kill() -> None:
    at = entered(0.5, "P3", "B1")
    events = [*to_all(1, "P3", 1), got(2, "S1", "P3", 1)]
    assert kinds([*at, *events]) == [("doubled", "S1")]
    assert kinds([*at, Killed(at_s=1.05, broker="B1"), *events]) == []
    assert kinds([*at, Killed(at_s=1.05, broker="B2"), *events]) == [("doubled", "S1")]
    assert kinds([*at, Killed(at_s=1.5, broker="B1"), *events]) == [("doubled", "S1")]


def test_two_members_may_receive_it_when_two_brokers_die_together() -> None:
    """The publisher's broker dies, and the broker of the member that already has the message."""
    at = entered(0.5, "P2", "B1")
    events = [*to_all(1, "P2", 1), got(2, "G2", "P2", 1)]
    both = [Killed(at_s=1.05, broker=broker) for broker in ("B1", "B2")]
    assert kinds([*at, *events, *both]) == []
    for killed in both:
        assert kinds([*at, *events, killed]) == [("doubled", "group g")]
    assert kinds([*at, *both, *to_all(1, "P2", 1), got(2, "S1", "P2", 1)]) == [("doubled", "S1")]


def test_order_is_judged_per_publisher_and_subscriber() -> None:
    both = [*published(1, "P1", 1), *published(1, "P1", 2)]
    others = [got(2, name, "P1", n) for name in ("F1", "G1") for n in (1, 2)]
    late = [got(1.5, "S1", "P1", 2), got(1.6, "S1", "P1", 1)]
    assert kinds([*both, *others, *late]) == [("disordered", "S1")]
    # Repetitions come late, and publishers are independent.
    well = [got(1.5, "S1", "P1", 1), got(1.6, "S1", "P1", 2), got(1.7, "S1", "P1", 1)]
    assert kinds([*both, *others, *well]) == []


def test_before_a_subscription_is_granted_repeats_fill_gaps() -> None:
    both = [event for n in (1, 2) for event in published(3.2, "P1", n)]
    others = [got(4, name, "P1", n) for name in ("S1", "G1") for n in (1, 2)]
    late = [got(3.5, "F1", "P1", 2), got(3.6, "F1", "P1", 1)]
    left, anew = Left(at_s=2.9, client="F1", broker="B1", why="-"), entered(3, "F1", "B1")
    again = sent(3.25, "P1", 1, again=True)
    granted = Granted(at_s=3.7, client="F1")
    assert kinds([*both, *others, left, *anew, again, *late, granted]) == []
    assert kinds([*both, *others, left, *anew, *late, granted]) == [("disordered", "F1")]
    soon = msgspec.structs.replace(granted, at_s=3.3)
    assert kinds([*both, *others, left, *anew, again, soon, *late]) == []
    sooner = msgspec.structs.replace(granted, at_s=3.1)
    assert kinds([left, *anew, sooner, *both, *others, again, *late]) == [("disordered", "F1")]


def test_retransmissions_of_a_restarted_broker_fill_gaps_before_a_grant() -> None:
    """A chaos run of octopia: the restarted broker retransmits before the publisher does."""
    both = [sent(3.2, "P2", 1), *published(3.3, "P2", 2)]
    answered = published(4, "P2", 1)[1:]
    others = [got(4, name, "P2", n) for name in ("S1", "G1") for n in (1, 2)]
    late = [got(3.5, "F1", "P2", 2), got(3.6, "F1", "P2", 1)]
    left, anew = Left(at_s=2.9, client="F1", broker="B1", why="-"), entered(3, "F1", "B1")
    seen = [left, *anew, *both, *others, *late]
    granted, started = Granted(at_s=3.7, client="F1"), Started(at_s=3.55, broker="B1")
    assert kinds([*seen, *answered, granted, started]) == []
    assert kinds([*seen, *answered, granted]) == [("disordered", "F1")]
    elsewhere = msgspec.structs.replace(started, broker="B2")
    assert kinds([*seen, *answered, granted, elsewhere]) == [("disordered", "F1")]
    before = [msgspec.structs.replace(each, at_s=3.4) for each in answered]
    assert kinds([*seen, *before, granted, started]) == [("disordered", "F1")]
    sooner = msgspec.structs.replace(granted, at_s=3.1)
    assert kinds([*seen, *answered, sooner, started]) == [("disordered", "F1")]


def test_a_retransmission_at_another_broker_may_arrive_out_of_order() -> None:
    both = [
        event
        for n in (1, 2)
        for event in (
            sent(1, "P1", n),
            Taken(at_s=1.9, client="P1", number=n),
            Done(at_s=1.9, client="P1", number=n),
        )
    ]
    others = [got(2, name, "P1", n) for name in ("F1", "G1") for n in (1, 2)]
    late = [got(1.5, "S1", "P1", 2), got(1.6, "S1", "P1", 1)]
    again = sent(1.55, "P1", 1, again=True)
    elsewhere = msgspec.structs.replace(again, broker="B2")
    assert kinds([*both, *others, *late, elsewhere]) == []
    assert kinds([*both, *others, *late, again]) == [("disordered", "S1")]
    # Not excused before the retransmission, nor at QoS 2.
    soon = msgspec.structs.replace(elsewhere, at_s=1.7)
    assert kinds([*both, *others, *late, soon]) == [("disordered", "S1")]
    exact = msgspec.structs.replace(elsewhere, qos=2)
    assert kinds([*both, *others, *late, exact]) == [("disordered", "S1")]


def test_messages_of_a_broker_killed_behind_a_moved_session_may_be_out_of_order() -> None:
    both = [*published(1, "P1", 1), *published(1, "P1", 2)]
    others = [got(8, name, "P1", n) for name in ("F1", "G1") for n in (1, 2)]
    late = [got(8.5, "S1", "P1", 2), got(8.6, "S1", "P1", 1)]
    down = [Killed(at_s=2, broker="B1"), Ready(at_s=8, broker="B1")]
    briefly = [Killed(at_s=2, broker="B1"), Ready(at_s=3, broker="B1")]
    there = entered(0.5, "S1", "B1", present=True)
    back = entered(1.5, "S1", "B2", present=True)
    moved = [*both, *others, *late, *there, *back]
    assert kinds([*moved, *down]) == []
    assert kinds([*moved, *briefly]) == [("disordered", "S1")]
    assert kinds([*both, *others, *late, *down]) == [("disordered", "S1")]


def test_unsettled_qos_2_publications_at_a_killed_former_broker_may_be_out_of_order() -> None:
    down = [Killed(at_s=2, broker="B1"), Ready(at_s=8, broker="B1")]
    briefly = [Killed(at_s=2, broker="B1"), Ready(at_s=3, broker="B1")]
    for publisher, excused in (("P2", []), ("P1", [("disordered", "S1")])):
        both = [*published(1, publisher, 1), *published(1, publisher, 2)]
        others = [got(8, name, publisher, n) for name in ("F1", "G1") for n in (1, 2)]
        late = [got(8.5, "S1", publisher, 2), got(8.6, "S1", publisher, 1)]
        there, on = entered(0.5, publisher, "B1"), entered(1.5, publisher, "B2", present=True)
        moved = [*both, *others, *late, *there, *on]
        assert kinds([*moved, *down]) == excused
        assert kinds([*moved, *briefly]) == [("disordered", "S1")]
        assert kinds([*both, *others, *late, *there, *down]) == [("disordered", "S1")]


def test_messages_of_a_paused_former_broker_may_be_out_of_order() -> None:
    both = [*published(1, "P1", 1), *published(1, "P1", 2)]
    others = [got(8, name, "P1", n) for name in ("F1", "G1") for n in (1, 2)]
    late = [got(8.5, "S1", "P1", 2), got(8.6, "S1", "P1", 1)]
    there, back = entered(0.5, "S1", "B1", present=True), entered(1.5, "S1", "B2", present=True)
    moved = [*both, *others, *late, *there, *back]
    still, on = Paused(at_s=2, broker="B1"), Resumed(at_s=8, broker="B1")
    assert kinds([*moved, still, on]) == []
    assert kinds([*moved, still, Resumed(at_s=3, broker="B1")]) == [("disordered", "S1")]
    assert kinds([*both, *others, *late, still, on]) == [("disordered", "S1")]
    # A broker killed while paused is disconnected from then on.
    ended = [Killed(at_s=4, broker="B1"), Ready(at_s=6.5, broker="B1")]
    assert kinds([*moved, still, *ended]) == []
    assert kinds([*moved, *ended]) == [("disordered", "S1")]
    # Nothing else is excused: acknowledged publications must arrive.
    lost = [*both, *others, got(8.5, "S1", "P1", 2), *there, *back]
    assert kinds([*lost, still, on]) == [("lost", "S1")]


def test_order_is_not_judged_in_groups() -> None:
    both = [*published(1, "P1", 1), *published(1, "P1", 2)]
    to_s1 = [got(2, "S1", "P1", n) for n in (1, 2)]
    assert kinds([*both, *to_s1, got(2.1, "G1", "P1", 2), got(2.2, "G1", "P1", 1)]) == []


def test_a_new_session_begins_a_new_order() -> None:
    both = [*published(1, "P1", 1), *published(1, "P1", 2)]
    others = [got(2, name, "P1", n) for name in ("S1", "G1") for n in (1, 2)]
    first, second = got(1.5, "F1", "P1", 2), got(2.5, "F1", "P1", 1)
    assert kinds([*both, *others, first, second]) == [("disordered", "F1")]
    assert kinds([*both, *others, first, *entered(2.2, "F1"), second]) == []


def test_an_unpublished_delivery_is_a_phantom() -> None:
    assert kinds([got(1, "S1", "P1", 7)]) == [("phantom", "S1")]
    assert kinds([*to_all(1, "P1", 1), got(2, "S1", "P1", 1, x=11)]) == [("phantom", "S1")]
    assert ("phantom", "S1") in kinds([got(0.5, "S1", "P1", 1), *to_all(1, "P1", 1)])


def test_a_lost_session_is_reported() -> None:
    lost = [*published(1, "P1", 1), got(1.5, "G1", "P1", 1)]
    assert kinds([*lost, *entered(2, "S1", present=True)]) == [("lost", "S1")]
    events = sorted([*BEGINNING, *lost, *entered(2, "S1")], key=lambda event: event.at_s)
    assert [each for each in judge(PLAN, events) if each.kind == "session"] == [
        Violation(
            "session",
            "S1",
            "found no session at B2 at 2.00 s; it was at B2 at -0.50 s; "
            "1 acknowledged messages went with it or were there",
        )
    ]


def test_a_lost_session_is_owed_nothing_after_its_loss() -> None:
    later = [*published(3, "P1", 1), got(3.5, "G1", "P1", 1)]
    assert kinds([*entered(2, "S1"), *later]) == [("session", "S1")]


def test_session_present_without_a_session_is_reported() -> None:
    assert kinds(entered(1, "P1", "B1", present=True)) == [("session", "P1")]
    assert kinds(entered(1, "F1", "B1", present=True)) == [("session", "F1")]
    assert kinds(entered(1, "F1", "B1")) == []
    # An unanswered CONNECT may have made a session.
    asked = Asked(at_s=0.5, client="P1", broker="B2")
    assert kinds([asked, *entered(1, "P1", "B1", present=True)]) == []
    assert kinds([asked, *entered(1, "P1", "B1")]) == []


def test_messages_kept_for_a_disconnected_broker_may_be_lost_by_an_advertiser() -> None:
    """An advertising publisher may lose them when two brokers restart."""
    stored = PLAN._replace(acknowledge="stored")
    lost = [*published(2, "P3", 1), got(2.5, "G1", "P3", 1)]
    down = [Killed(at_s=1, broker="B2"), Ready(at_s=3, broker="B2")]
    other = [Killed(at_s=2.5, broker="B1"), Ready(at_s=4, broker="B1")]
    assert kinds([*lost, *down, *other], stored) == []
    assert kinds([*lost, *down, *other], PLAN) == [("lost", "S1")]
    assert kinds([*lost, *down], stored) == [("lost", "S1")]
    others = [*published(2, "P2", 1), got(2.5, "G1", "P2", 1)]
    assert kinds([*others, *down, *other], stored) == [("lost", "S1")]


def test_unanswered_publications_and_silent_brokers_are_reported() -> None:
    assert kinds([sent(1, "P1", 1)]) == [("unanswered", "P1")]
    assert kinds([Silent(at_s=9, client="S1", broker="B1")]) == [("silent", "B1")]
    assert kinds([Died(at_s=9, broker="B1", code=1)]) == [("died", "B1")]


def test_a_broker_may_refuse_to_start_on_a_full_disk() -> None:
    full = Disk(at_s=8, broker="B1", delay_s=0, is_full=True)
    good = Disk(at_s=8.5, broker="B1", delay_s=0, is_full=False)
    assert kinds([full, Died(at_s=9, broker="B1", code=2)]) == []
    assert kinds([full, Died(at_s=9, broker="B1", code=1)]) == [("died", "B1")]
    assert kinds([full, Died(at_s=9, broker="B2", code=2)]) == [("died", "B2")]
    assert kinds([full, good, Died(at_s=9, broker="B1", code=2)]) == [("died", "B1")]


def test_a_busy_or_grown_broker_at_rest_is_reported() -> None:
    calm = Measured(
        at_s=9, broker="B1", cpu_s=0.1, during_s=2.0, memory_mb=90, memory_at_start_mb=80
    )
    assert kinds([calm]) == []
    assert kinds([msgspec.structs.replace(calm, cpu_s=1.9)]) == [("busy", "B1")]
    assert kinds([msgspec.structs.replace(calm, memory_mb=900.0)]) == [("grown", "B1")]


def test_complaints_in_logs_are_reported_except_of_full_disks() -> None:
    line = '{"level": "error", "event": "the journal cannot be written; publications ..."}'
    logged: list[Event] = [Logged(at_s=9, broker="B1", line=line)]
    assert kinds(logged) == [("logged", "B1")]
    assert kinds([Disk(at_s=1, broker="B1", is_full=True), *logged]) == []
    assert kinds([Disk(at_s=1, broker="B1", delay_s=1.0), *logged]) == [("logged", "B1")]


def test_a_written_history_reads_back_equal(tmp_path: Path) -> None:
    history = [*BEGINNING, *WELL]
    write_history(tmp_path / "history.jsonl", history)
    assert read_history(tmp_path / "history.jsonl") == history
