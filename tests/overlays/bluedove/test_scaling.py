"""The number of matchers, with a stage that plays the driver: it starts, ends and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.broker.effects import (
    EndBroker,
    EndLink,
    Leave,
    LeaveNetwork,
    LeaveRefused,
    Left,
    LinkChanged,
    LinkState,
    ProcessAnswered,
    StartBroker,
    Stay,
)
from shoal.broker.scaling_status import ScalingState
from shoal.overlays.bluedove.cluster.members import Status
from shoal.overlays.bluedove.cluster.planner import Elasticity
from shoal.overlays.bluedove.messages import LoadReport
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.records import DeathRecord, ScaleRecord
from tests.overlays.bluedove.cluster import SECOND_US, Cluster, parameters
from tests.overlays.bluedove.settled import subscribe

BUSY, IDLE = 0.95, 0.1


class Elastic(Cluster):
    """Spares are started and end as `start` and `end` say: a problem, "" for none, None: no answer.

    With `hangs` a started process never joins; with `refuses` a matcher cannot leave.
    """

    def __init__(self, **options: Any) -> None:
        self.ordered: list[str] = []
        self.ending: list[tuple[str, str]] = []
        self.departed: list[str] = []
        self.start_says: str | None = ""
        self.end_says: str | None = ""
        self.hangs = False
        self.refuses = ""
        elasticity = {
            "patience_us": 2 * SECOND_US,
            "settle_us": 5 * SECOND_US,
            "least": 2,
            "spares": ("M3", "M4"),
            **options,
        }
        super().__init__(parameters("M1 M2", elastic=True, elasticity=Elasticity(**elasticity)))
        self.run(3)
        self.held[LoadReport] = []

    def _carry_out(self, name: str, effect: Any, ack_tracker: Any) -> None:
        match effect:
            case StartBroker(broker):
                self.ordered.append(f"start {broker}")
                if self.start_says is not None:
                    if not (self.start_says or self.hangs):
                        self.add(broker)
                        self.start(broker)
                    self.handle(name, ProcessAnswered(broker, self.start_says))
            case EndBroker(broker):
                self.ordered.append(f"end {broker}")
                if self.end_says is not None:
                    self.handle(name, ProcessAnswered(broker, self.end_says, is_end=True))
            case LeaveNetwork(leaves):
                if self.refuses:
                    self.handle(name, LeaveRefused(self.refuses))
                else:
                    self.handle(name, Leave() if leaves else Stay())
            case EndLink(other):
                self.ending.append((name, other))
            case Left():
                self.departed.append(name)
            case _:
                super()._carry_out(name, effect, ack_tracker)

    def settle(self) -> None:
        super().settle()
        while self.ending:  # all that was sent over these links has arrived
            one, other = self.ending.pop()
            self.links -= {(one, other), (other, one)}
            self.handle(one, LinkChanged(other, LinkState.ENDED))
            self.handle(other, LinkChanged(one, LinkState.ENDED))
            super().settle()
        for name in dict.fromkeys(self.departed):
            self.ordered.append(f"{name} left")
            self.crash(name)  # its process has ended
        self.departed.clear()

    def loads(self, share: float) -> None:
        """All matchers that serve are as busy as this from now on."""
        for name in {"D1", "D2"} & self.nodes.keys():
            outbox = self.strategies[name].dispatcher.outbox
            outbox.utilisations.update({f"M{number}": share for number in range(1, 5)})

    def steps(self) -> list[tuple[str, str | None, str]]:
        rows = [row for row in self.records if isinstance(row, ScaleRecord)]
        return [(row.action, row.matcher, row.step) for row in rows]

    def last(self) -> str:
        return [row for row in self.records if isinstance(row, ScaleRecord)][-1].in_words()

    def serves(self, matcher: str) -> bool:
        return any(self.strategies[matcher].matcher.segments)


def test_a_spare_is_started_when_busy_and_ended_when_idle() -> None:
    cluster = Elastic()
    subscribe(cluster, "s", "x > 700 AND x < 710", at="D2")
    cluster.loads(BUSY)
    cluster.run(4)
    assert cluster.ordered == ["start M3"]
    assert cluster.serves("M3")
    assert cluster.steps() == [("add", "M3", "begun"), ("add", "M3", "done")]
    cluster.publish("D1", 1, x=705, y=50)
    cluster.run(1)
    cluster.loads(IDLE)
    cluster.run(4)  # the pause after the change
    assert cluster.ordered == ["start M3"]
    cluster.run(8)
    assert cluster.ordered == ["start M3", "M3 left", "end M3"]
    assert not cluster.serves("M3")
    assert cluster.steps()[2:] == [("remove", "M3", "begun"), ("remove", "M3", "done")]
    cluster.publish("D1", 2, x=705, y=50)
    cluster.run(1)
    assert cluster.delivered() == [(1, "C", ("s",)), (2, "C", ("s",))]
    cluster.run(30)  # M1 and M2 are no spares
    assert cluster.ordered[-1] == "end M3"
    assert not [row for row in cluster.records if isinstance(row, DeathRecord)]


def test_a_matcher_that_left_is_started_again() -> None:
    cluster = Elastic(spares=("M3",))
    for share, seconds in ((BUSY, 4), (IDLE, 12), (BUSY, 12)):
        cluster.loads(share)
        cluster.run(seconds)
    assert cluster.ordered == ["start M3", "M3 left", "end M3", "start M3"]
    assert cluster.serves("M3")


def test_no_more_than_most_are_added() -> None:
    cluster = Elastic(most=3)
    cluster.loads(BUSY)
    cluster.run(60)
    assert cluster.ordered == ["start M3"]


def test_a_dry_run_only_says_what_it_would_do() -> None:
    cluster = Elastic(dry_run=True)
    cluster.loads(BUSY)
    cluster.run(4)
    assert (cluster.ordered, cluster.steps()) == ([], [("add", "M3", "dry run")])
    assert cluster.last() == "D1 would add M3: 2 matchers are 95 % busy, above 85 %"
    cluster.run(4)  # the pause holds for it, too
    assert len(cluster.steps()) == 1


def test_a_start_that_fails_is_taken_back_and_the_next_spare_is_tried() -> None:
    cluster = Elastic()
    cluster.start_says = "exit code 3: no such unit"
    cluster.loads(BUSY)
    cluster.run(4)
    assert cluster.ordered == ["start M3", "end M3"]
    assert cluster.last() == "D1 could not add M3 after 0.0 s: exit code 3: no such unit"
    status = cluster.nodes["D1"].scaling
    assert status is not None
    assert (status.state, status.problem) == (ScalingState.RESTING, "exit code 3: no such unit")
    cluster.start_says = ""
    cluster.run(9)
    assert cluster.ordered[2:] == ["start M4"]
    assert cluster.serves("M4")
    status = cluster.nodes["D1"].scaling
    assert status is not None
    assert status.problem == ""


@pytest.mark.parametrize("says", [None, ""], ids=["no answer", "never joins"])
def test_a_spare_that_never_becomes_ready_is_ended(says: str | None) -> None:
    cluster = Elastic(ready_within_us=20 * SECOND_US)
    cluster.start_says, cluster.hangs = says, True
    cluster.loads(BUSY)
    cluster.run(20)
    assert cluster.ordered == ["start M3"]
    cluster.run(4)
    assert cluster.ordered == ["start M3", "end M3"]
    verb = "starting" if says is None else "joining"
    words = f"D1 could not add M3 after 20.0 s: it was still {verb} after 20 s"
    assert cluster.last() == words


def test_a_late_answer_to_a_start_is_none_to_the_end() -> None:
    cluster = Elastic(ready_within_us=20 * SECOND_US)
    cluster.start_says = cluster.end_says = None
    cluster.loads(BUSY)
    cluster.run(24)
    assert cluster.ordered == ["start M3", "end M3"]
    cluster.handle("D1", ProcessAnswered("M3"))
    status = cluster.nodes["D1"].scaling
    assert status is not None
    assert (status.state, status.broker) == (ScalingState.ENDING, "M3")
    cluster.handle("D1", ProcessAnswered("M3", "exit code 1", is_end=True))
    assert cluster.last().endswith("its process may still run: exit code 1")


def test_an_end_that_does_not_come_is_said() -> None:
    cluster = Elastic(ready_within_us=20 * SECOND_US)
    cluster.loads(BUSY)
    cluster.run(4)
    cluster.loads(IDLE)
    cluster.end_says = None
    cluster.run(12)
    assert cluster.ordered == ["start M3", "M3 left", "end M3"]
    cluster.run(20)
    assert cluster.steps()[-1] == ("remove", "M3", "failed")
    assert "its process may still run: no answer within 20 s" in cluster.last()


def test_a_matcher_that_cannot_leave_stays() -> None:
    cluster = Elastic(leave_within_us=10 * SECOND_US)
    cluster.loads(BUSY)
    cluster.run(4)
    cluster.loads(IDLE)
    cluster.refuses = "M1 is not connected"
    cluster.run(9)
    status = cluster.nodes["D1"].scaling
    assert status is not None
    assert (status.state, status.broker) == (ScalingState.LEAVING, "M3")
    cluster.run(10)
    assert cluster.steps()[-1] == ("remove", "M3", "stays")
    assert "it had not left after 10 s: M1 is not connected" in cluster.last()
    assert cluster.ordered == ["start M3"]
    assert cluster.serves("M3")
    cluster.refuses = ""
    cluster.run(10)
    assert cluster.ordered[-1] == "end M3"


def test_the_process_of_a_matcher_that_dies_while_it_leaves_is_ended() -> None:
    cluster = Elastic()
    cluster.loads(BUSY)
    cluster.run(4)
    cluster.loads(IDLE)
    cluster.refuses = "not yet"
    cluster.run(9)
    cluster.crash("M3")
    cluster.run(25)
    assert cluster.ordered == ["start M3", "end M3"]
    assert cluster.strategies["D1"].node.table.members["M3"].status is Status.DEAD


def test_only_the_first_dispatcher_decides_and_the_next_takes_over() -> None:
    cluster = Elastic()
    assert cluster.nodes["D2"].scaling is None
    cluster.crash("D1")
    assert cluster.nodes["D2"].scaling is not None
    cluster.loads(BUSY)
    cluster.run(6)
    assert cluster.ordered == ["start M3"]
    assert cluster.serves("M3")


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_spare_that_runs_for_nothing_is_ended(dry_run: bool) -> None:
    cluster = Elastic(dry_run=dry_run)
    cluster.loads(0.6)  # neither busy, nor idle
    cluster.add("M4")
    cluster.start("M4")
    cluster.run(4)
    assert cluster.steps() == []
    cluster.run(4)
    assert cluster.ordered == ([] if dry_run else ["M4 left", "end M4"])
    assert cluster.steps()[0] == ("remove", "M4", "dry run" if dry_run else "begun")
    assert cluster.last().endswith("it runs, and serves nothing")


def test_a_spare_that_runs_is_added_before_one_is_started() -> None:
    cluster = Elastic()
    cluster.add("M4")
    cluster.start("M4")
    cluster.loads(BUSY)
    cluster.run(4)
    assert cluster.ordered == []
    assert cluster.serves("M4")


def test_without_spares_a_matcher_that_is_not_needed_waits_and_counts_as_spare() -> None:
    cluster = Elastic(spares=(), least=1)
    cluster.loads(IDLE)
    cluster.run(8)
    assert cluster.steps() == [("remove", "M1", "begun")]
    assert cluster.last().startswith("D1 removes M1: ")
    assert not cluster.serves("M1")
    status = cluster.nodes["D1"].scaling
    assert status is not None
    assert (status.serving, status.spare) == (1, 1)
    cluster.loads(BUSY)
    cluster.run(8)
    assert cluster.serves("M1")
    assert cluster.ordered == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"elastic": False}, "need elastic = true"),
        ({"dispatchers": (), "matchers": ()}, "dispatchers and matchers with names"),
        ({"matchers": ("M1", "M3")}, "M3 must not be named elsewhere"),
    ],
)
def test_spares_are_matchers_of_their_own(options: dict[str, Any], problem: str) -> None:
    given = {"elastic": True, "dispatchers": ("D1",), "matchers": ("M1",)} | options
    with pytest.raises(ValueError, match=problem):
        BlueDoveParameters(elasticity=Elasticity(spares=("M3",)), **given)
