"""Mutual TLS between brokers: certificates of the network are accepted, all others refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from shoal.broker.links.controls import CONTROLS, Hello, Purpose, RefuseConnection
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.messages import Message, Ping, Pong
from shoal.broker.wire import Codec, FrameReader
from shoal.clients.forwarding_channel import ForwardingChannelEvent
from shoal.model import MessageId
from shoal.runtime.network_sections import TlsSection
from shoal.runtime.tls.contexts import TlsContexts, TlsError, certified_names, load_contexts
from tests.runtime.live import PATIENCE_S, live, on_loop, received, until

LINK = (("B1", "B2"),)


class Authority:
    """Certificates of one network, as files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.section = TlsSection(
            authority=str(folder / "ca.pem"),
            certificate=str(folder / "{broker}.pem"),
            key=str(folder / "{broker}.key"),
        )

    def issue(self, broker: str) -> None:
        issued = self._authority.issue_cert(common_name=broker)
        issued.private_key_pem.write_to_path(str(self._folder / f"{broker}.key"))
        for part, pem in enumerate(issued.cert_chain_pems):
            pem.write_to_path(str(self._folder / f"{broker}.pem"), append=part > 0)

    def contexts(self, broker: str) -> TlsContexts:
        self.issue(broker)
        return load_contexts(self.section, broker)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@on_loop
async def test_brokers_with_certificates_are_linked(authority: Authority) -> None:
    async with live(LINK, tls=authority.contexts) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B2")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await until(lambda: len(network.nodes["B1"].machine.strategy.tables.subscriptions) == 1)
        for number in range(50):
            await publisher.publish({"x": number, "text": "y" * 10_000})
        assert await received(subscriber, 50) == list(range(50))


async def answer(
    address: tuple[str, int],
    context: ssl.SSLContext | None,
    name: str,
    purpose: Purpose = Purpose.LINK,
) -> RefuseConnection | Hello | None:
    """The answer to a broker that claims to be `name`; None if there is none."""
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=context)
        writer.write(
            Codec(CONTROLS).encode(Hello(PROTOCOL, "test", name, (1, 1), None, 0, purpose))
        )
        async with asyncio.timeout(PATIENCE_S):
            data = await reader.read(10_000)
    except (ssl.SSLError, OSError):
        return None
    writer.close()
    bodies = list(FrameReader().feed(data)) if data[:1] == b"\0" else []
    found: RefuseConnection | Hello | None = Codec(CONTROLS).decode(bodies[0]) if bodies else None
    return found


@on_loop
async def test_other_certificates_are_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "theirs")
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE
    foreign = stranger.contexts("B1").outgoing
    foreign.verify_mode = ssl.CERT_NONE
    async with live(LINK, tls=authority.contexts) as network:
        address = network.addresses["B2"]
        for context in (None, nobody, foreign):
            assert await answer(address, context, "B1") is None
        other = authority.contexts("B3").outgoing
        refusal = await answer(address, other, "B1")
        assert refusal == RefuseConnection("the certificate is not made out to 'B1'")
        refusal = await answer(address, other, "B3")
        assert refusal == RefuseConnection("B2 has no link to broker 'B3'")
        refusal = await answer(address, other, "B1", Purpose.FORWARDING_CHANNEL)
        assert refusal == RefuseConnection("the certificate is not made out to 'B1'")
        assert not network.links["B1"].away
        assert network.links["B2"].status()[0]["connections"] == 1


def refusals(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (row.__dict__["peer"].rpartition(":")[0], row.__dict__["reason"])
        for row in caplog.records
        if row.getMessage() == "peer connection refused"
    ]


@on_loop
async def test_failed_handshakes_are_in_the_listeners_log(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in a while, however often it retries."""
    caplog.clear()  # another loop's
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE
    theirs = Authority(tmp_path / "theirs").contexts("B1").outgoing
    theirs.verify_mode = ssl.CERT_NONE
    shy = Authority(tmp_path / "others").contexts("B1").outgoing  # does not trust our authority
    async with live(LINK, tls=authority.contexts) as network:
        for context, words in (
            (None, "TLS: the other end does not speak TLS"),
            (nobody, "TLS: the other end shows no certificate"),
            (theirs, "TLS: the other end's certificate is not trusted: "),
            (shy, "TLS: the other end hangs up in the handshake; it may not trust"),
        ):
            for _ in range(3):
                await answer(network.addresses["B2"], context, "B1")
            await until(lambda: any(why.startswith(words) for _, why in refusals(caplog)))  # noqa: B023
    assert [host for host, _ in refusals(caplog)] == ["127.0.0.1"] * 4


class Client:
    """A client at B1 with a forwarding channel to another broker."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, Message]] = []

    def noticed(self, broker: str, client: str, message: Message) -> None:
        self.heard.append((broker, client, message))

    def happened(self, event: ForwardingChannelEvent) -> None: ...

    def found(self, broker: str) -> None: ...

    def filled(self, broker: str, full: bool) -> None: ...

    def uses(self, broker: str) -> bool:
        return True


@on_loop
async def test_forwarding_channels_use_certificates(authority: Authority) -> None:
    async with live(LINK, tls=authority.contexts) as network:
        owner = network.forwarding_channels["B1"].owner = Client()
        session = MessageId("B2", "P", 0)
        network.forwarding_channels["B1"].ask("B2", "P", Ping(session))
        await until(lambda: owner.heard == [("B2", "P", Pong(session))])


def break_file(authority: Authority, key: str, change: Callable[[Path], object]) -> TlsSection:
    authority.issue("B1")
    change(Path(getattr(authority.section, key).format(broker="B1")))
    return authority.section


@pytest.mark.parametrize("key", ["authority", "certificate", "key"])
def test_a_missing_file_is_named(authority: Authority, key: str) -> None:
    section = break_file(authority, key, Path.unlink)
    with pytest.raises(TlsError, match=rf"tls.{key}: no file .*(ca.pem|B1.pem|B1.key)"):
        load_contexts(section, "B1")


@pytest.mark.parametrize("key", ["authority", "certificate", "key"])
def test_a_file_that_is_no_certificate_is_named(authority: Authority, key: str) -> None:
    section = break_file(authority, key, lambda path: path.write_text("nothing"))
    with pytest.raises(TlsError, match=rf"tls.{'authority' if key == 'authority' else 'cert'}"):
        load_contexts(section, "B1")


def test_names_of_a_certificate_are_read() -> None:
    certificate = {
        "subject": ((("organizationName", "us"),), (("commonName", "B1"),)),
        "subjectAltName": (("DNS", "broker-1"), ("IP Address", "10.0.0.1")),
    }
    assert certified_names(certificate) == {"B1", "broker-1"}
    assert certified_names(None) == certified_names({}) == set()
