"""The Python client follows redirects, and nothing is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from shoal.client import Client
from shoal.mqtt.limits import DEFAULT_LIMITS
from tests.client.test_client import at, payloads
from tests.runtime.front_ends.test_clients import LINE, MOVING
from tests.runtime.front_ends.test_mqtt_front_end import MqttNetwork, mqtt
from tests.runtime.front_ends.test_publishers import IMPATIENT, SHORT, STAR
from tests.runtime.live import on_loop
from tests.systems import eager


@pytest.mark.parametrize("system", MOVING)
@on_loop
async def test_a_client_follows_its_publisher_and_nothing_is_lost_doubled_or_out_of_order(
    system: str,
) -> None:
    async with (
        mqtt(LINE, system=system, parameters=eager(system, 20)) as network,
        at(network, "B4", "r") as reader,
        at(network, "B3", "o") as other,
        Client(str(network.addresses["B1"]), "w", advertise=["x >= 0"]) as writer,
        reader.subscribe("a", qos=1) as subscription,
        other.subscribe("+", qos=1) as second,
        writer.subscribe("own/+", qos=1) as own,
    ):
        await network.knows("B1", 7)
        sent = 0
        while not writer.redirections or sent % 1_000:
            assert sent < DEFAULT_LIMITS.maximum_queued_messages
            burst = range(sent, sent + 20)
            # Some are always under way: unacknowledged ones are retransmitted at the next broker.
            await asyncio.gather(
                *(writer.publish("a", b"%d" % each, attributes={"x": each}) for each in burst),
                writer.publish("own/x", b"%d" % sent, attributes={"x": sent}),
            )
            sent += 20
            # The reader has not started, and a front end's queue for it is bounded.
            await asyncio.sleep(0.02)
        assert await payloads(subscription, sent) == [b"%d" % number for number in range(sent)]
        assert writer.address in [network.servers[name] for name in ("B2", "B3", "B4")]
        found = await payloads(second, sent)
        assert found == [b"%d" % number for number in range(sent)]
        # Its own subscription came along.
        assert await payloads(own, sent // 20) == [b"%d" % number for number in range(0, sent, 20)]


@on_loop
async def test_a_client_that_does_not_follow_is_not_redirected() -> None:
    async with (
        mqtt(LINE, system="pop", parameters=eager("pop")) as network,
        at(network, "B4", "r") as reader,
        Client(str(network.addresses["B1"]), "w", advertise=["x > 0"], follow=False) as writer,
        reader.subscribe("a", qos=1) as subscription,
    ):
        await network.knows("B1", 5)
        (machine,) = network.publishers["B1"].publishers
        sent = 0
        while not machine.moved:
            assert sent < 20_000
            await writer.publish("a", b"%d" % sent, attributes={"x": 1})
            sent += 1
        assert await payloads(subscription, sent) == [b"%d" % number for number in range(sent)]
        assert not writer.redirections
        assert network.front_ends["B1"].clients.statistics.connected == 1


async def send_away(network: MqttNetwork, client: Client, where: str) -> None:
    """Its broker redirects the client; wait until the client has noticed."""
    before = client.redirections
    for front_end in network.front_ends.values():
        for connection in list(front_end._sockets):
            if connection.client_id == client.client_id:
                front_end.carry_out(connection.redirect(where, front_end.node.clock.now_us()))
    while client.redirections == before or not client._up.is_set():
        await asyncio.sleep(0.01)


@on_loop
async def test_a_repeatedly_redirected_subscriber_receives_everything_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.client.client.MAX_REDIRECTIONS", 100)
    async with (
        mqtt() as network,
        at(network, "B1", "r") as reader,
        at(network, "B3") as writer,
        reader.subscribe("a", qos=1) as subscription,
    ):
        await network.knows("B3", 4)
        sent = 0

        async def publish() -> None:
            nonlocal sent
            while True:
                await writer.publish("a", b"%d" % sent)
                sent += 1

        publishing = asyncio.create_task(publish())
        for target in ("B2", "B3", "B1") * 5:
            # A message is always on its way to it, or back, when it is redirected.
            sent_before = sent
            while sent < sent_before + 5:
                await asyncio.sleep(0)
            await send_away(network, reader, network.servers[target])
        publishing.cancel()
        await writer.publish("a", b"last")
        found = await payloads(subscription, sent)
        while b"last" not in found:
            found += await payloads(subscription, 1)
        # Whether the one that was given up had gone out is not known.
        assert found[:-1] in ([b"%d" % each for each in range(count)] for count in (sent, sent + 1))


@on_loop
async def test_a_too_often_redirected_client_logs_it_and_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shoal.client.client.MAX_REDIRECTIONS", 2)
    async with mqtt() as network, at(network, "B1", "w") as client:
        for target in ("B2", "B3", "B2"):
            await send_away(network, client, network.servers[target])
        assert caplog.messages == [f"redirected 3 times, stays at {network.servers['B2']}"]
        (connection,) = network.front_ends["B2"]._sockets
        assert connection.terms is not None
        assert not connection.terms.follows
        await client.publish("a", b"still there")


@on_loop
async def test_a_client_redirected_to_a_dead_address_returns() -> None:
    async with (
        mqtt() as network,
        at(network, "B3", "r") as reader,
        at(network, "B1", "w") as client,
        reader.subscribe("a") as subscription,
    ):
        await network.knows("B1", 4)
        await client.publish("a", b"0")
        await send_away(network, client, "127.0.0.1:1")
        await client.publish("a", b"1")
        assert await payloads(subscription, 2) == [b"0", b"1"]
        assert client.address == network.servers["B1"]


@on_loop
async def test_a_client_returns_when_its_new_broker_dies() -> None:
    limits = {"forwarding_channel_limits": SHORT, "limits": IMPATIENT}
    async with (
        mqtt(STAR, system="pop", parameters=eager("pop"), **limits) as network,
        at(network, "B1", "near") as near,
        at(network, "B3", "third") as third,
        at(network, "B4", "fourth") as fourth,
        Client(str(network.addresses["B1"]), "w", advertise=["x >= 0"]) as writer,
        near.subscribe("a") as subscription,
        third.subscribe("a"),
        fourth.subscribe("a"),
    ):
        await network.knows("B1", 7)
        sent = 0

        async def publish(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                await writer.publish("a", b"%d" % sent, attributes={"x": sent})
                sent += 1

        while writer.address != network.servers["B2"] or not writer._up.is_set():
            assert sent < 20_000
            await publish(1)
        publishing = asyncio.create_task(publish(300))
        await asyncio.sleep(0.02)
        await network.kill("B2")
        await publishing
        found: list[int] = []
        while not found or found[-1] < sent - 1:
            found += [int(each) for each in await payloads(subscription, 1)]
        assert list(dict.fromkeys(found)) == list(range(sent))
        assert writer.address == network.servers["B1"]


@on_loop
async def test_a_client_tries_its_first_and_its_last_broker_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If its first broker is gone, it must still return to its session."""
    monkeypatch.setattr("shoal.client.client.FIRST_PAUSE_S", 0.01)
    async with mqtt() as network, at(network, "B1", "w") as client:
        await send_away(network, client, network.servers["B2"])
        connect, tried = client._dialler.connect, []

        async def refused(owner: Client, address: str) -> object:
            tried.append(address)
            if len(tried) < 5:
                raise ConnectionRefusedError
            return await connect(owner, address)

        monkeypatch.setattr(client._dialler, "connect", refused)
        assert client._socket is not None
        client._socket.close()
        await client.publish("a", b"still there")
        here, there = network.servers["B1"], network.servers["B2"]
        assert tried == [there, here, there, here, there]
