"""`shoal undrain`: let a live broker take clients in again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.orders import give_order

_INSTEAD = "it takes clients in as soon as it is started again"


def undrain(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    broker: Annotated[str, typer.Argument(help="The broker's name.")],
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Let a drained broker take clients in again; those that have gone stay where they are."""
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    asyncio.run(give_order(network, caller, broker, "undrain", _INSTEAD))
    print(f"{broker} takes clients in")
