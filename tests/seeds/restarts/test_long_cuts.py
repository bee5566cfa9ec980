"""A link between two living brokers, cut for longer than the timeout of disconnected ones.

After it is mended all are in one view again by themselves, and nothing waits.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shoal.broker.links.outbox import LinkLimits
from shoal.overlays.dynatops.in_views import InViews
from tests.examples import at_length
from tests.seeds.ack_tracker.random_ack_tracker import SECOND_US, RandomAckTracker

NAMES = tuple(f"B{number}" for number in range(6))
CUT_S = 20.0


class LongCut(RandomAckTracker):
    """The link between these two is cut, and nothing else happens."""

    def __init__(self, system: str, ends: tuple[str, str]) -> None:
        super().__init__(3, system, faults=1)
        self.names = list(NAMES)
        self.parameters = msgspec.structs.replace(self.parameters, brokers=NAMES)
        self.limits = LinkLimits(give_up_us=3 * SECOND_US)
        self.ends = ends
        # The numbers of views, and of their members, when the link was mended.
        self.views: set[tuple[int, int]] = set()
        self.unsettled_then = 0

    async def _come_and_go(self) -> None: ...

    async def _break(self, number: int) -> None:
        self._cable(*self.ends).is_cut = True
        await asyncio.sleep(CUT_S)
        for node in self.network.nodes.values():
            strategy = node.machine.strategy
            assert isinstance(strategy, InViews)
            view = strategy.membership.view
            assert view is not None
            self.views.add((view.version, len(view.members)))
        self.unsettled_then = len(self.unsettled)
        self._cable(*self.ends).mend()


@pytest.mark.parametrize(
    ("system", "ends"),
    [
        ("dynatops", ("B0", "B1")),
        ("tco", ("B1", "B3")),
        *at_length([("dynatops", ("B1", "B3")), ("hybrid", ("B0", "B4")), ("tco", ("B0", "B4"))]),
        *at_length([("dynatops", ("B0", "B4")), ("tco", ("B0", "B1"))]),
        *at_length([("hybrid", ("B0", "B1")), ("hybrid", ("B1", "B3"))]),
    ],
)
def test_all_brokers_are_in_one_view_after_a_long_cut(system: str, ends: tuple[str, str]) -> None:
    network = LongCut(system, ends)
    problems = network.run()
    # Excluded brokers miss publications meanwhile.
    assert [each for each in problems if " lacks " not in each] == []
    if "B0" in ends:  # the deciding broker excludes the other
        assert len(NAMES) - 1 in {members for _, members in network.views}
    assert network.settled > 0


def test_a_long_cut_between_two_brokers_of_a_hub_holds_nothing_up() -> None:
    network = LongCut("tco", ("B1", "B3"))
    assert network.run() == []
    assert {members for _, members in network.views} == {len(NAMES)}
    assert network.unsettled_then < 20
