"""The systems in the house, by name.

A system of one's own needs no change here: the environment variable `SHOAL_SYSTEMS` names modules,
separated by commas, each with a `SYSTEM`.  It then is a system like the others for every command.

>>> from shoal.overlays.publisher_relocation.grape.parameters import Parameters
>>> strategy_factory("grape", Parameters(weight=50)) is not None
True
>>> strategy_factory("tree", Parameters())  # doctest: +ELLIPSIS
Traceback (most recent call last):
TypeError: not the parameters of tree: Parameters(trace_session_length=100, ...
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence

import msgspec

from shoal.broker.strategy import StrategyFactory
from shoal.model import BrokerId
from shoal.overlays.bluedove.system import SYSTEM as BLUEDOVE
from shoal.overlays.dynatops.system import BAYEUX, GEOPS
from shoal.overlays.dynatops.system import SYSTEM as DYNATOPS
from shoal.overlays.octopia.system import SYSTEM as OCTOPIA
from shoal.overlays.publisher_relocation.grape.system import SYSTEM as GRAPE
from shoal.overlays.publisher_relocation.pop.system import SYSTEM as POP
from shoal.overlays.self_organising.system import SYSTEM as SELF_ORGANISING
from shoal.overlays.system import System
from shoal.overlays.tid.system import SYSTEM as TID
from shoal.overlays.tree.system import SYSTEM as TREE

FURTHER = "SHOAL_SYSTEMS"
# Where the keys of systems' tables are explained.
PAGE = "docs/reference/systems.md"


def _further() -> Iterator[System]:
    """Those of modules that the environment names."""
    for module in filter(None, os.environ.get(FURTHER, "").split(",")):
        yield importlib.import_module(module.strip()).SYSTEM


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        TREE,
        GRAPE,
        POP,
        BLUEDOVE,
        OCTOPIA,
        TID,
        SELF_ORGANISING,
        DYNATOPS,
        BAYEUX,
        GEOPS,
        *_further(),
    )
}


def strategy_factory(
    system: str,
    parameters: msgspec.Struct | None = None,
    brokers: Sequence[BrokerId] | None = None,
) -> StrategyFactory:
    """What builds `system` at a broker; without parameters, with their defaults.

    With `brokers`, for just these.  TypeError when they are another system's parameters.
    """
    found = SYSTEMS[system]
    if parameters is None:
        parameters = found.parameters()
    if not isinstance(parameters, found.parameters):
        raise TypeError(f"not the parameters of {system}: {parameters}")
    if brokers is not None:
        parameters = found.complete(parameters, brokers)
    return lambda context: found.strategy(context, parameters)
