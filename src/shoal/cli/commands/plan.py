"""`shoal plan`: overlays that suit some brokers, and better places on topic trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.support.declared_options import (
    check_bounds,
    declared_options,
    given,
    option_name,
    with_declared,
)
from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import Operator, OperatorCertificate, OperatorPassword
from shoal.cli.systems.kinds import MeasuredSystem
from shoal.cli.systems.registry import NOT_PLANNED, planning
from shoal.overlays.planning import PlanError

PLANNING = planning()
OPTIONS = declared_options({name: each.options for name, each in PLANNING.items()})


def _plan(
    context: typer.Context,
    *,
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM", help=f"Of which system: {', '.join(PLANNING)}.")
    ],
    rtt: Annotated[
        Path | None,
        typer.Option(
            help="Round trips between brokers, or sites, as CSV: from,to,ms. Topic trees need none."
        ),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(
            help="Publications a second, as CSV: from publishers' brokers to subscribers', "
            "from,to,per_second; of topic trees topic,per_second. Without, all alike, once."
        ),
    ] = None,
    sites: Annotated[
        Path | None, typer.Option(help="Sites of brokers, as CSV: broker,site.")
    ] = None,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
    said: dict[str, Any],
) -> None:
    if system not in PLANNING:
        why = f", as {NOT_PLANNED[system]}" if system in NOT_PLANNED else ""
        known = ", ".join(PLANNING)
        raise UserError(f"{system}: there is no planner{why}; there is one for {known}")
    planner = PLANNING[system]
    wanted = planner.options.__struct_fields__
    for name in given(context, OPTIONS):
        if name not in wanted:
            raise UserError(f"{option_name(name)} is not for {system}; see `shoal plan --help`")
    check_bounds(OPTIONS, said)
    chosen = {name: said[name] for name in wanted if said[name] is not None}
    measured = MeasuredSystem(rtt, rates, sites, operator, operator_password, operator_certificate)
    try:
        planner.plan(system, measured, planner.options(**chosen))
    except PlanError as error:
        raise UserError(f"no plan: {error}") from error


_SYSTEMS: dict[str, list[str]] = {}
for _name, _planner in PLANNING.items():
    _SYSTEMS.setdefault(_planner.about, []).append(f"`{_name}`")
_plan.__doc__ = "\n\n".join([
    "Print better places in an overlay.  No broker changes.",
    *(f"{', '.join(names)}: {about}" for about, names in _SYSTEMS.items()),
])  # fmt: skip
plan = with_declared(_plan, "said", OPTIONS)
