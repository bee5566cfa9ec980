"""The tree: publishers and subscribers stay where they connected; the baseline of the others."""

from __future__ import annotations

from shoal.broker.strategy import BrokerContext
from shoal.overlays.system import NoParameters, System
from shoal.overlays.tree.messages import LEAVING
from shoal.overlays.tree.oracle import table_problems
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.stand_in import stand_in


def _routing(context: BrokerContext, parameters: NoParameters) -> TreeRouting:
    return TreeRouting(context)


SYSTEM = System(
    name="tree",
    strategy=_routing,
    messages=LEAVING,
    stand_in=stand_in,
    oracle=table_problems,
)
