"""`shoal forget`: have a live network go on without a broker that is dead."""

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


def forget(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    broker: Annotated[str, typer.Argument(help="The broker that is dead.")],
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Declare a broker dead that does not answer and will not come back, or never ran.

    One of its neighbours takes its place, so that the brokers behind it are linked to the network
    again; no broker waits for it any more. Acknowledged publications that were on its disk only are
    lost. If it comes back, it joins again as a new broker.
    """
    from shoal.cli.support.live.forgetting import forget_broker
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    successor = asyncio.run(forget_broker(network, broker, caller))
    place = f"{successor} has its place" if successor else "no broker had a link to it"
    print(f"{broker} is forgotten; {place}")
