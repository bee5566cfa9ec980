"""The network that `shoal up` starts: of so many brokers, or what a scenario describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.matching.segments import Dimension
    from shoal.runtime.network_file import Network

MAX_BROKERS = 200
# What says how large a network is, without a scenario: of a tree, and of a cluster.
OF_TREES = ("brokers",)
OF_CLUSTERS = ("dispatchers", "matchers", "dimensions")


class NetworkOptions(NamedTuple):
    """What the command line says about the network."""

    brokers: int
    port: int
    system: str
    dispatchers: int
    matchers: int
    dimensions: Sequence[str] | None
    host: str
    websockets: bool
    scenario: Path | None
    settings: Sequence[str] | None

    @property
    def _is_tree(self) -> bool:
        from shoal.overlays.registry import SYSTEMS

        return SYSTEMS[self.system].needs_tree

    def check(self, context: typer.Context) -> None:
        """UserError for values out of range, and options that do not go together."""
        from shoal.overlays.registry import SYSTEMS

        if self.system not in SYSTEMS:
            raise UserError(f"--system {self.system}: use one of {', '.join(SYSTEMS)}")
        _check_count("--brokers", self.brokers)
        _check_count("--dispatchers", self.dispatchers)
        _check_count("--matchers", self.matchers)
        if self.scenario is None:
            self._check_known(context)
            _check_port(self.port, self.brokers if self._is_tree else self.dispatchers)
            if self.settings:
                raise UserError("--set changes a scenario; name one by --scenario")
        else:
            _check_said_once(context)

    def _check_known(self, context: typer.Context) -> None:
        """UserError for an option that the system does not know."""
        foreign = OF_CLUSTERS if self._is_tree else OF_TREES
        instead = "--brokers" if self._is_tree else "--dispatchers and --matchers"
        for option in _given(context, foreign):
            raise UserError(f"{option}: {self.system} does not know it; it starts {instead}")

    def network(self) -> Network:
        """The network; UserError says why there cannot be one."""
        from shoal.runtime.supervisor import local_cluster, local_network

        host, port, websockets = self.host, self.port, self.websockets
        if self.scenario is not None:
            return self._of_scenario(self.scenario)
        if self._is_tree:
            return local_network(
                self.brokers, self.system, host=host, port=port, websockets=websockets
            )
        axes = tuple(_dimension(text) for text in self.dimensions or ("x=0:1000",))
        return local_cluster(
            self.dispatchers, self.matchers, axes, host=host, port=port, websockets=websockets
        )

    def _of_scenario(self, path: Path) -> Network:
        from shoal.experiments.live.networks import scenario_network
        from shoal.experiments.run_files import read_workload
        from shoal.experiments.scenario import load_scenario

        try:
            scenario = load_scenario(path, self.settings or ())
            workload = read_workload(Path(scenario.workload.path))
            _check_count("brokers of the scenario:", len(workload.brokers))
            _check_port(self.port, len(workload.brokers))
            return scenario_network(
                scenario, workload, host=self.host, port=self.port, websockets=self.websockets
            )
        except ValueError as error:
            raise UserError(str(error)) from error


def _check_count(option: str, count: int) -> None:
    if not 1 <= count <= MAX_BROKERS:
        raise UserError(f"{option} {count}: use 1 to {MAX_BROKERS}")


def _check_port(port: int, doors: int) -> None:
    if not 0 <= port <= 65_535 - doors:
        raise UserError(f"--port {port}: is not a port that leaves room for {doors} brokers")


def _check_said_once(context: typer.Context) -> None:
    """UserError for an option that says what the scenario says."""
    for option in _given(context, ("system", *OF_TREES, *OF_CLUSTERS)):
        raise UserError(f"{option}: the scenario says that; change it by --set KEY=VALUE")


def _given(context: typer.Context, names: Sequence[str]) -> Iterator[str]:
    """Those of the parameters that the command line has, as options."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield "--dimension" if name == "dimensions" else f"--{name}"


def _dimension(text: str) -> Dimension:
    from shoal.matching.segments import Dimension

    name, _, bounds = text.partition("=")
    low, _, high = bounds.partition(":")
    try:
        return Dimension(attribute=name, low=float(low), high=float(high))
    except ValueError as error:
        raise UserError(f"--dimension {text}: write NAME=LOW:HIGH, such as x=0:1000") from error
