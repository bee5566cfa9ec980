"""`shoal plan`: which overlay suits some brokers, by round trips and rates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError


def plan(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Of which system: octopia.")],
    rtt: Annotated[
        Path,
        typer.Option(help="Round trips between brokers, or sites, as CSV: from,to,ms."),
    ],
    rates: Annotated[
        Path | None,
        typer.Option(
            help="Publications a second from publishers' brokers to subscribers', as CSV: "
            "from,to,per_second; without, all alike."
        ),
    ] = None,
    sites: Annotated[
        Path | None, typer.Option(help="Where brokers stand, as CSV: broker,site.")
    ] = None,
    survive: Annotated[
        int, typer.Option(min=0, help="So many brokers may die anywhere without harm to others.")
    ] = 1,
    apart: Annotated[
        bool, typer.Option("--apart", help="All brokers of one site may die, too.")
    ] = False,
    most_links: Annotated[int, typer.Option(min=1, help="So many links a broker may have.")] = 8,
    hop_ms: Annotated[
        float, typer.Option(min=0, help="What a link takes beside half its round trip.")
    ] = 1.0,
) -> None:
    """Print the section of a network file that places brokers best: who sits where, and which tree.

    Best is the least mean delay of a delivery over shortest ways, nothing congested.  Comments say
    what was compared.
    """
    import msgspec

    from shoal.cli.support.surveys import read_survey
    from shoal.overlays.planning import PlanError, Wishes
    from shoal.overlays.registry import SYSTEMS

    planned = [name for name, each in SYSTEMS.items() if each.planner is not None]
    planner = SYSTEMS[system].planner if system in SYSTEMS else None
    if planner is None:
        raise UserError(f"{system}: there is no planner; there is one for {', '.join(planned)}")
    if apart and sites is None:
        raise UserError("--apart: where brokers stand is not known; add --sites")
    survey = read_survey(rtt, rates, sites)
    try:
        found = planner(survey, Wishes(survive, apart, most_links, hop_ms))
    except PlanError as error:
        raise UserError(f"no overlay: {error}") from error
    print(f"# a delivery takes {found.mean_ms:.2f} ms on average, when nothing is congested; of")
    for reason in found.reasons:
        print(f"#   {reason}")
    given = msgspec.to_builtins(found.parameters)
    defaults = msgspec.to_builtins(type(found.parameters)())
    print(f"[{system}]")
    for key, value in given.items():
        if value != defaults[key]:
            print(_toml(key, value))


def _toml(key: str, value: object) -> str:
    """One key; rows of names stand each in a line."""
    import msgspec

    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
        rows = "".join(f"  {msgspec.json.encode(row).decode()},\n" for row in value)
        return f"{key} = [\n{rows}]"
    return msgspec.toml.encode({key: value}).decode().rstrip()
