"""A broker leaves a graph with cycles: transcripts of the messages."""

from __future__ import annotations

import pytest

from tests.overlays.coordination.stage import Leaving

RING = ("A", "B"), ("B", "C"), ("A", "C")


def test_linked_neighbours_open_no_link() -> None:
    stage = Leaving(*RING, system="flooding")
    stage.leave("B")
    stage.settle()
    assert stage.take_transcript() == [
        *("B -> A: LeaveWanted", "A -> C: Prepare"),
        *("C writes", "C holds but A B", "C -> A: Ready"),
        *("A holds but B C", "A -> B: Prepare"),
        *("B writes", "B holds but A", "B -> A: Ready"),
        *("A writes", "A -> B: Decide", "A -> C: Decide", "A holds but B"),
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


@pytest.mark.parametrize(("system", "stops"), [("flooding", True), ("tid", False)])
def test_a_system_with_its_own_order_quiesces_no_broker(system: str, stops: bool) -> None:
    stage = Leaving(*RING, system=system)
    stage.leave("B")
    stage.settle()
    assert any("holds" in each for each in stage.take_transcript()) is stops


def test_an_abort_leaves_the_former_links() -> None:
    stage = Leaving(*RING, system="flooding")
    stage.leave("B")
    stage.carry("B", "A")
    stage.lose("A", "B")
    assert not [each for each in stage.take_transcript() if "ends" in each]
    assert stage.changes("A").is_free
