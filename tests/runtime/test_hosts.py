"""DNS rebinding: a page with a host name that resolves to a broker's machine."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, Request

from shoal.runtime.addresses import Address
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import parse_network
from shoal.runtime.network_sections import AccessSection
from tests.runtime.live import on_loop
from tests.runtime.one_service import data_of, network, running

OWN = ["127.0.0.1:7003", "[::1]:7003", "localhost", "localhost.:7003", "B1.Example.org:9001", ""]
OTHERS = ["evil.example:7003", "127.0.0.1.evil.example", "localhost.evil.example", "[", "B1"]


def named(**admin: Any) -> Any:
    """A network whose broker has a name elsewhere."""
    data = data_of(network())
    data["brokers"][0]["public"] = {"websocket": "b1.example.org:9001"}
    return parse_network(data | ({"admin": admin} if admin else {}))


async def asked(address: Address, path: str, host: str, *, order: bool = False) -> int:
    """The status of the answer at an admin port."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    lines = [f"{'POST' if order else 'GET'} {path} HTTP/1.{int(bool(host))}", "Connection: close"]
    lines += [f"Host: {host}"] * bool(host) + ["X-Shoal: drain", "Content-Length: 0"] * order
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def connected(service: BrokerService, host: str) -> int:
    """The status of the answer to a page of that host that connects by WebSocket."""
    address = service.listening["websocket"]
    reader, writer = await asyncio.open_connection(address.host, address.port)
    protocol = WSConnection(ConnectionType.CLIENT)
    origin = [(b"Origin", f"http://{host}".encode())]
    request = Request(host=host, target="/mqtt", subprotocols=["mqtt"], extra_headers=origin)
    writer.write(protocol.send(request))
    protocol.receive_data(await reader.read(4_096))
    writer.close()
    answer = next(iter(protocol.events()))
    if isinstance(answer, AcceptConnection):
        return 101
    assert isinstance(answer, RejectConnection)
    return answer.status_code


@on_loop
async def test_pages_of_foreign_host_names_are_refused_at_an_admin_port() -> None:
    """It could read the clients' names, and have the broker leave its network."""
    async with running(named(), "B1") as (service,):
        admin = service.listening["admin"]
        for host in OWN:
            assert await asked(admin, "/status", host) == 200
        for host in OTHERS:
            for path in ("/status", "/clients", "/metrics"):
                assert await asked(admin, path, host) == 403
            assert await asked(admin, "/drain", host, order=True) == 403
            assert await asked(admin, "/health", host) == 200
        refusals = service.front_end.clients.statistics.notices.refusals
        assert refusals["operator refused", "not authorized"] == 4 * len(OTHERS)
        # The order is accepted, but a single broker has nowhere to redirect its clients.
        assert await asked(admin, "/drain", "localhost", order=True) == 409


@on_loop
async def test_a_protected_port_may_have_any_host_name() -> None:
    async with running(named(open=True), "B1") as (service,):
        assert await asked(service.listening["admin"], "/status", "evil.example") == 200


@on_loop
async def test_pages_of_foreign_host_names_are_no_anonymous_clients() -> None:
    async with running(named(), "B1") as (service,):
        for host in OWN[:-1]:
            assert await connected(service, host) == 101
        for host in ("evil.example:7003", "127.0.0.1.evil.example", "b1"):
            assert await connected(service, host) == 403
            assert service._allows("wss", f"http://{host}", host)  # its certificate names it
        named_pages = AccessSection(anonymous=True, origins=("http://evil.example",))
        service.network = msgspec.structs.replace(service.network, access=named_pages)
        assert await connected(service, "evil.example") == 101


@pytest.mark.parametrize("host", ["evil.example", "b1"])
@on_loop
async def test_pages_may_connect_where_clients_need_passwords(host: str) -> None:
    data = data_of(named()) | {"access": {"anonymous": False}}
    async with running(parse_network(data), "B1") as (service,):
        assert await connected(service, host) == 101
