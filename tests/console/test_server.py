"""The console over HTTP: who may ask, what is answered, which orders are passed on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from httpx_sse import aconnect_sse

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.console import server
from shoal.console.serving import running_console
from shoal.runtime.addresses import Address
from shoal.runtime.events import broker_events
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import ANYBODY
from tests.runtime.live import ANYWHERE, PATIENCE_S, on_loop
from tests.runtime.one_service import network, running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_events, "LOOK_S", 0.1)


def reachable(file: NetworkFile, *admins: Address) -> NetworkFile:
    """The network with the admin addresses at which its brokers listen."""
    brokers = tuple(
        msgspec.structs.replace(each, admin=str(admin))
        for each, admin in zip(file.brokers, admins, strict=True)
    )
    return msgspec.structs.replace(file, brokers=brokers)


@asynccontextmanager
async def console(
    file: NetworkFile, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client of a console of the network, with the token, and the console's address."""
    async with running_console(file, ANYBODY, ANYWHERE, token="secret", **options) as url:
        base = url.partition("/?")[0]
        port = base.rpartition(":")[2]
        cookies = {f"shoal-console-{port}": "secret"}
        async with httpx.AsyncClient(base_url=base, cookies=cookies, trust_env=False) as asking:
            yield asking, base


async def events(asking: httpx.AsyncClient) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    async with (
        asyncio.timeout(PATIENCE_S),
        aconnect_sse(asking, "GET", "/stream") as source,
    ):
        async for event in source.aiter_sse():
            yield event.event, json.loads(event.data)


@on_loop
async def test_pages_follow_the_network() -> None:
    file = network(2)
    async with running(file, "B2", "B1") as (there, here):
        seen = reachable(file, here.listening["admin"], there.listening["admin"])
        async with console(seen) as (asking, _):
            async for kind, data in events(asking):
                if kind == "network" and data["links"]:
                    break
            assert [each["name"] for each in data["brokers"]] == ["B1", "B2"]
            assert data["orders"] is False
            async for kind, data in events(asking):
                if kind == "figures" and data["at"] and not any(r[0] for r in data["brokers"]):
                    break
            assert data["wrong"] == []


@on_loop
async def test_a_broker_that_stops_is_away_and_comes_back() -> None:
    file = network(1)
    async with running(file, "B1") as (here,):
        seen = reachable(file, here.listening["admin"])
        async with console(seen) as (asking, _):
            stream = events(asking)
            async for kind, data in stream:
                if kind == "figures" and not data["brokers"][0][0]:
                    break
            here.events.stop()
            await here.admin.stop()
            async for kind, data in stream:
                if kind == "figures" and data["wrong"]:
                    break
            assert data["wrong"][0]["text"] == "B1 does not answer"


@on_loop
async def test_a_client_is_found_with_its_subscriptions() -> None:
    file = network(2)
    async with running(file, "B2", "B1") as (there, here):
        seen = reachable(file, here.listening["admin"], there.listening["admin"])
        async with (
            Client(str(there.listening["mqtt"]), "board-1", keep=Keep(seconds=60)) as board,
            console(seen) as (asking, _),
        ):
            await board.subscribe("flights/#", where="delay > 30", qos=1).granted()
            async for kind, data in events(asking):
                if kind == "figures" and not any(row[0] for row in data["brokers"]):
                    break
            found = (await asking.get("/ask/client", params={"client": "board-1"})).json()
            assert found["session"]["broker"] == "B2"
            assert [row["where"] for row in found["subscriptions"]] == ["delay > 30"]
            listed = (await asking.get("/ask/clients", params={"start": "boa"})).json()
            assert [row["client"] for row in listed["clients"]] == ["board-1"]
            everybody = (await asking.get("/ask/clients")).json()
            assert [row["client"] for row in everybody["clients"]] == ["board-1"]
            nobody = (await asking.get("/ask/client", params={"client": "x"})).json()
            assert nobody["problem"] == "no broker has a session of x"


@on_loop
async def test_a_story_and_a_filter_are_answered() -> None:
    file = network(2)
    async with running(file, "B2", "B1") as (there, here):
        seen = reachable(file, here.listening["admin"], there.listening["admin"])
        async with (
            Client(str(there.listening["mqtt"]), "board") as board,
            Client(str(here.listening["mqtt"]), "plane") as plane,
            board.subscribe("a", qos=1) as subscription,
            console(seen) as (asking, _),
        ):
            await plane.publish("a", b"1", trace="mine")
            await subscription.get()
            async for kind, data in events(asking):
                if kind == "figures" and not any(row[0] for row in data["brokers"]):
                    break
            (story,) = (await asking.get("/ask/traces", params={"key": "mine"})).json()["stories"]
            assert [row["name"] for row in story["rows"]] == ["plane", "B1", "B2", "board"]
            listed = (await asking.get("/ask/traces")).json()["traces"]
            assert [row["label"] for row in listed] == ["mine"]
            tried = (await asking.get("/ask/try", params={"where": "x >"})).json()
            assert "x >" in tried["problem"]


@on_loop
async def test_orders_are_passed_on_only_where_they_are_allowed() -> None:
    file = network(2)
    header = {"X-Shoal": "drain"}
    async with running(file, "B2", "B1") as (there, here):
        seen = reachable(file, here.listening["admin"], there.listening["admin"])
        async with console(seen) as (asking, _):
            answer = await asking.post("/order/drain?broker=B1", headers=header)
            assert answer.status_code == 403
            assert "--orders" in answer.json()["problem"]
        async with console(seen, allows_orders=True) as (asking, _):
            async for kind, data in events(asking):
                if kind == "figures" and not any(row[0] for row in data["brokers"]):
                    break
            # A form of another site cannot send a header of its own.
            assert (await asking.post("/order/drain?broker=B1")).status_code == 403
            assert (await asking.post("/order/serve?broker=B1")).status_code == 404
            assert not here.operator.is_draining
            answer = await asking.post("/order/drain?broker=B1", headers=header)
            assert (answer.status_code, answer.json()) == (202, {"problem": ""})
            assert here.operator.is_draining
            answer = await asking.post("/order/drain?broker=B9", headers=header)
            assert answer.json()["problem"] == "no broker B9 is known"
            answer = await asking.post(
                "/order/trace?topic=a/%23&each=5&seconds=60", headers={"X-Shoal": "trace"}
            )
            assert answer.status_code == 202
            assert [each.tracer.sample.each for each in (here, there)] == [5, 5]  # type: ignore[union-attr]


@on_loop
async def test_without_the_token_nothing_is_answered() -> None:
    async with console(network(1)) as (asking, base):
        async with httpx.AsyncClient(base_url=base, trust_env=False) as stranger:
            for path in ("/", "/stream", "/ask/clients", "/static/main.js", "/?token=guess"):
                answer = await stranger.get(path)
                assert answer.status_code == 401, path
            assert "printed" in answer.text
            entered = await stranger.get("/?token=secret")
            assert entered.status_code == 303
            assert "HttpOnly" in entered.headers["set-cookie"]
            assert "SameSite=strict" in entered.headers["set-cookie"]
        other_name = await asking.get("/ask/clients", headers={"Host": "evil.example"})
        assert other_name.status_code == 401


@on_loop
async def test_every_answer_has_the_policy() -> None:
    async with console(network(1)) as (asking, _):
        for path in ("/ask/clients", "/ask/nothing", "/static/none.js"):
            answer = await asking.get(path)
            assert answer.headers["content-security-policy"] == server.POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"


@on_loop
async def test_a_page_that_does_not_read_is_given_a_new_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_WAITING", 3)
    page = server.PageQueue()
    page.needs_snapshot = False
    for number in range(3):
        page.send("happened", str(number).encode())
    assert (page.qsize(), page.needs_snapshot) == (3, False)
    page.send("happened", b"4")
    assert (page.qsize(), page.needs_snapshot) == (0, True)


@on_loop
async def test_a_liar_among_the_brokers_is_named_and_the_others_are_shown() -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b'event: figures\r\ndata: {"links": [{"neighbour": 5}]}\r\n\r\n')
        await writer.drain()
        writer.close()

    file = network(2)
    async with (
        running(file, "B1") as (here,),
        await asyncio.start_server(lie, "127.0.0.1", 0) as lying,
    ):
        port = lying.sockets[0].getsockname()[1]
        seen = reachable(file, here.listening["admin"], Address("127.0.0.1", port))
        async with console(seen) as (asking, _):
            async for kind, data in events(asking):
                if kind != "figures":
                    continue
                about = [row["advice"] for row in data["wrong"] if row["broker"] == "B2"]
                if about and "does not speak like a broker" in about[0]:
                    break
            assert [row[0] for row in data["brokers"]] == [False, True]
