"""Options of a command that others declare: structs, by the names of those that they belong to.

`shoal up` has options for each system's size, `shoal reproduce` those of each study, `shoal plan`
those of each planner. A field is an option; its `msgspec.Meta` describes it and says the least and
the greatest value, a tuple can be given several times.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer

from shoal.cli.support.errors import UserError


class DeclaredOption(NamedTuple):
    """One field of some owners' structs."""

    kind: Any
    meta: msgspec.Meta
    default: Any
    owners: Sequence[str]

    @property
    def is_repeatable(self) -> bool:
        return get_origin(self.kind) is tuple


def declared_options(structs: Mapping[str, type[msgspec.Struct]]) -> dict[str, DeclaredOption]:
    """Return the options by field; one name means one thing."""
    found: dict[str, DeclaredOption] = {}
    for owner, struct in structs.items():
        hints = get_type_hints(struct, include_extras=True)
        for field in msgspec.structs.fields(struct):
            kind, meta = get_args(hints[field.name])
            former = found.get(field.name)
            owners = [*(former.owners if former is not None else ()), owner]
            found[field.name] = DeclaredOption(kind, meta, field.default, owners)
    return found


def with_declared(
    command: Callable[..., None],
    place: str,
    options: Mapping[str, DeclaredOption],
    short: Mapping[str, str] | None = None,
) -> Callable[..., None]:
    """The command with these options in the place of one parameter, which gets their values.

    `short` has letters for some of them.
    """
    own = inspect.signature(command, eval_str=True)

    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in options}
        command(**{place: given}, **values)

    parameters: list[inspect.Parameter] = []
    for each in own.parameters.values():
        if each.name == place:
            letters = short or {}
            parameters += [_parameter(name, one, letters) for name, one in options.items()]
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return run


def _parameter(name: str, option: DeclaredOption, short: Mapping[str, str]) -> inspect.Parameter:
    whom = ", ".join(option.owners)
    letters = [short[name]] if name in short else []
    # Not `--name/--no-name`, as typer would have it.
    info = typer.Option(
        option_name(name),
        *letters,
        metavar=option.meta.title,
        help=f"{option.meta.description} ({whom})",
    )
    kind = list[str] | None if option.is_repeatable else option.kind
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if option.is_repeatable else option.default,
        annotation=Annotated[kind, info],
    )


def option_name(field: str) -> str:
    """
    >>> option_name("most_links")
    '--most-links'
    """
    return f"--{field.replace('_', '-')}"


def check_bounds(options: Mapping[str, DeclaredOption], values: Mapping[str, Any]) -> None:
    """UserError for a number that is below the least or above the greatest value."""
    for name, option in options.items():
        value, least, greatest = values[name], option.meta.ge, option.meta.le
        if not isinstance(value, (int, float)):
            continue
        # NaN is within no bounds.
        is_low = least is not None and not value >= least
        if is_low or (greatest is not None and not value <= greatest):
            use = f"{least} to {greatest}" if greatest is not None else f"{least} or more"
            raise UserError(f"{option_name(name)} {value}: use {use}")


def given(context: typer.Context, names: Iterable[str]) -> Iterator[str]:
    """Those of the parameters that the command line has."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name
