"""Congestion of outputs: both readings of Eq. 10, its flaw, and our measure."""

from __future__ import annotations

import pytest

from shoal.broker.effects import LinkLoad
from shoal.overlays.octopia.parameters import Congestion
from shoal.overlays.octopia.ways.outputs import FORMULAS, OutputLoads, congestion_element

TAU = 10.0


@pytest.mark.parametrize(
    ("load", "element", "paper", "product"),
    [
        (LinkLoad(0, 0, 0), 1, 1, 0),
        (LinkLoad(5, 5, 0), 1, 1, 0),  # free of congestion, says the text
        (LinkLoad(20, 5, 15), 4, 64, 60),
        (LinkLoad(3, 0, 3), 3, 12, 9),
        (LinkLoad(5, 10, 40), 0.5, 20.5, 20),
    ],
)
def test_both_readings_of_eq_10(
    load: LinkLoad, element: float, paper: float, product: float
) -> None:
    assert congestion_element(load) == element
    assert FORMULAS[Congestion.PAPER](load) == paper
    assert FORMULAS[Congestion.PRODUCT](load) == product


@pytest.mark.parametrize("congestion", Congestion)
def test_a_window_without_arrivals_counts_a_long_queue_as_free(congestion: Congestion) -> None:
    """In either reading of the paper's, so routes flap while a queue drains. Not in ours."""
    outputs = OutputLoads(congestion, TAU)
    found = []
    for window in range(1, 6):
        arriving = 30 if outputs.cost("B") <= TAU else 0
        waiting = 500 - 10 * window
        outputs.renew({"B": LinkLoad(arriving, 10, waiting)}, window)
        found.append(outputs.cost("B") > TAU)
    flaps = [True, False, True, False, True]
    assert found == (flaps if congestion is not Congestion.STEADY else [True] * 5)


def test_sends_beyond_a_busy_outputs_rate_count_as_congestion() -> None:
    outputs = OutputLoads(Congestion.STEADY, TAU)
    outputs.sent("B", 500)
    assert outputs.cost("B") == 0  # its rate is not known yet
    outputs.renew({"B": LinkLoad(30, 25, 5)}, 1)
    outputs.sent("B", 25)
    assert outputs.cost("B") == 5
    outputs.sent("B", 6)
    assert outputs.cost("B") > TAU
    outputs.renew({"B": LinkLoad(31, 31, 0)}, 2)
    assert outputs.cost("B") == 0


def test_an_idle_output_is_assumed_no_faster_than_others() -> None:
    """Otherwise it counts as free whatever is sent, and a burst fills one carrier's output."""
    outputs = OutputLoads(Congestion.STEADY, TAU)
    outputs.renew({"B": LinkLoad(9, 4, 5), "C": LinkLoad(9, 2, 7), "D": LinkLoad(0, 0, 0)}, 1)
    outputs.sent("D", 14)
    assert outputs.cost("D") == TAU
    outputs.sent("D", 1)
    assert outputs.cost("D") > TAU


def test_an_output_is_free_again_below_half_of_the_threshold() -> None:
    outputs = OutputLoads(Congestion.STEADY, TAU)
    for now_us, waiting, is_congested in (
        (1, 11, True),
        (2, 8, True),
        (3, 5, False),
        (4, 9, False),
    ):
        outputs.renew({"B": LinkLoad(9, 9, waiting)}, now_us)
        assert (outputs.cost("B") > TAU) == is_congested, now_us
        assert outputs.since_us == ({"B": 1} if is_congested else {})
    assert not outputs.is_free("B", 3, 5)
    assert outputs.is_free("B", 3, 6)
    assert outputs.is_free("another", 3, 6)
