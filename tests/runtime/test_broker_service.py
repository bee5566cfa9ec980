"""One whole broker: its listeners, its admin port, and its end."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from pathlib import Path

import aiomqtt
import msgspec
import pyarrow.parquet as pq
import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from shoal.client import Client
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.links import dialling
from shoal.runtime.network_file import parse_network
from shoal.runtime.supervisor import Supervisor, get_json, local_network
from tests.runtime.live import PATIENCE_S, on_asyncio, on_loop, until
from tests.runtime.one_service import network, running


@on_loop
async def test_messages_as_large_as_clients_may_send_go_from_broker_to_broker() -> None:
    size = 20_000_000
    limits = {"maximum_packet_size": size + 100}
    fields = json.dumps({"text": "x" * (size - 100)}).encode()
    async with (
        asyncio.timeout(PATIENCE_S),
        running(network(2, limits=limits), "B2", "B1") as (there, here),
        Client(str(there.listening["mqtt"])) as subscriber,
        Client(str(here.listening["mqtt"])) as publisher,
        subscriber.subscribe("a", qos=2) as subscription,
    ):
        for qos in (1, 2):
            await publisher.publish("a", fields, qos=qos, content_type="application/json")
            assert (await subscription.get()).payload == fields
        await publisher.publish("a", fields, qos=1, retain=True)
        async with subscriber.subscribe("#", qos=1) as all_of_it:
            assert (await all_of_it.get()).payload == fields
        assert not here.node.counts["unwritable"]


@on_loop
async def test_clients_connect_over_websocket() -> None:
    async with running(network(), "B1") as (service,):
        address = service.listening["websocket"]
        async with (
            asyncio.timeout(PATIENCE_S),
            aiomqtt.Client(
                address.host, address.port, transport="websockets", websocket_path="/mqtt"
            ) as over_websocket,
            Client(str(service.listening["mqtt"])) as over_tcp,
        ):
            await over_websocket.subscribe("a", qos=1)
            payload = bytes(range(256)) * 1_000
            await over_tcp.publish("a", payload)
            assert (await anext(over_websocket.messages)).payload == payload
            async with over_tcp.subscribe("b") as subscription:
                await over_websocket.publish("b", payload, qos=2)
                assert (await subscription.get()).payload == payload


@on_loop
async def test_clients_connect_over_websocket_with_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "broker.pem")
    issued.private_key_pem.write_to_path(tmp_path / "broker.key")
    tls = {"certificate": str(tmp_path / "broker.pem"), "key": str(tmp_path / "broker.key")}
    data = msgspec.to_builtins(network()) | {"client_tls": tls}
    data["brokers"][0]["wss"] = "127.0.0.1:0"
    del data["parameters"], data["tls"]
    context = ssl.create_default_context()
    authority.configure_trust(context)
    data["brokers"][0]["mqtts"] = "127.0.0.1:0"
    async with running(parse_network(data), "B1") as (service,):
        for key in ("wss", "mqtts"):
            for garbage in WRONG:
                reader, writer = await asyncio.open_connection(*service.listening[key])
                writer.write(garbage)
                writer.write_eof()
                async with asyncio.timeout(PATIENCE_S):
                    await reader.read()
                writer.close()
        address = service.listening["wss"]
        async with (
            asyncio.timeout(PATIENCE_S),
            aiomqtt.Client(
                address.host, address.port, transport="websockets", tls_context=context
            ) as client,
        ):
            await client.subscribe("a", qos=2)
            await client.publish("a", b"x" * 100_000, qos=2)
            assert (await anext(client.messages)).payload == b"x" * 100_000


HELLO = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
WRONG = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    HELLO + b"Sec-WebSocket-Protocol: soap\r\n\r\n",
    b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00",
    b"\xff" * 200,
]


@on_loop
async def test_other_requests_at_a_websocket_port_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.runtime.front_ends.sockets.websocket.HANDSHAKE_TIMEOUT_S", 0.2)
    async with running(network(), "B1") as (service,):
        for data in WRONG:
            reader, writer = await asyncio.open_connection(*service.listening["websocket"])
            writer.write(data)
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
            writer.close()
        assert service.front_end.clients.statistics.connected == 0


@on_loop
async def test_text_over_websocket_ends_the_connection() -> None:
    hello = HELLO + b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    async with running(network(), "B1") as (service,):
        reader, writer = await asyncio.open_connection(*service.listening["websocket"])
        writer.write(hello)
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x82\0\0\0\0hi")
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read())[:4] == b"\x88\x10\x03\xeb"  # 1003, unsupported data
        writer.close()


async def get_text(service: BrokerService, path: str) -> str:
    url = f"http://{service.listening['admin']}{path}"

    def get() -> str:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as found:
            return str(found.read().decode())

    return await asyncio.to_thread(get)


@on_loop
async def test_questions_to_brokers_bypass_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setattr("urllib.request._opener", None)  # as in a new process
    async with running(network(), "B1") as (service,):
        assert await get_json(service.listening["admin"], "/health") == {"alive": True}


@on_loop
async def test_an_accepting_broker_reports_what_it_waits_for() -> None:
    async with running(network(2), "B2") as (second,):
        why = "B1 connects to this broker, and has not yet"
        assert second.missing() == [f"link to B1 ({why})", "tables of B1"]


@on_loop
async def test_the_admin_port_reports_missing_links_and_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialling, "LONGEST_PAUSE_S", 60.0)  # not reported, however slow
    both = network(2)
    async with running(both, "B1") as (first,):
        admin = first.listening["admin"]
        assert await get_json(admin, "/health") == {"alive": True}
        missing = ["link to B2", "tables of B2"]
        assert await get_json(admin, "/ready") == {"ready": False, "missing": missing}
        async with (
            running(both, "B2") as (second,),
            Client(str(second.listening["mqtt"])) as client,
        ):
            await until(lambda: not first.missing())
            assert await get_json(admin, "/ready") == {"ready": True, "missing": []}
            subscription = client.subscribe("a", "x > 1")
            await subscription.granted()
            await until(lambda: len(first.node.machine.strategy.tables.subscriptions) == 3)
            async with Client(str(first.listening["mqtt"])) as writer:
                await writer.publish("a", attributes={"x": 2})
                await subscription.get()
            status = json.loads(await get_text(first, "/status"))
            assert status["links"][0]["neighbour"] == "B2"
            assert status["counts"]["publications_in"] >= 1
            families = {
                family.name: family.samples
                for family in text_string_to_metric_families(await get_text(first, "/metrics"))
            }
            (up,) = families["shoal_link_up"]
            assert (up.labels, up.value) == ({"neighbour": "B2"}, 1)
            assert families["shoal_publications_received"][0].value >= 1
            assert families["shoal_routing_subscriptions"][0].value == 3
            assert not [name for name in families if not name.startswith(("shoal_", "process_"))]


@on_loop
async def test_metrics_read_no_row_of_each_publisher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With rows, each scrape would take 71 ms for 100,000 publishers."""
    async with running(network(2), "B1") as (service,):
        asked: list[str] = []
        monkeypatch.setattr(service.publishers, "status", lambda: asked.append("rows") or [])
        assert "shoal_ready" in await get_text(service, "/metrics")
        assert asked == []
        assert json.loads(await get_text(service, "/status"))["publishers"] == []
        assert asked == ["rows"]


@pytest.mark.parametrize(
    "said", [b"", b"GET /metr", b"POST /status HTTP/1.1\r\nContent-Length: 9\r\n"]
)
@on_loop
async def test_an_open_admin_connection_does_not_delay_the_end(said: bytes) -> None:
    async with running(network(), "B1") as (service,):
        reader, writer = await asyncio.open_connection(*service.listening["admin"])
        writer.write(said)
        assert await get_json(service.listening["admin"], "/health") == {"alive": True}
    async with asyncio.timeout(PATIENCE_S):
        await reader.read()
    writer.close()


@on_loop
async def test_a_broker_that_stops_sends_everything_first() -> None:
    both = network(2)
    async with running(both, "B2") as (second,), Client(str(second.listening["mqtt"])) as reader:
        subscription = reader.subscribe("a")
        await subscription.granted()
        async with running(both, "B1") as (first,):
            await until(lambda: len(first.node.machine.strategy.tables.subscriptions) == 3)
            writer = Client(str(first.listening["mqtt"]))
            async with writer:
                await asyncio.gather(*(writer.publish("a", b"%d" % n) for n in range(500)))
        found = [int((await subscription.get()).payload) for _ in range(500)]
        assert found == list(range(500))


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_trace_is_written(tmp_path: Path, brokers: int) -> None:
    both = network(brokers, trace={"folder": str(tmp_path)})

    async def run() -> None:
        async with (
            running(both, "B1") as (service,),
            Client(str(service.listening["mqtt"])) as client,
            client.subscribe("a") as subscription,
        ):
            await client.publish("a")
            await subscription.get()

    asyncio.run(run())
    deliveries = pq.read_table(tmp_path / "deliveries.parquet").to_pylist()
    assert {row["broker"] for row in deliveries} == {"B1"}
    assert pq.read_table(tmp_path / "publications.parquet").num_rows >= 1


def test_a_taken_port_is_an_error() -> None:
    async def run() -> None:
        async with running(network(), "B1") as (service,):
            taken = str(service.listening["mqtt"])
            section = {"name": "B1", "peers": "127.0.0.1:0", "mqtt": taken}
            other = BrokerService(parse_network({"name": "n", "brokers": [section]}), "B1")
            try:
                with pytest.raises(OSError, match=f"mqtt: cannot listen at {taken}"):
                    await other.start()
            finally:
                await other.stop()

    asyncio.run(run())


@on_asyncio
@pytest.mark.parametrize(
    ("system", "size", "running_first", "last"),
    [
        ("tree", {"brokers": 2}, ["B1"], "B2"),
        ("bluedove", {"dispatchers": 2, "matchers": 1}, ["M1", "D1"], "D2"),
    ],
)
async def test_an_unready_broker_reports_what_it_waits_for(
    system: str, size: dict[str, int], running_first: list[str], last: str
) -> None:
    layout = msgspec.convert(size, SYSTEMS[system].size).layout()
    network = local_network(system, layout, port=0)
    async with running(network, *running_first) as (service, *_):
        await until(lambda: f"tables of {last}" in service.missing())
        assert service.status()["missing"] == service.missing()
        async with running(network, last):
            await until(lambda: not service.missing())


@on_asyncio
async def test_a_supervisor_reports_what_brokers_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "LONGEST_PAUSE_S", 60.0)  # not reported, however slow
    network = local_network("tree", SYSTEMS["tree"].size(brokers=3).layout(), port=0)
    async with running(network, "B1"):
        text = await Supervisor(network, tmp_path / "network.toml").what_is_missing()
    assert text == (
        "B1 waits for link to B2, link to B3, tables of B2, B3; B2 waits for its admin port; "
        "B3 waits for its admin port"
    )
