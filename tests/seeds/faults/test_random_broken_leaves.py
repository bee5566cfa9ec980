"""A broker leaves while something breaks: one tree is left, and who was not concerned lost nothing.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from unittest.mock import patch

import pytest

from shoal.broker.effects import Effect, Input, LinkChanged
from shoal.broker.machine import Broker
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.broken_leaves import LEAVES_US, BrokenLeave
from tests.seeds.networks.random_network import END_US, SECOND_US
from tests.systems import TREES

# 2: it notices a broker that leaves at any time, and one whose neighbour hears too late that it
# stays.
QUICK = (2,)
# 8: links were exchanged after the broker was asked to leave.
WHERE_LINKS_ARE_EXCHANGED = (*QUICK, 8)
SOAK = range(1_000)
# Above anything that a broken leave may take; a publisher's rows are held for 30 s.
UNTIL_US = END_US + 90 * SECOND_US


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False, patient: bool = False) -> int:
    """Run and judge; how many leaves were broken."""
    broken = 0
    for seed in chosen(seeds):

        def network(seed: int = seed) -> BrokenLeave:
            return BrokenLeave(seed, system=system, lossy=lossy, patient=patient)

        whole = network()
        if len(whole.neighbours[whole.leaving_broker]) < 2:
            continue
        at_us = LEAVES_US
        while whole.leaving_broker not in whole.world.departures and at_us < END_US:
            at_us += 10 * SECOND_US
            whole.world.run(at_us)
        faulty = network()
        faulty.break_something(whole.world.departures[whole.leaving_broker])
        problems = faulty.run(UNTIL_US)
        assert not problems, f"SHOAL_SEEDS={seed}: {faulty.fault}: " + "\n".join(problems)
        broken += 1
    return broken


@pytest.mark.parametrize("system", TREES)
@pytest.mark.parametrize("patient", [True, *at_length([False])])
def test_a_leave_that_breaks_leaves_one_tree(system: str, patient: bool) -> None:
    seeds = WHERE_LINKS_ARE_EXCHANGED if system == "self_organising" else QUICK
    assert _run(seeds, system, patient=patient) == len(seeds) or CHOSEN


def test_what_was_found_where_links_are_exchanged() -> None:
    # Who was cut off from a neighbour that had moved looked for another, and closed a cycle.
    _run((80018,), "self_organising", patient=True)
    # A broker looked for one that had left as it was away.
    _run((80024,), "self_organising")
    # A centre died before anybody had heard of it, and remembered that it had the place.
    _run((510,), "self_organising")
    # Who had started again left at once, as none of the links that it remembered were up.
    _run((506,), "self_organising", lossy=True)
    # Who had moved greeted the leaving broker over the link that was about to end; the leaving
    # broker waited for that end for ever.
    _run((228,), "self_organising", lossy=True)
    _run((303,), "self_organising", patient=True)


def test_what_was_found_over_bad_links() -> None:
    # Who was back before the others had moved said its tables too soon, and was waited for.
    _run((362,), "tree", lossy=True)


def test_what_was_found_where_publishers_move() -> None:
    # The centre had counted fewer moves than the leaving broker: rows were held until they were
    # taken back.
    _run((206,), "grape")
    _run((413,), "grape", lossy=True)


@pytest.mark.parametrize("seed", [4, 7])
def test_no_link_comes_and_goes_while_a_leave_is_broken(seed: int) -> None:
    """It did some 30 to 300 times a second, up to 10 s long: one end wanted it, and the other not.

    4: both had agreed on it, but one had been asked for it by a leave that failed.  7: who left
    opened links anew that had ended because their other ends had moved.
    """
    ups: Counter[tuple[str, str]] = Counter()
    handle = Broker.handle

    def counted(self: Broker, input: Input, now_us: int) -> list[Effect]:
        if isinstance(input, LinkChanged) and input.up:
            ups[self.id, input.neighbour] += 1
        return handle(self, input, now_us)

    whole = BrokenLeave(seed, system="self_organising")
    whole.world.run(LEAVES_US + 20 * SECOND_US)
    with patch.object(Broker, "handle", counted):
        broken = BrokenLeave(seed, system="self_organising")
        broken.break_something(whole.world.departures[whole.leaving_broker])
        assert broken.run(UNTIL_US) == []
    assert max(ups.values()) < 10


@pytest.mark.soak
@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", TREES)
def test_a_thousand_leaves_that_break(system: str, lossy: bool, patient: bool) -> None:
    assert _run(SOAK, system, lossy=lossy, patient=patient) > 500 or CHOSEN
