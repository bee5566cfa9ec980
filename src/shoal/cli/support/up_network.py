"""The network that `shoal up` starts: of a size, or from a scenario.

Each system declares its size parameters (`System.size`), which become the options of the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer

from shoal import typed_toml
from shoal.cli.support.declared_options import (
    DeclaredOption,
    check_bounds,
    declared_options,
    given,
    with_declared,
)
from shoal.cli.support.errors import UserError
from shoal.overlays.registry import PAGE, SYSTEMS
from shoal.overlays.shapes import TopologyError
from shoal.overlays.system import MAX_BROKERS, SystemLayout, SystemSize
from shoal.typed_toml import TomlError

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile

SHORT = {"brokers": "-n"}


@cache
def size_options() -> dict[str, DeclaredOption]:
    """Return the options for a network's size, by field."""
    return declared_options({name: system.size for name, system in SYSTEMS.items()})


def with_size_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each of `size_options` in the place of `sizes`."""
    return with_declared(command, "sizes", size_options(), SHORT)


class NetworkOptions(NamedTuple):
    """Options about the network."""

    sizes: Mapping[str, Any]
    port: int
    system: str
    host: str
    websockets: bool
    scenario: Path | None
    settings: Sequence[str] | None

    def check(self, context: typer.Context) -> None:
        """UserError for values out of range, and options that do not go together."""
        if self.system not in SYSTEMS:
            raise UserError(f"--system {self.system}: use one of {', '.join(SYSTEMS)}")
        check_bounds(size_options(), self.sizes)
        if self.scenario is not None:
            _check_said_once(context)
            return
        self._check_known(context)
        _check_port(self.port, len(self._layout().front_ends))

    def _check_known(self, context: typer.Context) -> None:
        """UserError for an option that the system does not know."""
        own = _fields(self.system)
        instead = " and ".join(f"--{name}" for name in own)
        for name in given(context, size_options()):
            if name not in own:
                raise UserError(f"--{name}: {self.system} does not know it; it starts {instead}")

    def _layout(self) -> SystemLayout:
        system = SYSTEMS[self.system]
        said = {
            name: tuple(value) if isinstance(value, list) else value
            for name in _fields(self.system)
            if (value := self.sizes[name]) is not None
        }
        try:
            layout = msgspec.convert(said, system.size).layout()
        except ValueError as error:
            raise UserError(str(error)) from error
        return layout._replace(parameters=self._parameters(layout.parameters))

    def _parameters(self, given: msgspec.Struct | None) -> msgspec.Struct | None:
        """The system's, as they are set; a key may begin with the system's name."""
        if not self.settings:
            return given
        target = SYSTEMS[self.system].parameters
        data = {} if given is None else msgspec.to_builtins(given)
        settings = [each.removeprefix(f"{self.system}.") for each in self.settings]
        try:
            overridden = typed_toml.override(data, settings, target)
            return typed_toml.convert(data, target, self.system, overridden, pages={"": PAGE})
        except TomlError as error:
            raise UserError(str(error)) from error

    def network(self) -> NetworkFile:
        """The network; UserError says why there cannot be one."""
        from shoal.runtime.supervisor import local_network

        host, port, websockets = self.host, self.port, self.websockets
        if self.scenario is not None:
            return self._of_scenario(self.scenario)
        try:
            return local_network(
                self.system, self._layout(), host=host, port=port, websockets=websockets
            )
        except TopologyError as error:
            raise UserError(str(error)) from error

    def _of_scenario(self, path: Path) -> NetworkFile:
        from shoal.experiments.live.networks import scenario_network
        from shoal.experiments.run_files import read_workload
        from shoal.experiments.scenarios.scenario import changed_tables, load_scenario
        from shoal.experiments.scenarios.sections import ScenarioError

        try:
            scenario = load_scenario(path, self.settings or ())
            workload = read_workload(Path(scenario.workload.path))
            if len(workload.brokers) > MAX_BROKERS:
                raise UserError(
                    f"brokers of the scenario: {len(workload.brokers)}: use 1 to {MAX_BROKERS}"
                )
            _check_port(self.port, len(workload.brokers))
            if tables := changed_tables(scenario):
                named = ", ".join(f"[{each}]" for each in tables)
                print(
                    f"shoal up: {path}: no effect on a live network: {named}; "
                    f"`shoal simulate` applies them",
                    file=sys.stderr,
                )
            return scenario_network(
                scenario, workload, host=self.host, port=self.port, websockets=self.websockets
            )
        except (ScenarioError, TopologyError) as error:
            raise UserError(f"{path}: {error}") from error
        except ValueError as error:
            raise UserError(str(error)) from error


def _fields(system: str) -> tuple[str, ...]:
    size: type[SystemSize] = SYSTEMS[system].size
    return size.__struct_fields__


def _check_port(port: int, front_ends: int) -> None:
    if not 0 <= port <= 65_535 - front_ends:
        raise UserError(f"--port {port}: is not a port that leaves room for {front_ends} brokers")


def _check_said_once(context: typer.Context) -> None:
    """UserError for an option that repeats a key of the scenario."""
    for name in given(context, ("system", *size_options())):
        raise UserError(f"--{name}: the scenario says that; change it by --set KEY=VALUE")
