"""Clients of live brokers redirected by the operator's commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import msgspec
import pytest

from shoal.broker.effects import MoveClient
from shoal.cli import main as cli
from shoal.client import Client
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile, dump_network
from shoal.runtime.operations.metrics import render
from shoal.runtime.supervisor import free_ports
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network as network_of
from tests.runtime.one_service import running


@asynccontextmanager
async def brokers(folder: Path, **changes: Any) -> AsyncIterator[tuple[str, list[BrokerService]]]:
    """Three brokers and the file of their network."""
    network = network_of(3, storage={"folder": str(folder), "sync": "never"}, **changes)
    ports = iter(free_ports("127.0.0.1", 6))
    sections = tuple(
        msgspec.structs.replace(
            each, mqtt=f"127.0.0.1:{next(ports)}", admin=f"127.0.0.1:{next(ports)}", websocket=""
        )
        for each in network.brokers
    )
    network = msgspec.structs.replace(network, brokers=sections)
    path = folder / "network.toml"
    path.write_text(dump_network(network))
    async with asyncio.timeout(2 * PATIENCE_S), running(network, *names(network)) as services:
        await until(lambda: not any(each.missing() for each in services))
        yield str(path), services


def names(network: NetworkFile) -> list[str]:
    return [broker.name for broker in network.brokers]


async def shoal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """A command's output and exit code; the brokers are in this process."""

    def run() -> int:
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        return int(caught.value.code or 0)

    code = await asyncio.to_thread(run)
    output = capsys.readouterr()
    return code, (output.out + output.err).strip()


def at(service: BrokerService) -> set[str]:
    return {
        each.client_id
        for each in service.front_end.clients.sessions
        if each.session_writer is not None
    }


@on_asyncio
async def test_a_client_is_moved_under_load_or_refused_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        brokers(tmp_path, limits={"maximum_moves_per_hour": 3}) as (path, (one, two, three)),
        Client(str(one.listening["mqtt"]), "mover") as client,
        Client(str(two.listening["mqtt"]), "publisher") as publisher,
        aiomqtt.Client("127.0.0.1", three.listening["mqtt"].port, identifier="other"),
        client.subscribe("a", where="x > 0", qos=2) as subscription,
    ):
        sent = [b'{"x":%d}' % number for number in range(1, 301)]

        async def publish() -> None:
            for number, payload in enumerate(sent):
                await publisher.publish("a", payload, qos=1 + number % 2)

        publishing = asyncio.create_task(publish())
        answers = []
        for source, target in (("B1", "B3"), ("B3", "B2"), ("B2", "B1")):
            answers.append(await shoal(capsys, "move", path, "mover", target))
            assert answers[-1] == (0, f"mover has moved from {source} to {target}")
        assert [(await subscription.get()).payload for _ in sent] == sent
        await publishing
        assert not subscription.messages
        assert client.redirections == 3
        code, text = await shoal(capsys, "move", path, "mover", "B2")
        assert (code, "mover has moved 3 times within an hour" in text) == (2, True)
        code, text = await shoal(capsys, "move", path, "other", "B1")
        assert (code, "other does not follow redirects" in text) == (2, True)
        code, text = await shoal(capsys, "move", path, "nobody", "B1")
        assert (code, text) == (2, "shoal: no client nobody is connected to a broker")
        code, text = await shoal(capsys, "move", path, "mover", "B9")
        assert (code, "has no broker B9; its brokers are B1, B2, B3" in text) == (2, True)
        assert one.status()["clients"]["moves"] == {"moved": 1, "stayed": 1}
        assert b'shoal_client_moves_total{outcome="moved"} 1.0' in render(one.status)


@on_asyncio
async def test_a_broker_drained_under_load_admits_clients_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        brokers(tmp_path) as (path, (one, two, three)),
        Client(str(one.listening["mqtt"]), "reader") as reader,
        Client(str(one.listening["mqtt"]), "writer") as writer,
        reader.subscribe("a", qos=1) as subscription,
        aiomqtt.Client("127.0.0.1", one.listening["mqtt"].port, identifier="stays") as stays,
    ):
        sent = [b"%d" % number for number in range(300)]

        async def publish() -> None:
            for payload in sent:
                await writer.publish("a", payload, qos=1)

        publishing = asyncio.create_task(publish())
        code, text = await shoal(capsys, "drain", path, "B1")
        # A drain that takes a while reports its progress.
        assert (code, text.split("\n")[-1]) == (0, "B1 is drained")
        assert at(one) == set()
        with pytest.raises(aiomqtt.MqttError):
            await anext(aiter(stays.messages))
        await until(lambda: {"reader", "writer"} <= at(two) | at(three))
        assert [(await subscription.get()).payload for _ in sent] == sent
        await publishing
        assert not subscription.messages
        code, text = await shoal(capsys, "status", path)
        assert code == 1
        assert "drained" in text
        assert "clients of B1 that were to move: " in text
        async with Client(str(one.listening["mqtt"]), "late") as late:
            assert late.redirections == 1
            code, text = await shoal(capsys, "move", path, "late", "B1")
            assert "B1 takes no clients: the broker is being drained" in text
        assert await shoal(capsys, "undrain", path, "B1") == (0, "B1 takes clients in")
        code, text = await shoal(capsys, "undrain", path, "B1")
        assert (code, text) == (2, "shoal: B1: it is not being drained")
        assert await shoal(capsys, "move", path, "reader", "B1") == (
            0,
            f"reader has moved from {'B2' if 'reader' in at(two) else 'B3'} to B1",
        )


@on_asyncio
async def test_an_announced_drain_admits_clients_until_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A load balancer that asks for /ready sends new connections elsewhere meanwhile."""
    async with brokers(tmp_path) as (path, (one, _two, _three)):
        orders = one.operator.orders
        for after in ("soon", "nan", "-1", "9999999"):
            assert (await orders["drain"]({"after": after})).startswith("after: ")
        assert await orders["drain"]({"after": "600"}) == ""
        assert await orders["drain"]({"after": "0"}) == ""  # the announcement stays
        assert "clients: the broker is being drained" in one.missing()
        assert one.status()["clients"]["drains_soon"]
        async with aiomqtt.Client("127.0.0.1", one.listening["mqtt"].port, identifier="late"):
            assert at(one) == {"late"}
        assert await orders["undrain"]({}) == ""
        assert one.missing() == []
        assert (await orders["undrain"]({})) == "it is not being drained"
        async with aiomqtt.Client("127.0.0.1", one.listening["mqtt"].port, identifier="c") as c:
            code, text = await shoal(capsys, "drain", path, "B1", "--after", "0.2")
            assert (code, text.split("\n")[-1]) == (0, "B1 is drained")
            with pytest.raises(aiomqtt.MqttError):
                await anext(aiter(c.messages))
        assert not one.status()["clients"]["drains_soon"]


@on_asyncio
async def test_a_single_broker_is_not_drained() -> None:
    async with running(network_of(1), "B1") as (alone,):
        assert await alone.operator.orders["drain"]({}) == "it is all there is of its network"
        said = {"client": "c", "broker": "B2"}
        assert await alone.operator.orders["move"](said) == "it is all there is of its network"


@on_asyncio
async def test_a_system_moves_a_client(tmp_path: Path) -> None:
    async with (
        brokers(tmp_path) as (_, (one, two, _)),
        Client(str(one.listening["mqtt"]), "mover") as client,
    ):
        one.node._carry_out([MoveClient("mover", "B2"), MoveClient("nobody", "B2")], 0, None)
        await until(lambda: "mover" in at(two))
        assert client.redirections == 1


@on_asyncio
async def test_subscribers_move_to_where_their_publications_enter(tmp_path: Path) -> None:
    """Clients that follow and can be moved; nothing is lost, doubled or out of order."""
    grape = {"moves": "subscribers", "trace_session_length": 10}
    async with (
        brokers(tmp_path, system="grape", grape=grape) as (_, (one, two, three)),
        AsyncExitStack() as stack,
    ):
        there = str(three.listening["mqtt"])
        writer = await stack.enter_async_context(
            aiomqtt.Client("127.0.0.1", one.listening["mqtt"].port, identifier="writer")
        )
        other = await stack.enter_async_context(
            aiomqtt.Client("127.0.0.1", three.listening["mqtt"].port, identifier="stays")
        )
        await other.subscribe("a/2", qos=1)
        followers, subscriptions = [], []
        for number, qos in enumerate((1, 2)):
            follower = await stack.enter_async_context(Client(there, f"follower {number}"))
            wanted = follower.subscribe("a/+", where=f"part = {number}", qos=qos)
            subscriptions.append(await stack.enter_async_context(wanted))
            followers.append(follower)
        sent: list[list[bytes]] = [[], []]

        async def publish(number: int) -> None:
            part = number % 2
            payload = b'{"part":%d,"number":%d}' % (part, number)
            sent[part].append(payload)
            await writer.publish(f"a/{number % 4}", payload, qos=1 + number % 3 // 2)

        number = 0
        while {"follower 0", "follower 1"} - at(one):
            await publish(number)
            number += 1
        for more in range(number, number + 100):
            await publish(more)
        for subscription, expected in zip(subscriptions, sent, strict=True):
            assert [(await subscription.get()).payload for _ in expected] == expected
            assert not subscription.messages
        assert at(three) == {"stays"}
        assert [each.redirections for each in followers] == [1, 1]
        assert two.status()["clients"]["moves"] == {}
