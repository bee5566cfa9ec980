"""`shoal serve`: run one broker of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.imports import uncollected

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile


def serve(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network, the same for all brokers.")
    ],
    broker: Annotated[str, typer.Option("--broker", "-b", help="The name of the broker to run.")],
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER[=HOST:PORT]",
            help="Join a running network as a new broker, linked to this one, which listens for "
            "brokers there, or where the file says; may be repeated.  The first member that "
            "answers takes the new broker in; those of the file are asked, too.",
        ),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=HOST:PORT",
            help="With --join, for a broker that the file does not list: its addresses, with the "
            "keys of a broker in it (peers, mqtt, admin, ...); may be repeated.",
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", help="debug, info, warning or error.")
    ] = "info",
) -> None:
    """Run one broker of a network until Ctrl-C or SIGTERM; it drains before it stops.

    At SIGHUP it reads the network file again: users, operators, rules, origins, limits and
    certificates hold at once, other changes are named in the log. Its log goes to standard error,
    one JSON object per line.

    A broker that has joined once keeps its links; --join is of no effect when it starts again.
    Until a member has admitted it, it asks every broker that it knows, again and again; `shoal
    status` and the log name each broker's reason.
    """
    with uncollected():
        from shoal.cli.support.live.networks import read_join, read_network, with_broker
        from shoal.log.errors import LogError
        from shoal.runtime.broker_service import BrokerService
        from shoal.runtime.front_ends.entry.access import AccessError
        from shoal.runtime.operations.logs import start_logging
        from shoal.runtime.serving import serve_broker
        from shoal.runtime.storage.journal_files import JournalError
        from shoal.runtime.tls.contexts import TlsError

    def read() -> NetworkFile:
        network = read_network(network_file)
        if join and network.no_joiners:
            raise UserError(f"--join: {network.no_joiners}")
        return with_broker(network, broker, join[0], listen) if join and listen else network

    network = read()
    if listen and not join:
        raise UserError("--listen is for a broker that joins a network; add --join")
    names = [each.name for each in network.brokers]
    if broker not in names:
        advice = "a new one needs --listen peers=HOST:PORT and others"
        if not join:
            advice = "one that has joined needs the --join and --listen of its first start"
        known = ", ".join(names)
        raise UserError(f"{network_file}: no broker {broker!r}; there are {known}; {advice}")
    joins = [read_join(network, each) for each in join or ()]
    if any(each.broker == broker for each in joins):
        raise UserError(f"--join: {broker} cannot join over itself; name a member that runs")
    if log_level not in ("debug", "info", "warning", "error"):
        raise UserError(f"--log-level {log_level}: use debug, info, warning or error")
    start_logging(broker, log_level)

    def read_again() -> NetworkFile:
        try:
            return read()
        except UserError as error:
            raise ValueError(str(error)) from None

    def started(service: BrokerService) -> None:
        for key, where in service.listening.items():
            print(f"{broker} {key} {where}", flush=True)

    try:
        serve_broker(network, broker, started, read_again, joins)
    except (AccessError, JournalError, LogError, OSError, TlsError) as error:
        raise UserError(f"{broker}: {error}") from error
