"""Redirected clients reach a listener of the same kind, as the same user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from shoal.client import Client, Tls
from shoal.mqtt.federation.moving import DRAINED
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.free_ports import free_ports
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import parse_network
from shoal.runtime.supervisor import order
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.one_service import data_of, network, running

SCHEMES = {"mqtt": "", "mqtts": "mqtts://", "websocket": "ws://", "wss": "wss://"}


@asynccontextmanager
async def both(
    folder: Path,
    *kinds: str,
    there: tuple[str, ...] = tuple(SCHEMES),
    is_anywhere: bool = False,
) -> AsyncIterator[tuple[Tls, list[BrokerService]]]:
    """Two brokers, B1 with these kinds of listeners and B2 with those `there`; users only.

    If B2 `is_anywhere`, it listens at all addresses of its machine, and names one for others.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(folder / "broker.pem")
    issued.private_key_pem.write_to_path(folder / "broker.key")
    (folder / "users").write_text(password_line("ann", "secret"))
    data: dict[str, Any] = data_of(network(2))
    for broker, mine in zip(data["brokers"], (kinds, there), strict=True):
        ports = free_ports("127.0.0.1", len(SCHEMES))
        where = {kind: f"127.0.0.1:{port}" for kind, port in zip(SCHEMES, ports, strict=True)}
        broker |= {kind: where[kind] if kind in mine else "" for kind in SCHEMES}
    if is_anywhere:
        ports = {kind: data["brokers"][1][kind].rpartition(":")[2] for kind in there}
        data["brokers"][1] |= {kind: f"0.0.0.0:{port}" for kind, port in ports.items()}
        data["brokers"][1]["public"] = {kind: f"localhost:{port}" for kind, port in ports.items()}
    data["client_tls"] = {
        "certificate": str(folder / "broker.pem"),
        "key": str(folder / "broker.key"),
    }
    data["access"] = {"passwords": str(folder / "users")}
    async with (
        asyncio.timeout(PATIENCE_S),
        running(parse_network(data), "B1", "B2") as services,
    ):
        await until(lambda: not any(each.missing() for each in services))
        yield Tls(authority=str(folder / "ca.pem")), services


def address(service: BrokerService, kind: str) -> str:
    return f"{SCHEMES[kind]}{service.listening[kind]}"


def client(at: str, tls: Tls, name: str) -> Client:
    return Client(at, name, tls=tls, username="ann", password="secret")


@pytest.mark.parametrize("kind", SCHEMES)
@on_loop
async def test_a_redirected_client_reaches_a_listener_of_its_kind(
    kind: str, tmp_path: Path
) -> None:
    async with (
        both(tmp_path, *SCHEMES) as (tls, (here, there)),
        client(address(here, kind), tls, "c") as moved,
        client(address(here, "mqtt"), tls, "p") as publisher,
        moved.subscribe("a", qos=1) as subscription,
    ):
        await publisher.publish("a", b"before")
        assert (await subscription.get()).payload == b"before"
        assert await order(here.listening["admin"], "move", client="c", broker="B2") == ""
        assert moved.address == address(there, kind)
        connection = there.front_end.clients.connection("c")
        assert connection is not None
        assert connection.credentials.listener == kind
        assert (connection.credentials.username, moved.redirections) == ("ann", 1)
        await publisher.publish("a", b"after")
        assert (await subscription.get()).payload == b"after"


@on_loop
async def test_a_client_is_redirected_to_a_public_address(tmp_path: Path) -> None:
    async with (
        both(tmp_path, "mqtt", there=("mqtt",), is_anywhere=True) as (tls, (here, there)),
        client(address(here, "mqtt"), tls, "c") as moved,
    ):
        port = there.listening["mqtt"].port
        assert address(there, "mqtt") == f"0.0.0.0:{port}"
        assert await order(here.listening["admin"], "move", client="c", broker="B2") == ""
        assert moved.address == f"localhost:{port}"


@on_loop
async def test_a_client_of_a_drained_broker_is_redirected_over_tls(tmp_path: Path) -> None:
    async with both(tmp_path, "mqtts") as (tls, (here, there)):
        assert await order(here.listening["admin"], "drain") == ""
        async with client(address(here, "mqtts"), tls, "c") as sent:
            assert sent.address == address(there, "mqtts")


@on_loop
async def test_a_client_stays_where_the_other_broker_has_no_such_listener(tmp_path: Path) -> None:
    async with (
        both(tmp_path, "mqtts", there=("mqtt", "wss")) as (tls, (here, _)),
        client(address(here, "mqtts"), tls, "c") as stays,
    ):
        admin = here.listening["admin"]
        problem = await order(admin, "move", client="c", broker="B2")
        assert problem == "c is connected by mqtts, and B2 has no such listener"
        # It reports this as long as it has clients that it cannot redirect.
        assert await order(admin, "drain") == ""
        moving = here.operator.status
        await until(lambda: moving()["problem"] == "no broker is known with a listener for mqtts")
        assert stays.address == address(here, "mqtts")
        assert DRAINED in "".join(here.missing())


@on_loop
async def test_a_leaving_broker_redirects_clients_over_tls(tmp_path: Path) -> None:
    async with (
        both(tmp_path, "mqtts") as (tls, (here, there)),
        client(address(here, "mqtts"), tls, "c") as moved,
        moved.subscribe("a", qos=1) as subscription,
    ):
        await subscription.granted()
        assert await order(here.listening["admin"], "leave") == ""
        await until(lambda: moved.address == address(there, "mqtts") and moved.is_connected)
        async with client(address(there, "mqtt"), tls, "p") as publisher:
            await publisher.publish("a", b"after")
            assert (await subscription.get()).payload == b"after"
