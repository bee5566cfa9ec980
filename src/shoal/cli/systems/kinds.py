"""Parts of a system on the command line: a plan, advice, tables of its brokers' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from rich.table import Table

    from shoal.cli.support.live.statuses import Statuses
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# Returns a table of recent events, empty if there are none.
Shows = Callable[["Statuses"], "Table"]
# The columns of a run's tables.
Columns = Mapping[str, Mapping[str, Sequence[Any]]]


class MeasuredSystem(NamedTuple):
    """Input of `shoal plan`: files of round trips, rates and sites; credentials for queries."""

    rtt: Path | None
    rates: Path | None
    sites: Path | None
    operator: str
    password: str
    certificate: str


class Planning(NamedTuple):
    """Planning for a system: its additional options, and the function that prints the plan.

    `plan` gets the system's name, the measured data and the options; UserError and PlanError name
    the fault. `about` describes the output in the command's help.
    """

    options: type[msgspec.Struct]
    plan: Callable[[str, MeasuredSystem, Any], None]
    about: str


class Advising(NamedTuple):
    """Prints the links that brokers recommend, as TOML.

    `of_network` for `shoal status --advise`, from all brokers' statuses; `of_run` after `shoal
    simulate`, by its parameters and tables, empty if no broker recommends links.
    """

    of_network: Callable[[NetworkFile, Statuses], str]
    of_run: Callable[[msgspec.Struct, Columns], str]


# Returns the places of a network's brokers, in lines (`shoal rearrange`).
Places = Callable[["NetworkFile", "Caller"], "list[str]"]
