"""Users, rules, limits and certificates are reloaded while a broker runs."""

from __future__ import annotations

import signal
import ssl
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
import trustme

from shoal.client import Client, ClientError
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.front_ends.entry.access import AccessError
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import parse_network
from shoal.runtime.tls.contexts import TlsError
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.one_service import data_of, network, running
from tests.runtime.processes import Processes


def with_users(path: Path, *users: str, **access: Any) -> dict[str, Any]:
    lines = [password_line(user, f"{user}'s") for user in users]
    path.write_text("\n".join(lines), encoding="utf-8")
    return {"access": {"passwords": str(path)} | access}


@on_loop
async def test_users_and_rules_are_reloaded_and_clients_with_fewer_rights_closed(
    tmp_path: Path,
) -> None:
    rules = [{"user": user, "publish": ["#"]} for user in ("ann", "bob", "cat")]
    users = tmp_path / "users"
    before = network(**with_users(users, "ann", "bob", "cat", rules=rules))
    async with running(before, "B1") as (service,):
        host, port = service.listening["mqtt"]
        as_user = {
            name: aiomqtt.Client(host, port, identifier=name, username=name, password=f"{name}'s")
            for name in ("ann", "bob", "cat", "dan")
        }
        front_end = service.front_end

        def connected() -> set[str | None]:
            return {connection.client_id for connection in front_end._sockets}

        async with as_user["ann"]:
            gone = [as_user[name] for name in ("bob", "cat")]
            for client in gone:
                await client.__aenter__()
            # Bob may do less, and Cat is no user any longer; Dan is new.
            rules[1]["publish"] = ["b/#"]
            lines = users.read_text(encoding="utf-8").splitlines()
            users.write_text(
                "\n".join([*lines[:2], password_line("dan", "dan's")]), encoding="utf-8"
            )
            access = {"passwords": str(users), "rules": rules}
            after = parse_network(data_of(before) | {"access": access})
            assert service.reload(after) == []
            assert service.changed == [
                "user cat removed",
                "user dan added",
                "rules of bob: no more publish #; publish b/#",
            ]
            await until(lambda: connected() == {"ann"})
            for client in gone:
                with pytest.raises(aiomqtt.MqttError):
                    await anext(client.messages)
                with suppress(aiomqtt.MqttError):
                    await client.__aexit__(None, None, None)
            async with as_user["dan"]:
                assert connected() == {"ann", "dan"}


@on_loop
async def test_only_clients_that_lost_a_right_are_closed(tmp_path: Path) -> None:
    """Rules that grow, are reordered, and shrink, under plain clients."""
    names = ("ann", "bob", "cat")
    rules = [{"user": name, "publish": [f"{name}/#"], "subscribe": ["all/#"]} for name in names]
    before = network(**with_users(tmp_path / "users", *names, rules=rules))
    users = str(tmp_path / "users")
    async with running(before, "B1") as (service,):
        host, port = service.listening["mqtt"]

        def reload(rules: list[dict[str, Any]]) -> None:
            access = {"access": {"passwords": users, "rules": rules}}
            assert service.reload(parse_network(data_of(before) | access)) == []

        def connected() -> set[str | None]:
            return {connection.client_id for connection in service.front_end._sockets}

        async with AsyncExitStack() as stack:
            ann, bob, cat = [
                await stack.enter_async_context(
                    aiomqtt.Client(host, port, identifier=each, username=each, password=f"{each}'s")
                )
                for each in names
            ]
            await ann.subscribe("all/#")
            more = [
                {"user": "*", "publish": ["all/#"], "subscribe": ["all/+"]},
                {"user": "cat", "publish": ["cat/#", "dogs"], "subscribe": ["#"]},
                *reversed(rules[:2]),
                {"user": "dan", "publish": ["#"]},
            ]
            reload(more)
            await bob.publish("all/1", "from bob", qos=1)
            assert (await anext(ann.messages)).payload == b"from bob"
            assert connected() == set(names)
            # Bob's own rule goes; no one else had it.
            reload([rule for rule in more if rule["user"] != "bob"])
            await until(lambda: connected() == {"ann", "cat"})
            assert service.changed == [
                "rules of bob: no more publish bob/#; no more subscribe all/#"
            ]
            await cat.publish("all/2", "from cat", qos=1)
            assert (await anext(ann.messages)).payload == b"from cat"
            with pytest.raises(aiomqtt.MqttError):
                await anext(bob.messages)
            stack.push(lambda *gone: gone[0] is aiomqtt.MqttError)


@on_loop
async def test_limits_are_reloaded_and_the_rest_is_named(tmp_path: Path) -> None:
    before = network()
    async with (
        running(before, "B1") as (service,),
        Client(str(service.listening["mqtt"])) as client,
    ):
        changed = {
            "limits": {"maximum_subscriptions": 1},
            "seed": 7,
            "storage": {"folder": str(tmp_path)},
            "tree": {"covering": True},
        }
        after = parse_network(data_of(before) | changed)
        assert service.reload(after) == ["seed", "storage", "tree"]
        assert service.network.limits.maximum_subscriptions == 1
        async with client.subscribe("a"):
            with pytest.raises(ClientError):
                async with client.subscribe("b"):
                    pass
        # Limits given to a client hold as long as it is connected; none has gone.
        assert service.reload(before) == []
        async with client.subscribe("a"), client.subscribe("b"):
            pass


@on_loop
async def test_an_unusable_file_changes_nothing(tmp_path: Path) -> None:
    users = tmp_path / "users"
    before = network(**with_users(users, "ann"))
    async with running(before, "B1") as (service,):
        users.write_text("nonsense", encoding="utf-8")
        after = parse_network(data_of(before) | {"limits": {"maximum_subscriptions": 1}})
        with pytest.raises(AccessError, match="line 1"):
            service.reload(after)
        assert service.front_end.clients.limits == before.limits
        host, port = service.listening["mqtt"]
        async with aiomqtt.Client(host, port, username="ann", password="ann's"):
            pass


@on_loop
async def test_certificates_are_reloaded(tmp_path: Path) -> None:
    def issue(name: str) -> trustme.CA:
        authority = trustme.CA()
        issued = authority.issue_cert(name, "127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "broker.pem")
        issued.private_key_pem.write_to_path(tmp_path / "broker.key")
        return authority

    async def is_trusted(authority: trustme.CA, service: BrokerService) -> bool:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        host, port = service.listening["mqtts"]
        try:
            async with aiomqtt.Client(host, port, tls_context=context):
                return True
        except aiomqtt.MqttError:
            return False

    first = issue("first")
    tls = {"certificate": str(tmp_path / "broker.pem"), "key": str(tmp_path / "broker.key")}
    data = data_of(network()) | {"client_tls": tls}
    data["brokers"][0]["mqtts"] = "127.0.0.1:0"
    async with running(parse_network(data), "B1") as (service,):
        assert await is_trusted(first, service)
        (tmp_path / "broker.key").write_bytes(b"no key")
        with pytest.raises(TlsError):
            service.reload(service.network)
        assert await is_trusted(first, service)
        second = issue("second")
        assert service.reload(service.network) == []
        assert await is_trusted(second, service)
        assert not await is_trusted(first, service)


def test_sighup_reloads_a_process(tmp_path: Path) -> None:
    processes = Processes(tmp_path, 1)
    try:
        processes.start("B1")
        text = processes.path.read_text(encoding="utf-8")

        def hang_up(text: str, event: str) -> str:
            processes.path.write_text(text, encoding="utf-8")
            processes.running["B1"].send_signal(signal.SIGHUP)
            deadline_s = time.monotonic() + PATIENCE_S
            while event not in processes.log("B1"):
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
            return processes.log("B1")

        log = hang_up(text.replace("[access]", "[accesses]"), "not reloaded")
        assert "unknown key" in log
        assert '"takes_a_restart": ["seed"]' in hang_up(
            text.replace("seed = 0", "seed = 7"), '"reloaded"'
        )
        processes.kill("B1", how=signal.SIGTERM)
        assert '"stopped"' in processes.log("B1")
    finally:
        processes.kill(*processes.running)
