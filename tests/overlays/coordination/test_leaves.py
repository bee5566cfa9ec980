"""Leaves as transcripts: one test for each row of the tables in `overlays/coordination`."""

from __future__ import annotations

from shoal.broker.effects import Departed, Effect, SetTimer
from shoal.overlays.coordination.host import UNUSED
from shoal.overlays.coordination.messages import LeaveWanted, LinkChange, NotNow, Prepare
from shoal.overlays.coordination.part import TIMEOUT_US
from tests.overlays.coordination.stage import Leaving


def begun() -> Leaving:
    """B leaves A and C; A has asked C."""
    stage = Leaving(("A", "B"), ("B", "C"))
    stage.leave("B")
    stage.settle()
    assert stage.take_transcript() == ["B -> A: LeaveWanted", "A opens C"]
    stage.up("A", "C")
    assert stage.take_transcript() == ["A -> C: Prepare"]
    return stage


def other_has_voted() -> Leaving:
    """The same, and C has voted."""
    stage = begun()
    stage.carry("A", "C")
    stage.carry("C", "A")
    assert stage.take_transcript() == [
        *("C writes", "C holds but A B", "C -> A: Ready"),
        *("A holds but B C", "A -> B: Prepare"),
    ]
    return stage


def decided() -> Leaving:
    """The same, and B has voted, so A has decided; no other broker knows it."""
    stage = other_has_voted()
    stage.carry("A", "B")
    assert stage.take_transcript() == ["B writes", "B holds but A", "B -> A: Ready"]
    stage.carry("B", "A")
    assert stage.take_transcript() == [
        "A writes",
        "A -> B: Decide",
        "A -> C: Decide",
        "A holds but B",
    ]
    return stage


def test_a_leave_is_decided_installed_and_confirmed() -> None:
    stage = decided()
    stage.settle()
    assert stage.take_transcript() == [
        *("B writes", "B -> A: Decide", "B -> C: Decide", "B goes on"),
        *("C writes", "C -> A: Decide", "C -> B: Decide", "C holds but B"),
        *("B writes", "B -> A: Flushed", "B -> C: Flushed", "B ends A", "B ends C"),
        *("A ends B", "A goes on", "C ends B", "C goes on", "C writes", "A writes"),
    ]
    stage.ended("A", "B")
    stage.ended("B", "C")
    assert stage.take_transcript() == ["B has left"]
    assert stage.changes("A").is_free
    assert stage.changes("C").is_free


def test_a_leaf_asks_one_neighbour() -> None:
    stage = Leaving(("A", "B"))
    stage.leave("B")
    stage.settle()
    assert stage.take_transcript() == [
        *("B -> A: LeaveWanted", "A holds but B", "A -> B: Prepare"),
        *("B writes", "B holds but A", "B -> A: Ready"),
        *("A writes", "A -> B: Decide", "A holds but B"),
        *("B writes", "B -> A: Decide", "B goes on", "B writes", "B -> A: Flushed", "B ends A"),
        *("A ends B", "A writes", "A goes on"),
    ]
    stage.ended("A", "B")
    assert stage.take_transcript() == ["B has left"]


def test_a_broker_alone_leaves_at_once() -> None:
    stage = Leaving(("A", "B"))
    stage.ended("A", "B")
    stage.leave("B")
    assert stage.take_transcript() == ["B has left"]


# --- deaths of brokers ----------------------------------------------------------------------------


def test_the_decider_dies_before_it_has_installed() -> None:
    """The leaving broker has not voted, so nothing was decided."""
    stage = begun()
    stage.carry("A", "C")
    stage.take_transcript()
    stage.kill("A")
    assert stage.take_transcript() == ["C goes on"]
    stage.fires("C")
    stage.settle()
    assert stage.take_transcript() == [
        *("C -> B: Query", "C opens A", "B -> C: Abort"),
        *("C writes", "C ends A"),
    ]


def test_the_decider_dies_after_it_has_installed() -> None:
    """All voters are in doubt and continue; on its return it announces the decision first."""
    stage = decided()
    stage.kill("A")
    assert stage.take_transcript() == ["B goes on", "C goes on"]
    stage.fires("B")
    stage.fires("C")
    stage.settle()
    assert stage.take_transcript() == ["C -> B: Query", "C opens A"]
    stage.start("A", "B", "C")
    stage.up("A", "C")
    assert "A -> C: Decide" in stage.take_transcript()
    stage.settle()
    said = stage.take_transcript()
    assert said[:4] == ["C writes", "C -> A: Decide", "C -> B: Decide", "C holds but B"]
    assert said[4:7] == ["B writes", "B -> C: Decide", "B -> C: Flushed"]
    stage.ended("B", "C")
    assert "B has left" not in stage.take_transcript()
    stage.up("A", "B")
    stage.settle()
    said = stage.take_transcript()
    assert said[:4] == ["A -> B: Decide", "B -> A: Decide", "B writes", "B -> A: Flushed"]
    stage.ended("A", "B")
    assert stage.take_transcript() == ["B has left"]


def test_a_broker_that_knows_the_decision_tells_the_others() -> None:
    stage = decided()
    stage.carry("A", "B")
    stage.take_transcript()
    stage.kill("A")
    stage.settle()
    assert stage.take_transcript() == [
        *("C goes on", "C writes", "C -> B: Decide", "C opens A", "C holds but B"),
        *("B writes", "B -> C: Flushed", "B ends A", "B ends C", "C ends B", "C goes on"),
    ]


def test_another_neighbour_dies_before_its_vote() -> None:
    stage = begun()
    stage.kill("C")
    stage.settle()
    assert stage.take_transcript() == [
        "A -> B: Abort",
        "A -> B: NotNow: C is not connected",
        "A ends C",
    ]
    assert stage.changes("B").problem == "A: C is not connected"


def test_another_neighbour_dies_after_its_vote() -> None:
    stage = other_has_voted()
    stage.kill("C")
    stage.settle()
    stage.take_transcript()
    stage.start("C", "B")
    stage.up("B", "C")
    assert stage.take_transcript() == ["C -> B: Query"]
    stage.settle()
    assert stage.take_transcript() == ["B -> C: Abort", "C writes", "C ends A"]


def test_another_neighbour_dies_before_the_decision_arrives() -> None:
    stage = decided()
    stage.kill("C")
    stage.settle()
    stage.take_transcript()
    assert "C" not in stage.left
    stage.start("C", "B")
    stage.up("B", "C")
    assert stage.take_transcript()[:2] == ["B -> C: Decide", "C -> B: Query"]
    stage.settle()
    said = stage.take_transcript()
    assert said[:3] == ["C writes", "C -> B: Decide", "C opens A"]
    assert {"B -> C: Flushed", "C ends B"} <= {*said}


def test_the_leaving_broker_dies_before_its_vote() -> None:
    stage = other_has_voted()
    stage.kill("B")
    stage.settle()
    assert stage.take_transcript() == [
        *("A -> C: Abort", "A ends C", "A goes on", "C holds but A"),
        *("C goes on", "C writes", "C ends A"),
    ]
    assert stage.changes("A").is_free
    assert stage.changes("C").is_free


def test_the_leaving_broker_dies_after_its_vote() -> None:
    stage = other_has_voted()
    stage.carry("A", "B")
    stage.kill("B")
    stage.settle()
    stage.take_transcript()
    stage.start("B", "A", "C")
    stage.up("A", "B")
    assert stage.take_transcript() == ["B -> A: Query"]
    stage.settle()
    assert stage.take_transcript() == ["A -> B: Abort", "B writes"]
    assert stage.changes("B").is_leaving


def test_the_leaving_broker_dies_before_the_decision_arrives() -> None:
    stage = decided()
    stage.kill("B")
    stage.settle()
    stage.take_transcript()
    stage.start("B", "A", "C")
    stage.up("A", "B")
    stage.up("B", "C")
    assert stage.take_transcript()[:3] == ["A -> B: Decide", "B -> A: Query", "C -> B: Decide"]
    stage.settle()
    said = stage.take_transcript()
    assert said[:3] == ["B writes", "B -> A: Decide", "B -> C: Decide"]
    stage.ended("A", "B")
    stage.ended("B", "C")
    assert stage.take_transcript() == ["B has left"]


def test_a_link_that_comes_up_anew_brings_the_decision_first() -> None:
    stage = decided()
    stage.lose("A", "B")
    assert stage.take_transcript() == ["A opens B", "A goes on", "B goes on"]
    stage.settle()
    stage.take_transcript()
    stage.up("A", "B")
    assert stage.take_transcript()[0] == "A -> B: Decide"
    stage.settle()
    assert "B -> A: Flushed" in stage.take_transcript()


def test_a_leaving_broker_that_loses_its_last_link_leaves() -> None:
    """The driver says so; otherwise the broker would refuse every other leave for ever."""
    stage = decided()
    stage.carry("A", "B")
    stage.carry("B", "A")
    stage.take_transcript()
    stage.lose("A", "B")
    assert stage.take_transcript()[0] == "A opens B"


# --- other changes at the same time ---------------------------------------------------------------


def test_a_broker_that_links_to_a_departed_one_is_sent_to_its_successor() -> None:
    stage = Leaving(("A", "B"), ("B", "C"), ("J", "K"))
    stage.leave("B")
    stage.settle()
    stage.up("A", "C")
    stage.settle()
    stage.take_transcript()
    stage.lasts("B", "J")
    stage.up("B", "J")
    stage.settle()
    assert stage.take_transcript() == ["B -> J: GoElsewhere", "J opens A", "J ends B"]


def test_two_neighbours_leave_one_after_the_other() -> None:
    stage = Leaving(("A", "B"), ("B", "C"), ("C", "D"))
    stage.leave("B")
    stage.leave("C")
    stage.settle()
    assert stage.take_transcript() == [
        *("B -> A: LeaveWanted", "C -> B: LeaveWanted", "A opens C", "B opens D"),
    ]
    stage.up("A", "C")
    stage.settle()
    busy = "it takes part in another change"
    assert stage.take_transcript() == [
        *("A -> C: Prepare", "C writes", "C holds but A B", "C -> A: Ready"),
        *("A holds but B C", "A -> B: Prepare", f"B -> A: RefuseChange: {busy}"),
        *("A -> B: Abort", "A -> C: Abort", f"A -> B: NotNow: B: {busy}", "A ends C"),
        *("A goes on", "C goes on", "C writes", "C ends A"),
    ]


def test_a_leave_waits_for_a_neighbour_that_is_down_and_names_it() -> None:
    stage = Leaving(("A", "B"), ("B", "C"))
    stage.lose("B", "C")
    stage.leave("B")
    assert stage.take_transcript() == []
    assert stage.changes("B").problem == "C is not connected"
    stage.up("B", "C")
    stage.settle()
    stage.fires("B")
    stage.settle()
    assert stage.take_transcript() == ["B -> C: LeaveWanted", "C opens A"]


def test_a_link_of_an_aborted_attempt_must_end_first() -> None:
    """Otherwise the next attempt would decide over a link that ends."""
    stage = begun()
    stage.lose("B", "C")
    stage.settle()
    assert "A ends C" in stage.take_transcript()
    stage.tell("B", "A", LeaveWanted(9, ("C",)))
    assert stage.take_transcript() == ["A -> B: NotNow: its link to C has yet to end"]
    stage.ended("A", "C")
    stage.tell("B", "A", LeaveWanted(10, ("C",)))
    assert "A opens C" in stage.take_transcript()


def test_a_temporary_link_that_no_change_uses_ends() -> None:
    """The broker that opened it was killed, and knows of none."""
    stage = begun()
    stage.kill("A")
    stage.start("A", "B")
    stage.up("A", "B")
    stage.up("A", "C")
    stage.settle()
    stage.take_transcript()
    stage.fire("C", UNUSED)
    assert stage.take_transcript() == ["C ends A"]
    # A vote over a link that ends would be lost with it.
    change = LinkChange("A", 1, "B", ("C",))
    stage.tell("A", "C", Prepare(change))
    assert stage.take_transcript() == ["C -> A: RefuseChange: its link to A has yet to end"]


def test_further_temporary_links_do_not_delay_the_end_of_an_unused_one() -> None:
    """Attempts by other deciders open links to the same broker every few moments."""
    stage = Leaving(("A", "B"))
    out: list[Effect] = []
    for at_us, name in enumerate("XYZ"):
        stage.changes("A").opened(name, at_us * 3_000_000, out)
    due = {each.key: each.at_us for each in out if isinstance(each, SetTimer)}
    assert due == {UNUSED: TIMEOUT_US}


def test_a_leave_asks_each_neighbour_in_turn() -> None:
    """If a neighbour declines, the next one is asked, however many there are."""
    stage = Leaving(("A", "B"), ("B", "C"), ("B", "D"))
    stage.leave("B")
    asked = []
    for _ in range(4):
        decider = stage.changes("B").problem.removesuffix(" has yet to answer")
        asked.append(decider)
        stage.tell(decider, "B", NotNow(len(asked), "it is busy"))
        stage.fires("B")
    assert asked == ["A", "C", "D", "A"]


def test_a_neighbour_that_departs_during_a_change_is_not_waited_for() -> None:
    """The loss of its link is deferred, and comes after the notice that it has departed."""
    stage = Leaving(("A", "B"), ("B", "C"), ("A", "D"))
    stage.leave("B")
    stage.settle()
    stage.up("A", "C")
    stage.carry("A", "C")
    stage.carry("C", "A")
    stage.lose("A", "D")
    stage.handle("A", Departed("D"))
    stage.settle()
    assert not stage.brokers["A"].strategy.away
