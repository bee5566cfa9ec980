"""Admin ports over TLS and with operators: questions, orders, and contradicting settings."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import trustme

from shoal.cli import main as cli
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.free_ports import free_ports
from shoal.runtime.front_ends.entry.access import AccessError
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import NetworkFile, dump_network, parse_network, problems
from shoal.runtime.network_sections import AdminSection
from shoal.runtime.operations.caller import Caller, OrderRefusedError, make_caller
from shoal.runtime.supervisor import get_json, order
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import data_of, network, running

MARKS = ("ann", "kept"), ("prometheus", "scraped")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of brokers by an authority of the network, and operators."""
    folder = tmp_path_factory.mktemp("admin")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    for name in ("B1", "B2"):
        issued = authority.issue_cert(name)
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
    named = authority.issue_cert("carl").private_key_and_cert_chain_pem
    named.write_to_path(folder / "carl.pem")
    trustme.CA().issue_cert("ann").private_key_and_cert_chain_pem.write_to_path(folder / "eve.pem")
    (folder / "operators").write_text("\n".join(password_line(*each) for each in MARKS))
    return folder


def tables(files: Path, *, tls: bool = True, passwords: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tls:
        found["authority"] = str(files / "ca.pem")
        found |= {key: f"{files}/{{broker}}.{end}" for key, end in TLS}
    if passwords:
        found |= {"passwords": str(files / "operators"), "orders": ["ann"]}
    return found


TLS = ("certificate", "pem"), ("key", "key")


def guarded(files: Path, **options: bool) -> NetworkFile:
    return parse_network(data_of(network(2)) | {"admin": tables(files, **options)})


def caller(service: BrokerService, operator: str = "", password: str = "") -> Caller:
    return make_caller(service.network.admin, operator, password).to(service.node.id)


@on_loop
async def test_operators_ask_over_tls_with_credentials(files: Path) -> None:
    async with running(guarded(files), "B1") as (service,):
        admin = service.listening["admin"]
        status = await get_json(admin, "/status", caller(service, "prometheus", "scraped"))
        assert status["broker"] == "B1"
        # Health checks and load balancers have no password.
        assert await get_json(admin, "/health", caller(service)) == {"alive": True}
        assert (await get_json(admin, "/ready", caller(service)))["ready"] is False


@on_loop
async def test_an_unknown_operator_is_refused_and_logged(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shoal.audit")
    async with running(guarded(files), "B1") as (service,):
        admin = service.listening["admin"]
        for path in ("/status", "/metrics", "/subscriptions", "/why", "/survey"):
            with pytest.raises(OrderRefusedError, match="needs an operator's name"):
                await get_json(admin, path, caller(service))
        with pytest.raises(OrderRefusedError, match="name or password is wrong"):
            await get_json(admin, "/status", caller(service, "ann", "guessed"))
        why = await order(admin, "drain", caller(service, "prometheus", "scraped"))
        assert why == "prometheus may not order brokers (admin.orders)"
        assert await order(admin, "undrain", caller(service)) != ""
        assert not service.operator.is_draining
        why = await order(admin, "undrain", caller(service, "ann", "kept"))
        assert why == "it is not being drained"
        await until(lambda: any(each.message == "ordered" for each in caplog.records))
    told = [
        (each.message, each.__dict__["user"], each.__dict__["where"]) for each in caplog.records
    ]
    assert ("operator refused", "ann", "/status") in told
    assert ("operator refused", "prometheus", "/drain") in told
    assert ("ordered", "ann", "/undrain") in told
    assert "guessed" not in caplog.text
    refusals = service.front_end.clients.statistics.notices.refusals
    assert refusals["operator refused", "not authorized"] == 8


@on_loop
async def test_non_http_connections_are_in_the_audit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As an MQTT client with the wrong port sends it."""
    async with running(network(1), "B1") as (service,):
        admin = service.listening["admin"]
        reader, writer = await asyncio.open_connection(admin.host, admin.port)
        here = writer.get_extra_info("sockname")
        writer.write(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()
        await until(lambda: any(each.name == "shoal.audit" for each in caplog.records))
    (told,) = (each for each in caplog.records if each.name == "shoal.audit")
    assert told.message == "operator refused"
    assert told.__dict__["address"] == f"{here[0]}:{here[1]}"
    assert told.__dict__["why"] == "no HTTP came to the admin port"
    refusals = service.front_end.clients.statistics.notices.refusals
    assert refusals["operator refused", "malformed packet"] == 1


@on_loop
async def test_operators_have_certificates_instead_of_passwords(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shoal.audit")
    data = data_of(guarded(files))
    data["admin"] |= {"operator_authority": str(files / "ca.pem"), "orders": ["carl"]}
    certified = parse_network(data)
    async with running(certified, "B1") as (service,):
        admin = service.listening["admin"]
        carl = make_caller(certified.admin, certificate=str(files / "carl.pem")).to("B1")
        assert (await get_json(admin, "/status", carl))["broker"] == "B1"
        assert await order(admin, "undrain", carl) == "it is not being drained"
        # Others identify themselves by passwords, or need not.
        assert (await get_json(admin, "/status", caller(service, "ann", "kept")))["broker"] == "B1"
        assert "may not order" in await order(admin, "undrain", caller(service, "ann", "kept"))
        assert await get_json(admin, "/health", caller(service)) == {"alive": True}
        with pytest.raises(OrderRefusedError, match="needs an operator's name"):
            await get_json(admin, "/status", caller(service))
        eve = make_caller(certified.admin, certificate=str(files / "eve.pem")).to("B1")
        with pytest.raises(
            OrderRefusedError, match=r"hangs up on .*eve\.pem, which admin\.operator_authority"
        ):
            await get_json(admin, "/status", eve)
        await until(lambda: any(each.message == "ordered" for each in caplog.records))
    (told,) = (each.__dict__ for each in caplog.records if each.message == "ordered")
    assert (told["user"], told["where"]) == ("carl", "/undrain")
    del data["admin"]["passwords"]
    async with running(parse_network(data), "B1") as (service,):
        with pytest.raises(OrderRefusedError, match="name or password is wrong"):
            await get_json(service.listening["admin"], "/status", caller(service, "ann", "kept"))


@on_loop
async def test_contradicting_settings_are_errors(files: Path) -> None:
    async with running(guarded(files), "B1") as (service,):
        admin = service.listening["admin"]
        own = service.network.admin
        with pytest.raises(OrderRefusedError, match=r"it speaks TLS; set admin\.certificate"):
            await get_json(admin, "/status")
        with pytest.raises(OrderRefusedError, match=r"not trusted: .*mismatch.*B2"):
            await get_json(admin, "/status", make_caller(own).to("B2"))
        elsewhere = AdminSection(certificate="c", key="k", authority=str(files / "other.pem"))
        with pytest.raises(OrderRefusedError, match="not trusted: "):
            await get_json(admin, "/status", make_caller(elsewhere).to("B1"))
        # An authority that the system trusts has not signed it.
        with pytest.raises(OrderRefusedError, match="not trusted: "):
            await get_json(admin, "/status", make_caller(AdminSection(certificate="c", key="k")))
    async with running(guarded(files, tls=False), "B1") as (service,):
        with pytest.raises(OrderRefusedError, match="it does not speak TLS"):
            await get_json(service.listening["admin"], "/status", make_caller(own).to("B1"))


@on_loop
async def test_operators_and_certificates_are_reloaded(files: Path, tmp_path: Path) -> None:
    before = guarded(files)
    (tmp_path / "operators").write_text(password_line("bob", "new"))
    data = data_of(before)
    data["admin"] |= {"passwords": str(tmp_path / "operators"), "orders": []}
    after = parse_network(data)
    async with running(before, "B1") as (service,):
        admin, ann = service.listening["admin"], caller(service, "ann", "kept")
        await get_json(admin, "/status", ann)
        assert service.reload(after) == []
        with pytest.raises(OrderRefusedError):
            await get_json(admin, "/status", ann)
        bob = caller(service, "bob", "new")
        assert (await get_json(admin, "/status", bob))["broker"] == "B1"
        # An unreadable file changes nothing.
        (tmp_path / "operators").write_text("bob")
        with pytest.raises(AccessError, match=r"admin\.passwords: .*operators: line 1"):
            service.reload(after)
        assert (await get_json(admin, "/status", bob))["broker"] == "B1"
        # A change of TLS needs a restart.
        data["admin"] = tables(files, tls=False)
        assert service.reload(parse_network(data)) == ["admin"]


def test_faults_of_the_table_are_reported(files: Path) -> None:
    data = data_of(network(2))
    data["brokers"][0]["admin"] = "0.0.0.0:8081"

    def found(**admin: Any) -> list[str]:
        return problems(parse_network(data | {"admin": admin}))

    (open_to_all,) = found()
    assert open_to_all == (
        "brokers[0].admin: 0.0.0.0:8081 is open to other machines; set admin.certificate and "
        "admin.passwords, or admin.open = true"
    )
    assert found(**tables(files)) == []
    assert found(open=True) == []
    (plain,) = found(**tables(files, tls=False))
    assert "set admin.certificate, or" in plain
    assert "admin: give certificate and key, or neither" in found(
        open=True, certificate="a{broker}"
    )
    assert "admin.orders: no operator authenticates; set admin.passwords" in found(
        open=True, orders=["ann"]
    )
    assert "admin.operator_authority: is for ports over TLS; give certificate and key" in found(
        operator_authority=str(files / "ca.pem")
    )
    assert found(**tables(files, passwords=False), operator_authority=str(files / "ca.pem")) == []
    assert "admin.authority: signs no certificate; give certificate and key" in found(
        open=True, authority=str(files / "ca.pem")
    )


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(words))
    output = capsys.readouterr()
    return int(caught.value.code or 0), output.out + output.err


def test_commands_ask_as_operators_over_tls(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two brokers one has an untrusted certificate, which does not hide the other's answer."""
    monkeypatch.setenv("COLUMNS", "200")
    data = data_of(guarded(files))
    data["admin"] |= {"operator_authority": str(files / "ca.pem"), "orders": ["ann", "carl"]}
    for broker, port in zip(data["brokers"], free_ports("127.0.0.1", 2), strict=True):
        broker["admin"] = f"127.0.0.1:{port}"
    both = parse_network(data)
    path = tmp_path / "network.toml"
    # The caller need not have the brokers' files.
    text = dump_network(both).replace(f"{files}/operators", "elsewhere").replace("{broker}", "gone")
    path.write_text(text)
    odd = data_of(both)
    odd["admin"] |= {"certificate": str(files / "B1.pem"), "key": str(files / "B1.key")}

    def say(*words: str, who: str = "ann", password: str = "kept") -> tuple[int, str]:
        return run(capsys, *words, "--operator", who, "--operator-password", password)

    async def ask() -> None:
        async with running(both, "B1"), running(parse_network(odd), "B2"):
            code, said = await asyncio.to_thread(say, "status", str(path))
            assert code == 1
            assert "B2 does not say: its certificate is not trusted" in said
            assert "no answer" in said
            assert "ready" in said
            wrong = await asyncio.to_thread(say, "status", str(path), password="no")
            assert wrong[0] == 2
            assert "B1: the operator's name or password is wrong" in wrong[1]
            code, said = await asyncio.to_thread(run, capsys, "status", str(path))
            assert code == 2
            assert "B1: this broker needs an operator's name and password" in said
            carl = ("--operator-certificate", str(files / "carl.pem"))
            code, said = await asyncio.to_thread(run, capsys, "undrain", str(path), "B1", *carl)
            assert (code, "it is not being drained" in said) == (2, True)
            monkeypatch.setenv("SHOAL_OPERATOR", "prometheus")
            monkeypatch.setenv("SHOAL_OPERATOR_PASSWORD", "scraped")
            code, said = await asyncio.to_thread(run, capsys, "drain", str(path), "B1")
            assert (code, "prometheus may not order brokers" in said) == (2, True)
            code, said = await asyncio.to_thread(run, capsys, "drain", str(path), "B2")
            assert (code, "B2 does not say: its certificate is not trusted" in said) == (2, True)
            code, said = await asyncio.to_thread(run, capsys, "why", str(path), "c", "a")
            assert code == 1
            assert "no broker that answers (not B2) knows a client of that name" in said

    asyncio.run(ask())
