"""The systems in the house: name → how a broker builds it, and from which parameters.

>>> strategy_factory("grape", GrapeParameters(weight=50)) is not None
True
>>> strategy_factory("tree", GrapeParameters())  # doctest: +ELLIPSIS
Traceback (most recent call last):
TypeError: not the parameters of tree: Parameters(trace_session_length=100, ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from shoal.broker.strategy import BrokerContext, Strategy, StrategyFactory
from shoal.broker.wire import Vocabulary
from shoal.overlays.bluedove.messages import MESSAGES as BLUEDOVE_MESSAGES
from shoal.overlays.bluedove.parameters import Parameters as BluedoveParameters
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.overlays.publisher_relocation.grape.messages import MESSAGES as GRAPE_MESSAGES
from shoal.overlays.publisher_relocation.grape.parameters import Parameters as GrapeParameters
from shoal.overlays.publisher_relocation.grape.protocol import Grape
from shoal.overlays.publisher_relocation.messages import MESSAGES as MIGRATION_MESSAGES
from shoal.overlays.publisher_relocation.pop.messages import MESSAGES as POP_MESSAGES
from shoal.overlays.publisher_relocation.pop.parameters import Parameters as PopParameters
from shoal.overlays.publisher_relocation.pop.protocol import Pop
from shoal.overlays.tree.routing import TreeRouting


class NoParameters(msgspec.Struct, frozen=True):
    """Of a system that has nothing to set."""


class System(NamedTuple):
    """One system: what builds it at a broker, and what its brokers say beside `wire.COMMON`.

    `parameters` is the type of what sets it, with its defaults; `needs_tree` says that its
    brokers are linked as a tree from the start, and open no links themselves.
    """

    strategy: Callable[[BrokerContext, Any], Strategy]
    parameters: type[msgspec.Struct]
    messages: Vocabulary = ()
    needs_tree: bool = True


def _tree(context: BrokerContext, parameters: NoParameters) -> Strategy:
    return TreeRouting(context)


SYSTEMS: dict[str, System] = {
    "tree": System(_tree, NoParameters),
    "grape": System(Grape, GrapeParameters, (*MIGRATION_MESSAGES, *GRAPE_MESSAGES)),
    "pop": System(Pop, PopParameters, (*MIGRATION_MESSAGES, *POP_MESSAGES)),
    "bluedove": System(Bluedove, BluedoveParameters, BLUEDOVE_MESSAGES, needs_tree=False),
}


def strategy_factory(system: str, parameters: msgspec.Struct | None = None) -> StrategyFactory:
    """What builds `system` at a broker; without parameters, with their defaults.

    TypeError when they are another system's parameters.
    """
    strategy, kind, *_ = SYSTEMS[system]
    if parameters is None:
        parameters = kind()
    if not isinstance(parameters, kind):
        raise TypeError(f"not the parameters of {system}: {parameters}")
    return lambda context: strategy(context, parameters)
