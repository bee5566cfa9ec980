"""Cost and Interest: a tree with exchange of links for better ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from shoal.model import BrokerId
from shoal.overlays.coordination.messages import MESSAGES as CHANGE_MESSAGES
from shoal.overlays.publisher_relocation.grape.messages import MESSAGES as GRAPE_MESSAGES
from shoal.overlays.publisher_relocation.messages import MESSAGES as MIGRATION_MESSAGES
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    MESSAGES as RING_MESSAGES,
)
from shoal.overlays.self_organising.links.cycles import CYCLES
from shoal.overlays.self_organising.links.healing import HEALING
from shoal.overlays.self_organising.messages import MESSAGES
from shoal.overlays.self_organising.moves.path_messages import MESSAGES as PATH_MESSAGES
from shoal.overlays.self_organising.parameters import SelfOrganisingParameters
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.system import System
from shoal.overlays.tree.messages import MESSAGES as TREE_MESSAGES
from shoal.overlays.tree.placeholder import placeholder
from shoal.overlays.tree.system import tables_of_a_tree

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


def _named(parameters: SelfOrganisingParameters) -> Mapping[str, Iterable[BrokerId]]:
    rules = {"pinned": parameters.pinned, "forbidden": parameters.forbidden}
    return {key: [name for pair in pairs for name in pair] for key, pairs in rules.items()}


def _self_organising(context: BrokerContext, parameters: SelfOrganisingParameters) -> Strategy:
    from shoal.overlays.self_organising.protocol import SelfOrganising

    return SelfOrganising(context, parameters)


SYSTEM = System(
    name="self_organising",
    strategy=_self_organising,
    parameters=SelfOrganisingParameters,
    messages=(
        *TREE_MESSAGES,
        *CHANGE_MESSAGES,
        *MESSAGES,
        *RING_MESSAGES,
        *HEALING,
        *CYCLES,
        *MIGRATION_MESSAGES,
        *GRAPE_MESSAGES,
        *PATH_MESSAGES,
    ),
    records={"selections": SelectionRecord, "proposals": ProposalRecord},
    shown=("proposals",),
    placeholder=placeholder,
    is_quiet=False,
    oracle=tables_of_a_tree,
    named=_named,
)
