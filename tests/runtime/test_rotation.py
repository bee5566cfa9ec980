"""An authority is replaced while brokers run: two are trusted at once, and in the end only one."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import trustme

from shoal.runtime.addresses import Address
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile, parse_network
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import data_of, network, running


class Folder:
    """Certificates of brokers and of clients, and the authorities that are trusted at present."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.old, self.new = trustme.CA(), trustme.CA()
        self.trust(self.old)

    def trust(self, *authorities: trustme.CA) -> None:
        text = b"".join(each.cert_pem.bytes() for each in authorities)
        (self.path / "ca.pem").write_bytes(text)

    def issue(self, authority: trustme.CA, name: str, file: str = "") -> Path:
        issued = authority.issue_cert("localhost", "127.0.0.1", common_name=name)
        path = self.path / f"{file or name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(path)
        return path

    def network(self, brokers: int) -> NetworkFile:
        both = {"certificate": str(self.path / "{broker}.pem")}
        both |= {"key": both["certificate"], "authority": str(self.path / "ca.pem")}
        data = data_of(network(brokers)) | {"tls": both, "client_tls": both}
        for section in data["brokers"]:
            section["mqtts"] = "127.0.0.1:0"
        return parse_network(data)

    def client(self, service: BrokerService, name: str, file: str) -> aiomqtt.Client:
        host, port = service.listening["mqtts"]
        return aiomqtt.Client(host, port, identifier=name, tls_context=self.context(file))

    def context(self, file: str) -> ssl.SSLContext:
        context = ssl.create_default_context()
        for authority in (self.old, self.new):
            authority.configure_trust(context)
        context.load_cert_chain(self.path / f"{file}.pem")
        return context


async def is_let_in(where: Address, context: ssl.SSLContext) -> bool:
    """Whether a listener waits for more after the handshake, and does not close."""
    context.check_hostname = False
    try:
        reader, writer = await asyncio.open_connection(*where, ssl=context)
        try:
            async with asyncio.timeout(0.3):
                await reader.read(1)
        finally:
            writer.close()
    except TimeoutError:
        return True
    except OSError:  # TLS's own errors are among them
        return False
    return False


def connected(service: BrokerService) -> set[Any]:
    return {connection.client_id for connection in service.front_end._sockets}


@on_loop
async def test_only_clients_of_a_removed_authority_are_closed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.issue(folder.old, "B1")
    folder.issue(folder.old, "ann", "ann-old")
    folder.issue(folder.new, "bob", "bob-new")
    has_closed = False
    # Leaving a connection that the broker has closed is an error.
    with suppress(aiomqtt.MqttError):
        async with (
            running(folder.network(1), "B1") as (service,),
            folder.client(service, "ann", "ann-old") as ann,
        ):
            front_end = service.listening["mqtts"]
            assert not await is_let_in(front_end, folder.context("bob-new"))
            service.reload(service.network)
            assert service.changed == []
            folder.trust(folder.old, folder.new)
            service.reload(service.network)
            authority = tmp_path / "ca.pem"
            assert service.changed == [
                f"another authority of links in {authority}",
                f"another authority of clients in {authority}",
            ]
            async with folder.client(service, "bob", "bob-new") as bob:
                # The broker's own certificate is the new authority's from here on.
                own = folder.issue(folder.new, "B1")
                service.reload(service.network)
                assert service.changed == [
                    f"another certificate of links in {own}",
                    f"another certificate of clients in {own}",
                ]
                await ann.publish("a", b"1", qos=1)
                assert connected(service) == {"ann", "bob"}
                folder.trust(folder.new)
                service.reload(service.network)
                await until(lambda: connected(service) == {"bob"})
                await bob.publish("a", b"1", qos=1)
                assert not await is_let_in(front_end, folder.context("ann-old"))
                assert await is_let_in(front_end, folder.context("bob-new"))
                has_closed = True
    assert has_closed


@on_loop
async def test_links_stay_up_and_old_certificates_are_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for name in ("B1", "B2"):
        folder.issue(folder.old, name)
    stolen = folder.issue(folder.old, "B2", "stolen")
    async with running(folder.network(2), "B1", "B2") as services:
        await until(lambda: not any(each.links.away for each in services))

        def reload() -> None:
            for service in services:
                service.reload(service.network)
                assert not service.links.away

        folder.trust(folder.old, folder.new)
        reload()
        for name, service in zip(("B1", "B2"), services, strict=True):
            folder.issue(folder.new, name)
            service.reload(service.network)
        folder.trust(folder.new)
        reload()
        assert [row["connections"] for each in services for row in each.links.status()] == [1, 1]
        # A new connection of a link uses the new authority.
        front_end = services[0].listening["peers"]
        assert not await is_let_in(front_end, folder.context(stolen.stem))
        assert await is_let_in(front_end, folder.context("B2"))
