"""Runs a console: its port, and its connections to the brokers, until it is told to stop."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from shoal.console.access import ConsoleAccess
from shoal.console.server import STATIC, Console, console_app
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.binding import bind
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import Caller
from shoal.runtime.operations.http_server import HttpServer

DEFAULT_ADDRESS = "127.0.0.1:24610"
NOT_BUILT = (
    "the console's pages are not built: install Node.js (18 or newer) with npm, then run "
    "`make console` in the checkout; the wheel has them"
)


def is_built() -> bool:
    """Whether the pages are there; a checkout builds them, a wheel has them."""
    return (STATIC / "main.js").is_file()


def default_address() -> Address:
    """The address of a console that nobody gave one; any free port if that is taken."""
    where = read_address(DEFAULT_ADDRESS)
    try:
        bind(where).close()
    except OSError:
        return Address(where.host, 0)
    return where


@asynccontextmanager
async def running_console(
    network: NetworkFile,
    caller: Caller,
    where: Address,
    *,
    allows_orders: bool = False,
    token: str = "",
    names: Collection[str] = (),
) -> AsyncIterator[str]:
    """Serve the console at an address meanwhile; gives the URL of its page, with the token.

    `names` are host names beside addresses and localhost, under which browsers reach it. OSError if
    it cannot listen there.
    """
    bound = bind(where)
    hosts = frozenset(each.lower() for each in (*names, where.host))
    access = ConsoleAccess(token or secrets.token_urlsafe(24), bound.address.port, hosts)
    console = Console(network, caller, access, allows_orders=allows_orders)
    server = HttpServer(console_app(console), lambda *_, **__: None)
    async with console.running():
        address = await server.start(bound)
        try:
            yield f"http://{address}/?token={access.token}"
        finally:
            await server.stop()
