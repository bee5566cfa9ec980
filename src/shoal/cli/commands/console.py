"""`shoal console`: a web page for a whole running network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shoal.cli.support.console_pages import check_console
from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)

if TYPE_CHECKING:
    import asyncio


def console(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network to show.")
    ],
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="The address for browsers; port 0: any."),
    ] = "127.0.0.1:24610",
    orders: Annotated[
        bool,
        typer.Option(
            "--orders", help="Let pages give orders: drain, leave, forget, move, delete a session."
        ),
    ] = False,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name of the console, behind a proxy."),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="SHOAL_CONSOLE_TOKEN",
            help="The token that pages need; without it a new one for each start.",
        ),
    ] = "",
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Show a live network in a browser: what is wrong, what happens, and why.

    The address that is printed has a token; the console refuses requests without it. The pages look
    and change nothing, unless --orders is given. Payloads stay at the brokers.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.console.serving import running_console
    from shoal.runtime.addresses import read_address
    from shoal.runtime.serving import run_until_signal

    network = read_network(network_file, has_files=False)
    if not any(broker.admin for broker in network.brokers):
        raise UserError(f"{network_file}: no broker has an admin address; give it one (admin = …)")
    check_console()
    try:
        where = read_address(listen)
    except ValueError as error:
        raise UserError(f"--listen: {error}") from error
    caller = read_caller(network, operator, operator_password, operator_certificate)
    shown = Console()

    async def run(stop: asyncio.Event) -> None:
        async with running_console(
            network, caller, where, allows_orders=orders, token=token, names=names or ()
        ) as url:
            shown.print(f"console of {network.name}: {url}", soft_wrap=True, highlight=False)
            if not where.is_loopback:
                warning = "it speaks plain HTTP: put a proxy with TLS before it, and say --name"
                shown.print(warning, soft_wrap=True, highlight=False)
            shown.print("Ctrl-C stops it", soft_wrap=True)
            await stop.wait()

    try:
        run_until_signal(run)
    except OSError as error:
        raise UserError(f"--listen {listen}: {error.strerror or error}") from error
    print("stopped")
