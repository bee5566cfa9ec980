"""Systems that are a tree with moving publishers, each with its tracer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.broker.wire import Vocabulary
from shoal.overlays.coordination.messages import MESSAGES as CHANGE_MESSAGES
from shoal.overlays.publisher_relocation.messages import MESSAGES
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.system import System, nobody_moves
from shoal.overlays.tree.messages import MESSAGES as TREE_MESSAGES
from shoal.overlays.tree.placeholder import placeholder
from shoal.overlays.tree.system import tables_of_a_tree

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext
    from shoal.overlays.publisher_relocation.relocation import Relocation
    from shoal.overlays.publisher_relocation.tracer import TracerFactory


def relocating(
    name: str,
    tracer: TracerFactory,
    *,
    parameters: type[msgspec.Struct],
    messages: Vocabulary,
    decides_after: str,
    records: Mapping[str, type[msgspec.Struct]] | None = None,
    moves_subscribers: Callable[[Any], bool] = nobody_moves,
) -> System:
    """The system that moves publishers by this tracer; the arguments are `System`'s.

    By its parameters subscriptions may cover others (`covering`).
    """

    def at_broker(context: BrokerContext, parameters: Any) -> Relocation:
        from shoal.overlays.publisher_relocation.migration import Migrations
        from shoal.overlays.publisher_relocation.relocation import Relocation
        from shoal.overlays.tree.routing import TreeRouting

        tree = TreeRouting(context, covering=parameters.covering)
        migrations = Migrations(tree)
        traces = tracer(context, parameters, migrations.send_away)
        return Relocation(tree, migrations, traces)

    return System(
        name=name,
        strategy=at_broker,
        parameters=parameters,
        messages=(*TREE_MESSAGES, *CHANGE_MESSAGES, *MESSAGES, *messages),
        placeholder=placeholder,
        by_tables=True,
        records={"selections": SelectionRecord, **(records or {})},
        shown=("selections", *(records or {})),
        decides_after=decides_after,
        oracle=tables_of_a_tree,
        moves_subscribers=moves_subscribers,
    )
