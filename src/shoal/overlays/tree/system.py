"""The tree: publishers and subscribers stay where they connected; the baseline of the others."""

from __future__ import annotations

import msgspec

from shoal.broker.strategy import BrokerContext
from shoal.overlays.system import System
from shoal.overlays.tree.messages import MESSAGES
from shoal.overlays.tree.oracle import table_problems
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.stand_in import stand_in


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a tree.

    covering   neighbours are told no subscription that another covers (PADRES): no
    """

    covering: bool = False


def _routing(context: BrokerContext, parameters: Parameters) -> TreeRouting:
    return TreeRouting(context, covering=parameters.covering)


SYSTEM = System(
    name="tree",
    strategy=_routing,
    parameters=Parameters,
    messages=MESSAGES,
    stand_in=stand_in,
    oracle=table_problems,
)
