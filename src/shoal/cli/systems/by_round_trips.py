"""`shoal plan` of systems that are planned by round trips and rates: `System.planner`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.cli.support.errors import UserError
from shoal.cli.systems.kinds import MeasuredSystem, Planning
from shoal.overlays.planning import PlannedInterests
from shoal.overlays.registry import SYSTEMS


class OverlayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Constraints of an overlay."""

    survive: Annotated[
        int,
        msgspec.Meta(ge=0, description="So many brokers may die anywhere without harm to others."),
    ] = 1
    apart: Annotated[bool, msgspec.Meta(description="All brokers of one site may die, too.")] = (
        False
    )
    most_links: Annotated[
        int, msgspec.Meta(ge=1, description="So many links a broker may have.")
    ] = 8
    hop_ms: Annotated[
        float, msgspec.Meta(ge=0, description="Delay of a link beside half its round trip.")
    ] = 1.0


def _plan(system: str, measured: MeasuredSystem, options: OverlayOptions) -> None:
    """Print the section of a network file; comments list the alternatives."""
    from shoal.cli.support.surveys import read_survey

    planner, (rtt, rates, sites, *_) = SYSTEMS[system].planner, measured
    assert planner is not None
    if rtt is None:
        raise UserError(f"--rtt: {system} is planned by round trips; give a file of them")
    if options.apart and sites is None:
        raise UserError("--apart: the brokers' sites are not known; add --sites")
    survey = read_survey(rtt, rates, sites)
    found = planner(
        survey, PlannedInterests(options.survive, options.apart, options.most_links, options.hop_ms)
    )
    print(f"# a delivery takes {found.mean_ms:.2f} ms on average, when nothing is congested; of")
    for reason in found.reasons:
        print(f"#   {reason}")
    given_parameters = msgspec.to_builtins(found.parameters)
    defaults = msgspec.to_builtins(type(found.parameters)())
    print(f"[{system}]")
    for key, value in given_parameters.items():
        if value != defaults[key]:
            print(_toml(key, value))


def _toml(key: str, value: object) -> str:
    """One key; rows of names stand each in a line."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
        rows = "".join(f"  {msgspec.json.encode(row).decode()},\n" for row in value)
        return f"{key} = [\n{rows}]"
    return msgspec.toml.encode({key: value}).decode().rstrip()


PLANNING = Planning(
    OverlayOptions,
    _plan,
    "print the section of a network file with the best places of brokers and the best tree.  "
    "Best is the least mean delay of a delivery over shortest ways, nothing congested.  "
    "Comments list the alternatives.",
)
