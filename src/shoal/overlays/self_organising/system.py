"""Cost and Interest: a tree whose brokers exchange its links for better ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.model import BrokerId
from shoal.overlays.publisher_relocation.grape.messages import MESSAGES as GRAPE_MESSAGES
from shoal.overlays.publisher_relocation.messages import MESSAGES as MIGRATION_MESSAGES
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.self_organising.links.cycles import CYCLES
from shoal.overlays.self_organising.links.healing import HEALING
from shoal.overlays.self_organising.messages import MESSAGES
from shoal.overlays.self_organising.moves.reserved_paths import PATHS
from shoal.overlays.self_organising.parameters import Parameters
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.overlays.self_organising.quiet_ring.ring_messages import MESSAGES as RING_MESSAGES
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.system import System
from shoal.overlays.tree.departing.stand_in import stand_in
from shoal.overlays.tree.messages import MESSAGES as TREE_MESSAGES
from shoal.overlays.tree.oracle import table_problems


def _named(parameters: Parameters) -> Mapping[str, Iterable[BrokerId]]:
    rules = {"pinned": parameters.pinned, "forbidden": parameters.forbidden}
    return {key: [name for pair in pairs for name in pair] for key, pairs in rules.items()}


SYSTEM = System(
    name="self_organising",
    strategy=SelfOrganising,
    parameters=Parameters,
    messages=(
        *TREE_MESSAGES,
        *MESSAGES,
        *RING_MESSAGES,
        *HEALING,
        *CYCLES,
        *MIGRATION_MESSAGES,
        *GRAPE_MESSAGES,
        *PATHS,
    ),
    records={"selections": SelectionRecord, "proposals": ProposalRecord},
    shown=("proposals",),
    stand_in=stand_in,
    is_quiet=False,
    oracle=table_problems,
    named=_named,
)
