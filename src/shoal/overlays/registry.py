"""The systems in the house: name → how a broker builds it from its parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shoal.broker.strategy import StrategyFactory
from shoal.overlays.publisher_relocation.parameters import Parameters
from shoal.overlays.publisher_relocation.protocol import PublisherRelocation
from shoal.overlays.tree.routing import TreeRouting


def _tree(parameters: Parameters) -> StrategyFactory:
    return TreeRouting


def _publisher_relocation(parameters: Parameters) -> StrategyFactory:
    return partial(PublisherRelocation, parameters=parameters)


SYSTEMS: dict[str, Callable[[Parameters], StrategyFactory]] = {
    "tree": _tree,
    "publisher_relocation": _publisher_relocation,
}
