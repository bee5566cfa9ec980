"""What a system may bring to the command line: a plan, advice, tables of what its brokers did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from rich.table import Table

    from shoal.cli.support.live.statuses import Statuses
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller

# A table of what happened lately, without rows if nothing did.
Shows = Callable[["Statuses"], "Table"]
# The columns of a run's tables.
Columns = Mapping[str, Mapping[str, Sequence[Any]]]


class Measured(NamedTuple):
    """What `shoal plan` was given: files of round trips, rates and sites; as whom it asks."""

    rtt: Path | None
    rates: Path | None
    sites: Path | None
    operator: str
    password: str
    certificate: str


class Planning(NamedTuple):
    """How `shoal plan` plans for a system: the options it has beside, and what prints the plan.

    `plan` gets the system's name, what was measured and the options; UserError and PlanError say
    what is wrong.  `about` says in the command's help what is printed.
    """

    options: type[msgspec.Struct]
    plan: Callable[[str, Measured, Any], None]
    about: str


class Advising(NamedTuple):
    """Who says which links brokers recommend, as TOML.

    `of_network` for `shoal status --advise`, by all that brokers say; `of_run` after `shoal
    simulate`, by its parameters and tables, empty where nobody was to recommend any.
    """

    of_network: Callable[[Network, Statuses], str]
    of_run: Callable[[msgspec.Struct, Columns], str]


# Who stands where in a network, in lines (`shoal rearrange`).
Places = Callable[["Network", "Caller"], "list[str]"]
