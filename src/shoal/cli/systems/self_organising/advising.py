"""Recommended links as TOML: of running brokers, and of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from shoal.cli.support.errors import UserError
from shoal.cli.systems.kinds import Advising, Columns
from shoal.cli.systems.self_organising.proposals import proposals

if TYPE_CHECKING:
    from shoal.cli.support.live.statuses import Statuses
    from shoal.overlays.self_organising.parameters import SelfOrganisingParameters
    from shoal.runtime.network_file import NetworkFile


def _of_network(network: NetworkFile, statuses: Statuses) -> str:
    """Return advice from brokers' recent proposals; UserError where not all links are known."""
    from shoal.overlays.self_organising.deciding.advice import as_toml, recommend
    from shoal.overlays.self_organising.parameters import SelfOrganisingParameters
    from shoal.overlays.shapes import TopologyError, check_tree

    parameters = network.system_parameters or SelfOrganisingParameters()
    assert isinstance(parameters, SelfOrganisingParameters)
    links = {
        (min(name, link["neighbour"]), max(name, link["neighbour"]))
        for name, found in statuses.items()
        for link in (found or {}).get("links", ())
    }
    silent = [f"{name} {statuses.why_not(name)}" for name, each in statuses.items() if each is None]
    if silent:
        try:
            check_tree(sorted(statuses), sorted(links))
        except TopologyError:
            problem = f"{network.name}: not all links are known: {'; '.join(silent)}"
            raise UserError(problem) from None
    advice = recommend(links, proposals(statuses), parameters.renewed_us, parameters)
    return as_toml(advice, parameters.heuristic, [*_how_advised(parameters), *silent])


def _how_advised(parameters: SelfOrganisingParameters) -> Iterator[str]:
    """Yield notes for the operator."""
    from shoal.overlays.self_organising.parameters import Mode

    if parameters.frozen:
        yield "frozen = true: brokers propose no links"
    elif parameters.mode is Mode.EXCHANGE:
        yield 'mode = "exchange": brokers exchange links by themselves'
    else:
        interval = f"{parameters.interval_us / 1e6:g} s"
        yield f"by what brokers handled in the last {interval} or so (self_organising.interval_us)"


def _of_run(parameters: msgspec.Struct, tables: Columns) -> str:
    """Return advice from brokers' proposals in the run; or a note that they recommend none, if they
    could.
    """
    from shoal.overlays.self_organising.deciding.advice import NOTHING, as_toml, recommend
    from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
    from shoal.overlays.self_organising.records import ProposalRecord

    assert isinstance(parameters, SelfOrganisingParameters)
    if parameters.mode is not Mode.ADVICE:
        return ""
    columns = tables["proposals"]
    rows = [
        ProposalRecord(**dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]
    links = zip(tables["links"]["left"], tables["links"]["right"], strict=True)
    advice = recommend(links, rows, parameters.renewed_us, parameters)
    return as_toml(advice, parameters.heuristic) if advice.exchanges else NOTHING


ADVISING = Advising(_of_network, _of_run)
