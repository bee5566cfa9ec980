"""The tree system: publishers and subscribers stay where they connected; the others' baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.model import BrokerId
from shoal.overlays.coordination.messages import MESSAGES as CHANGE_MESSAGES
from shoal.overlays.merging import check_merging
from shoal.overlays.system import Picture, System
from shoal.overlays.tree.messages import MESSAGES
from shoal.overlays.tree.placeholder import placeholder

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext
    from shoal.overlays.tree.routing import TreeRouting


class TreeParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a tree.

    ValueError for merging without covering.

    covering   neighbours get no subscription that another covers (PADRES): no
    merging    with covering: they get unions of a broker's own (PADRES): no
    """

    covering: bool = False
    merging: bool = False

    def __post_init__(self) -> None:
        check_merging(covering=self.covering, merging=self.merging)


def _routing(context: BrokerContext, parameters: TreeParameters) -> TreeRouting:
    from shoal.overlays.tree.routing import TreeRouting

    return TreeRouting(context, covering=parameters.covering, merging=parameters.merging)


def tables_of_a_tree(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    """The oracle of all systems that route on a tree."""
    from shoal.overlays.tree.oracle import table_problems

    return table_problems(picture, brokers)


SYSTEM = System(
    name="tree",
    strategy=_routing,
    parameters=TreeParameters,
    messages=(*MESSAGES, *CHANGE_MESSAGES),
    placeholder=placeholder,
    by_tables=True,
    oracle=tables_of_a_tree,
)
