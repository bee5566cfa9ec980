"""Failed TLS handshakes of clients: an audit line and a count for each, with the reason."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from shoal.client import Client, Tls
from shoal.runtime.addresses import Address
from shoal.runtime.network_file import NetworkFile, parse_network
from shoal.runtime.operations import http_server
from shoal.runtime.operations.metrics import render
from shoal.runtime.tls.listener import hung_up
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.one_service import network, running

CONNECT = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00"


def over_tls(folder: Path, authority: trustme.CA, *, certified: bool) -> NetworkFile:
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(folder / "broker.pem")
    issued.private_key_pem.write_to_path(folder / "broker.key")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    tls = {"certificate": str(folder / "broker.pem"), "key": str(folder / "broker.key")}
    if certified:
        tls["authority"] = str(folder / "ca.pem")
    data = msgspec.to_builtins(network()) | {"client_tls": tls}
    del data["parameters"], data["tls"]
    data["brokers"][0]["mqtts"] = data["brokers"][0]["wss"] = "127.0.0.1:0"
    return parse_network(data)


def rows(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(row) for row in caplog.records if row.getMessage() == "connect refused"]


async def send_bytes(address: Address, data: bytes, context: ssl.SSLContext | None = None) -> None:
    """Connect, send this, and read until the other end closes."""
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=context)
        writer.write(data)
        writer.write_eof() if context is None else None
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        writer.close()
    except OSError:
        pass


@on_loop
async def test_distrust_and_plain_connections_are_in_the_audit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority, other = trustme.CA(), ssl.create_default_context()
    trustme.CA().configure_trust(other)
    async with running(over_tls(tmp_path, authority, certified=False), "B1") as (service,):
        for number, key in enumerate(("mqtts", "wss")):
            address = service.listening[key]
            await send_bytes(address, b"")  # a load balancer's check of the port
            await send_bytes(address, CONNECT)
            await until(lambda: len(rows(caplog)) == 2 * number + 1)  # noqa: B023
            await send_bytes(address, CONNECT, other)
            await until(lambda: len(rows(caplog)) == 2 * number + 2)  # noqa: B023
            plain, untrusting = rows(caplog)[-2:]
            assert plain["why"] == "TLS: the client does not speak TLS"
            # asyncio does not send the alert for it.
            assert untrusting["why"] == hung_up()
            for row in (plain, untrusting):
                assert (row["where"], row["client"], row["user"]) == (key, "", "")
                assert row["address"].startswith("127.0.0.1:")
        count = 'shoal_refusals_total{reason="no tls",what="connect refused"} 4.0'
        assert count in render(service.status).decode()
        trusted = Tls(authority=str(tmp_path / "ca.pem"))
        async with (
            asyncio.timeout(PATIENCE_S),
            Client(f"mqtts://{service.listening['mqtts']}", "c", tls=trusted) as client,
        ):
            await client.publish("a", b"x" * 100_000)
        assert len(rows(caplog)) == 4


@on_loop
async def test_missing_and_foreign_certificates_are_in_the_audit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    async with running(over_tls(tmp_path, authority, certified=True), "B1") as (service,):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        await send_bytes(service.listening["mqtts"], CONNECT, context)
        await until(lambda: len(rows(caplog)) == 1)
        stranger.issue_cert(common_name="eve").configure_cert(context)
        await send_bytes(service.listening["mqtts"], CONNECT, context)
        await until(lambda: len(rows(caplog)) == 2)
        first, second = (row["why"] for row in rows(caplog))
        assert first == "TLS: the client shows no certificate"
        assert second.startswith("TLS: the client's certificate is not trusted: ")


@on_loop
async def test_an_incomplete_handshake_is_closed_at_the_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of clients and of operators: each is an open file."""
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)
    settings = over_tls(tmp_path, trustme.CA(), certified=False)
    limits = msgspec.structs.replace(settings.limits, connect_timeout_s=1)
    tls = settings.client_tls
    operators = msgspec.structs.replace(settings.admin, certificate=tls.certificate, key=tls.key)
    settings = msgspec.structs.replace(settings, limits=limits, admin=operators)
    async with running(settings, "B1") as (service,), asyncio.timeout(PATIENCE_S):
        halves = []
        for key in ("mqtts", "wss", "admin"):
            for said in (b"", b"\x16\x03\x01\x02\x00\x01\x00"):
                reader, writer = await asyncio.open_connection(*service.listening[key])
                writer.write(said)
                halves.append((reader, writer))
        for reader, writer in halves:
            assert await reader.read() == b""
            writer.close()
        await until(lambda: len(rows(caplog)) == 4)
        assert {row["why"] for row in rows(caplog)} == {"TLS: the handshake takes over 1 s"}


@on_loop
async def test_an_incomplete_handshake_does_not_delay_the_brokers_end(tmp_path: Path) -> None:
    """A broker that stops closes it, and listens no longer."""
    async with running(over_tls(tmp_path, trustme.CA(), certified=False), "B1") as (service,):
        address = service.listening["mqtts"]
        reader, writer = await asyncio.open_connection(*address)
        await asyncio.sleep(0)
        await service.stop()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
