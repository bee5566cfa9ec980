"""The network that `shoal up` starts: of a size, or what a scenario describes.

What says how large a network is each system says itself (`System.size`), and the options of the
command are made of that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer

from shoal.cli.support.errors import UserError
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import MAX_BROKERS, Layout, Size

if TYPE_CHECKING:
    from shoal.runtime.network_file import Network

SHORT = {"brokers": "-n"}


class SizeOption(NamedTuple):
    """One field of some systems' sizes."""

    kind: type
    meta: msgspec.Meta
    default: Any
    systems: Sequence[str]

    @property
    def is_repeatable(self) -> bool:
        return get_origin(self.kind) is tuple


@cache
def size_options() -> dict[str, SizeOption]:
    """What there is to say of a network's size, by field; one name means one thing."""
    found: dict[str, SizeOption] = {}
    for name, system in SYSTEMS.items():
        hints = get_type_hints(system.size, include_extras=True)
        for field in msgspec.structs.fields(system.size):
            kind, meta = get_args(hints[field.name])
            former = found.get(field.name)
            systems = [*(former.systems if former is not None else ()), name]
            found[field.name] = SizeOption(kind, meta, field.default, systems)
    return found


def with_size_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each of `size_options` in the place of `sizes`."""
    options = size_options()
    own = inspect.signature(command, eval_str=True)

    def run(**values: Any) -> None:
        sizes = {name: values.pop(name) for name in options}
        command(sizes=sizes, **values)

    parameters: list[inspect.Parameter] = []
    for each in own.parameters.values():
        if each.name == "sizes":
            parameters += [_parameter(name, option) for name, option in options.items()]
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return run


def _parameter(name: str, option: SizeOption) -> inspect.Parameter:
    whom = ", ".join(option.systems)
    short = [SHORT[name]] if name in SHORT else []
    info = typer.Option(
        f"--{name}", *short, metavar=option.meta.title, help=f"{option.meta.description} ({whom})"
    )
    kind = list[str] | None if option.is_repeatable else option.kind
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if option.is_repeatable else option.default,
        annotation=Annotated[kind, info],
    )


class NetworkOptions(NamedTuple):
    """What the command line says about the network."""

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
        for name, option in size_options().items():
            if option.kind is int and not _is_within(self.sizes[name], option.meta):
                raise UserError(f"--{name} {self.sizes[name]}: use {_range(option.meta)}")
        if self.scenario is not None:
            _check_said_once(context)
            return
        self._check_known(context)
        _check_port(self.port, len(self._layout().doors))
        if self.settings:
            raise UserError("--set changes a scenario; name one by --scenario")

    def _check_known(self, context: typer.Context) -> None:
        """UserError for an option that the system does not know."""
        own = _fields(self.system)
        instead = " and ".join(f"--{name}" for name in own)
        for name in _given(context, size_options()):
            if name not in own:
                raise UserError(f"--{name}: {self.system} does not know it; it starts {instead}")

    def _layout(self) -> Layout:
        system = SYSTEMS[self.system]
        given = {
            name: tuple(value) if isinstance(value, list) else value
            for name in _fields(self.system)
            if (value := self.sizes[name]) is not None
        }
        try:
            return msgspec.convert(given, system.size).layout()
        except ValueError as error:
            raise UserError(str(error)) from error

    def network(self) -> Network:
        """The network; UserError says why there cannot be one."""
        from shoal.runtime.supervisor import local_network

        host, port, websockets = self.host, self.port, self.websockets
        if self.scenario is not None:
            return self._of_scenario(self.scenario)
        return local_network(
            self.system, self._layout(), host=host, port=port, websockets=websockets
        )

    def _of_scenario(self, path: Path) -> Network:
        from shoal.experiments.live.networks import scenario_network
        from shoal.experiments.run_files import read_workload
        from shoal.experiments.scenario import load_scenario

        try:
            scenario = load_scenario(path, self.settings or ())
            workload = read_workload(Path(scenario.workload.path))
            if len(workload.brokers) > MAX_BROKERS:
                raise UserError(
                    f"brokers of the scenario: {len(workload.brokers)}: use 1 to {MAX_BROKERS}"
                )
            _check_port(self.port, len(workload.brokers))
            return scenario_network(
                scenario, workload, host=self.host, port=self.port, websockets=self.websockets
            )
        except ValueError as error:
            raise UserError(str(error)) from error


def _fields(system: str) -> tuple[str, ...]:
    size: type[Size] = SYSTEMS[system].size
    return size.__struct_fields__


def _is_within(value: int, meta: msgspec.Meta) -> bool:
    assert meta.ge is not None
    assert meta.le is not None
    return meta.ge <= value <= meta.le


def _range(meta: msgspec.Meta) -> str:
    return f"{meta.ge} to {meta.le}"


def _check_port(port: int, doors: int) -> None:
    if not 0 <= port <= 65_535 - doors:
        raise UserError(f"--port {port}: is not a port that leaves room for {doors} brokers")


def _check_said_once(context: typer.Context) -> None:
    """UserError for an option that says what the scenario says."""
    for name in _given(context, ("system", *size_options())):
        raise UserError(f"--{name}: the scenario says that; change it by --set KEY=VALUE")


def _given(context: typer.Context, names: Iterable[str]) -> Iterator[str]:
    """Those of the parameters that the command line has."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name
