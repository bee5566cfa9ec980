"""The Python client over TLS and WebSocket and in 3.1.1; contradictions are errors at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from shoal.client import Client, ClientError, Tls, dialling
from shoal.client.endpoint import read_endpoint
from shoal.runtime.addresses import Address
from shoal.runtime.network_file import parse_network
from tests.runtime.live import PATIENCE_S, on_loop
from tests.runtime.one_service import network, running

ADDRESS = "127.0.0.1:0"


class Files:
    """Certificates of one authority, on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.authority = str(folder / "authority.pem")
        self._authority.cert_pem.write_to_path(self.authority)

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate and its key."""
        issued = self._authority.issue_cert(name)
        certificate, key = (str(self._folder / f"{name}.{end}") for end in ("pem", "key"))
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key


@asynccontextmanager
async def listening(
    files: Files, name: str = "127.0.0.1", **client_tls: str
) -> AsyncIterator[dict[str, Address]]:
    """One broker with every kind of listener; their addresses."""
    certificate, key = files.issue(name)
    data: dict[str, Any] = msgspec.to_builtins(network())
    data |= {"client_tls": {"certificate": certificate, "key": key, **client_tls}}
    data["brokers"][0].update(wss=ADDRESS, mqtts=ADDRESS)
    del data["parameters"], data["tls"]
    async with asyncio.timeout(PATIENCE_S), running(parse_network(data), "B1") as (service,):
        yield service.listening


WAYS = [("mqtt", "mqtt"), ("mqtts", "mqtts"), ("ws", "websocket"), ("wss", "wss")]


@on_loop
async def test_each_transport_connects_in_both_versions(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with listening(files) as where:
        tls = Tls(authority=files.authority)
        for scheme, key in WAYS:
            for version in ("5", "3.1.1"):
                address = f"{scheme}://{where[key]}"
                async with (
                    Client(address, tls=tls, version=version) as client,  # type: ignore[arg-type]
                    client.subscribe("a/+") as one,
                    client.subscribe("a/#", qos=2) as all_below,
                ):
                    payload = b"x" * 100_000
                    await client.publish("a/b", payload, qos=2)
                    for subscription in (one, all_below):
                        message = await subscription.get()
                        assert (message.topic, message.payload) == ("a/b", payload)


async def refusal(address: str, tls: Tls | None = None) -> str:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises(ClientError) as caught:
        async with Client(address, tls=tls):
            pass
    assert loop.time() - began_s < dialling.CONNECT_TIMEOUT_S
    return str(caught.value)


@on_loop
async def test_a_listener_of_another_kind_is_an_error_at_once(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = Tls(authority=files.authority)
    async with listening(files) as where:
        for scheme, key, words in (
            ("mqtt", "mqtts", "speaks TLS; use mqtts://"),
            ("mqtt", "wss", "speaks TLS; use mqtts://"),
            ("ws", "wss", "speaks TLS; use wss://"),
            ("mqtts", "mqtt", "use mqtt://"),
            ("wss", "websocket", "use ws://"),
            ("mqtt", "websocket", "use ws:// or wss://"),
            ("ws", "mqtt", "takes MQTT without WebSocket; use mqtt://"),
            ("wss", "mqtts", "takes MQTT without WebSocket; use mqtts://"),
        ):
            assert words in await refusal(f"{scheme}://{where[key]}", tls)


@on_loop
async def test_untrusted_certificates_are_errors(tmp_path: Path) -> None:
    files, own = Files(tmp_path), tmp_path / "other"
    own.mkdir()
    stranger = Files(own)
    async with listening(files, "broker.example.org", authority=files.authority) as where:
        address = f"mqtts://{where['mqtts']}"
        tls = Tls(authority=stranger.authority)
        assert "its certificate is not trusted" in await refusal(address, tls)
        tls = Tls(authority=files.authority)
        assert "127.0.0.1" in await refusal(address, tls)
        tls = Tls(authority=files.authority, server_name="broker.example.org")
        assert "may require a client certificate" in await refusal(address, tls)
        certificate, key = files.issue("dashboard")
        tls = msgspec.structs.replace(tls, certificate=certificate, key=key)
        async with Client(address, tls=tls) as client:
            await client.publish("a")


def test_invalid_addresses_and_files_are_errors() -> None:
    for text in ("a b", "mqtt://", "1:2:3", "host:70000", "host:x"):
        with pytest.raises(ValueError, match="is not host:port"):
            read_endpoint(text)
    with pytest.raises(ValueError, match=r"authority: no file nowhere\.pem"):
        Client("mqtts://localhost", tls=Tls(authority="nowhere.pem"))
    with pytest.raises(ValueError, match="give both or neither"):
        Client("mqtts://localhost", tls=Tls(certificate=__file__))
    with pytest.raises(ValueError, match=r"3\.1\.1 has no advertisements"):
        Client("localhost", version="3.1.1", advertise=["x > 0"])


@on_loop
async def test_options_without_a_3_1_1_form_are_errors(tmp_path: Path) -> None:
    async with (
        listening(Files(tmp_path)) as where,
        Client(str(where["mqtt"]), version="3.1.1") as client,
    ):
        with pytest.raises(ValueError, match="publish them as JSON"):
            await client.publish("a", attributes={"x": 1})
        with pytest.raises(ValueError, match="no filters on content"):
            client.subscribe("a", "x > 1")
        async with client.subscribe("a?x>1") as late:
            await client.publish("a", b'{"x": 1}')
            await client.publish("a", b'{"x": 2}')
            assert (await late.get()).payload == b'{"x": 2}'


@on_loop
async def test_a_broker_of_3_1_1_only_is_named() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"\x20\x02\x00\x01")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert "speaks MQTT 3.1.1 only" in await refusal(f"127.0.0.1:{port}")
