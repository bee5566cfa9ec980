"""The tree: publishers and subscribers stay where they connected; the baseline of the others."""

from __future__ import annotations

import msgspec

from shoal.broker.strategy import BrokerContext
from shoal.overlays.merging import check_merging
from shoal.overlays.system import System
from shoal.overlays.tree.departing.stand_in import stand_in
from shoal.overlays.tree.messages import MESSAGES
from shoal.overlays.tree.oracle import table_problems
from shoal.overlays.tree.routing import TreeRouting


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a tree.

    ValueError for merging without covering.

    covering   neighbours are told no subscription that another covers (PADRES): no
    merging    with covering: they are told unions of a broker's own (PADRES): no
    """

    covering: bool = False
    merging: bool = False

    def __post_init__(self) -> None:
        check_merging(covering=self.covering, merging=self.merging)


def _routing(context: BrokerContext, parameters: Parameters) -> TreeRouting:
    return TreeRouting(context, covering=parameters.covering, merging=parameters.merging)


SYSTEM = System(
    name="tree",
    strategy=_routing,
    parameters=Parameters,
    messages=MESSAGES,
    stand_in=stand_in,
    oracle=table_problems,
)
