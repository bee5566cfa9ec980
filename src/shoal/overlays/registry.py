"""The registry of systems, by name.

A plug-in system needs no change here: the environment variable `SHOAL_SYSTEMS` names modules,
separated by commas, each with a `SYSTEM`. Every command treats it like the others.

>>> from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
>>> strategy_factory("grape", GrapeParameters(weight=50)) is not None
True
>>> strategy_factory("tree", GrapeParameters())  # doctest: +ELLIPSIS
Traceback (most recent call last):
TypeError: not the parameters of tree: GrapeParameters(trace_session_length=100, ...
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from shoal.model import BrokerId
from shoal.overlays.system import System

if TYPE_CHECKING:
    from shoal.broker.strategy import StrategyFactory

FURTHER = "SHOAL_SYSTEMS"
# The page that explains the keys of systems' tables.
PAGE = "docs/reference/systems.md"

# The module of each system; its `SYSTEM`, unless another name is given. A broker loads its own
# only.
MODULES = {
    "tree": "shoal.overlays.tree.system",
    "grape": "shoal.overlays.publisher_relocation.grape.system",
    "pop": "shoal.overlays.publisher_relocation.pop.system",
    "bluedove": "shoal.overlays.bluedove.system",
    "octopia": "shoal.overlays.octopia.system",
    "tid": "shoal.overlays.tid.system",
    "self_organising": "shoal.overlays.self_organising.system",
    "dynatops": "shoal.overlays.dynatops.system",
    "bayeux": "shoal.overlays.dynatops.system:BAYEUX",
    "geops": "shoal.overlays.dynatops.system:GEOPS",
    "hybrid": "shoal.overlays.dynatops.system:HYBRID",
    "tco": "shoal.overlays.tco.system",
}


class _Systems(MutableMapping[str, System]):
    """Systems by name, each loaded on first use; until then `known` has its module."""

    def __init__(self, known: Mapping[str, System | str]) -> None:
        self._known = dict(known)

    def __getitem__(self, name: str) -> System:
        found = self._known[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._known[name] = getattr(
                importlib.import_module(module), attribute or "SYSTEM"
            )
        return found

    def __setitem__(self, name: str, system: System) -> None:
        self._known[name] = system

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _further() -> Mapping[str, System]:
    """Those of modules named in the environment; SystemModuleError for an invalid one."""
    named = os.environ.get(FURTHER, "")
    if not named:
        return {}
    # Only these need the checks.
    from shoal.overlays.guests import guests

    return guests(FURTHER, named, MODULES)


SYSTEMS: MutableMapping[str, System] = _Systems({**MODULES, **_further()})


def unknown(name: str) -> str:
    """The error in the name of a system; empty for a known one."""
    if name in SYSTEMS:
        return ""
    return (
        f"no system {name!r}; use one of {', '.join(SYSTEMS)}, or name the module of your own in "
        f"{FURTHER}"
    )


def strategy_factory(
    system: str,
    parameters: msgspec.Struct | None = None,
    brokers: Sequence[BrokerId] | None = None,
) -> StrategyFactory:
    """The factory of `system` at a broker; without parameters, with their defaults.

    With `brokers`, for just these. TypeError when they are another system's parameters.
    """
    found = SYSTEMS[system]
    if parameters is None:
        parameters = found.parameters()
    if not isinstance(parameters, found.parameters):
        raise TypeError(f"not the parameters of {system}: {parameters}")
    if brokers is not None:
        parameters = found.complete(parameters, brokers)
    return lambda context: found.strategy(context, parameters)
