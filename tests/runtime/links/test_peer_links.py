"""Live brokers on loopback: content-based routing, and links that come and go without loss."""

from __future__ import annotations

import asyncio
import time

import pytest

from shoal.broker.effects import Effect, Input
from shoal.broker.links.controls import CONTROLS, Hello, RefuseConnection
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.wire import Codec, FrameReader, framed
from shoal.runtime.driving import cost_estimator
from shoal.runtime.driving.timing import pauses
from shoal.runtime.links import dialling, peer_links
from shoal.runtime.links.peer_connections import MAX_HELLO_BYTES
from tests.runtime.live import LiveNetwork, live, on_loop, received, until

LINE = (("B1", "B2"), ("B2", "B3"))


async def ready(network: LiveNetwork, subscriptions: int) -> None:
    """The publisher's broker knows the advertisement, and every subscription that overlaps it."""
    tables = network.nodes["B1"].machine.strategy.tables
    await until(
        lambda: (len(tables.advertisements), len(tables.subscriptions)) == (1, subscriptions)
    )


@on_loop
async def test_publications_reach_subscribers_by_content() -> None:
    async with live(LINE) as network:
        publisher, late, all_of_it = (
            network.client(*who) for who in (("P", "B1"), ("late", "B3"), ("all", "B2"))
        )
        late.subscribe("s1", "dep_delay > 30 AND carrier LIKE 'U%'")
        all_of_it.subscribe("s2", "dep_delay IS NOT NULL")
        publisher.advertise("a", "dep_delay IS NOT NULL")
        await ready(network, 2)
        for minutes in range(0, 60, 10):
            await publisher.publish({"carrier": "UA", "dep_delay": minutes})
        await publisher.publish({"carrier": "AA", "dep_delay": 59})
        assert await received(late, 2) == [4, 5]
        assert await received(all_of_it, 7) == list(range(7))
        assert late.deliveries.empty()
        late.unsubscribe("s1")
        await ready(network, 1)


@on_loop
async def test_slow_messages_are_handled_in_slices() -> None:
    """One client's packet may cause twenty large filters at a neighbour."""
    each_s, count, most, handled = 0.004, 60, 0, 0
    async with live((("B1", "B2"),)) as network:
        publisher, subscriber = network.client("P", "B2"), network.client("C", "B1")
        publisher.advertise("a", "x IS NOT NULL")
        subscriber.subscribe("s", "x = 0")
        await until(lambda: len(network.nodes["B2"].machine.strategy.tables.subscriptions) == 1)
        machine = network.nodes["B2"].machine
        handle = machine.handle

        def handle_slowly(input: Input, now_us: int) -> list[Effect]:
            nonlocal handled
            handled += 1
            time.sleep(each_s)
            return handle(input, now_us)

        machine.handle = handle_slowly
        for number in range(1, count):
            subscriber.subscribe(f"s{number}", f"x = {number}")
        while len(machine.strategy.tables.subscriptions) < count:
            before = handled
            await asyncio.sleep(0)
            most = max(most, handled - before)
        # In two slices, since more input may be read while the rest waits.
        assert 0 < most <= 2 * (cost_estimator.TURN_US / 1e6 / each_s + 1)
        await publisher.publish({"x": 7})
        await received(subscriber, 1)


@on_loop
async def test_a_cut_and_mended_link_loses_nothing() -> None:
    async with live(LINE) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await ready(network, 1)
        for number in range(200):
            await publisher.publish({"x": number, "text": "y" * 2_000})
            if number % 20 == 10:
                for link in network.links["B2"]._links.values():
                    if link.connection is not None:
                        link.connection.abort()
            if number % 7 == 0:
                await asyncio.sleep(0.002)
        assert await received(subscriber, 200) == list(range(200))
        assert network.links["B2"]._links["B3"].connections > 1
        assert [node.counts["links_up"] for node in network.nodes.values()] == [1, 2, 1]


@on_loop
async def test_a_pause_of_this_process_is_no_silence_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pauses, "LONG_US", 100_000)
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    limits = LinkLimits(silence_us=500_000, give_up_us=500_000)
    async with live(LINE, limits=limits) as network:
        await asyncio.sleep(0.2)
        time.sleep(0.8)  # all three brokers are stopped
        await asyncio.sleep(0.2)
        links = [row for each in network.links.values() for row in each.status()]
        assert [row["connections"] for row in links] == [1, 1, 1, 1]


@on_loop
async def test_a_broker_that_restarts_is_joined_again_and_its_tables_are_repaired() -> None:
    async with live(LINE) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await ready(network, 1)
        await publisher.publish({"x": 0})
        assert await received(subscriber, 1) == [0]
        await network.kill("B2")
        await network.start("B2")
        await network.connected()
        await ready(network, 1)
        await publisher.publish({"x": 1})
        assert await received(subscriber, 1) == [1]


@on_loop
async def test_a_hanging_neighbour_holds_publishers_back() -> None:
    limits = LinkLimits(
        window_bytes=20_000, high_bytes=60_000, low_bytes=20_000, limit_bytes=10_000_000
    )
    async with live(LINE, limits=limits) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await ready(network, 1)
        await network.kill("B3")  # B2's messages are kept: it may come back
        await until(lambda: network.links["B2"].away)
        del subscriber
        sent = 0

        async def publish() -> None:
            nonlocal sent
            while True:
                await publisher.publish({"x": sent, "text": "y" * 1_000})
                sent += 1
                await asyncio.sleep(0)

        publishing = asyncio.create_task(publish())
        await until(lambda: network.nodes["B1"].is_holding)
        await asyncio.sleep(0.05)
        before = sent
        await asyncio.sleep(0.05)
        assert sent == before
        assert network.nodes["B2"].is_holding
        assert all(
            row["buffered_bytes"] < 100_000
            for links in network.links.values()
            for row in links.status()
        )
        await network.start("B3")  # it does not know the session: kept messages are dropped
        await until(lambda: not network.nodes["B1"].is_holding)
        await until(lambda: sent > before)
        publishing.cancel()


GARBAGE = [
    (b"GET / HTTP/1.1\r\n\r\n", "no frame, or a damaged one"),
    (framed(b"\x01\xc1\xc1"), "malformed"),
    (framed(b"\x07\x90"), "version 7; this broker reads version 1"),
    (framed(b""), "an empty frame"),
    (framed(bytes(MAX_HELLO_BYTES))[:20], None),
    (framed(bytes(MAX_HELLO_BYTES + 1))[:20], "4097 bytes is announced"),
    (
        Codec(CONTROLS).encode(Hello(PROTOCOL, "other", "B1", (1, 1), None, 0)),
        "this is network 'test', not",
    ),
    (
        Codec(CONTROLS).encode(Hello(PROTOCOL, "test", "B9", (1, 1), None, 0)),
        "B2 has no link to broker 'B9'",
    ),
    (
        Codec(CONTROLS).encode(Hello(PROTOCOL, "test", "B2", (1, 1), None, 0)),
        "B2 has no link to broker 'B2'",
    ),
    (Codec(CONTROLS).encode(RefuseConnection("no")), None),
]


@on_loop
async def test_garbage_on_the_peer_port_disturbs_no_link() -> None:
    async with live(LINE) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await ready(network, 1)
        for data, reason in GARBAGE:
            reader, writer = await asyncio.open_connection(*network.addresses["B2"])
            writer.write(data)
            if reason is None:
                writer.write_eof()
            async with asyncio.timeout(10):
                answer = await reader.read()
            writer.close()
            if reason is not None:
                (body,) = FrameReader().feed(answer)
                refusal = Codec(CONTROLS).decode(body)
                assert isinstance(refusal, RefuseConnection)
                assert reason in refusal.reason
        await publisher.publish({"x": 1})
        assert await received(subscriber, 1) == [0]
        assert all(row["connections"] == 1 for row in network.links["B2"].status())


@on_loop
async def test_two_brokers_of_one_name_do_not_take_the_link_from_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The later one has it until it disconnects; the other is told why it has none."""
    monkeypatch.setattr(dialling, "LONGEST_PAUSE_S", dialling.FIRST_PAUSE_S)
    async with live(LINE) as network:
        (row,) = network.links["B1"].status()
        assert row["connections"] == 1
        reader, writer = await asyncio.open_connection(*network.addresses["B2"])
        writer.write(Codec(CONTROLS).encode(Hello(PROTOCOL, "test", "B1", (50, 1), None, 0)))
        (first, *_) = FrameReader().feed(await reader.read(10_000))
        assert isinstance(Codec(CONTROLS).decode(first), Hello)
        why = "another process is B1, and is linked: two brokers have its name"
        await until(lambda: why in str(network.links["B1"].status()[0]["problem"]))
        await asyncio.sleep(10 * dialling.LONGEST_PAUSE_S)
        assert sum(row["connections"] for row in network.links["B2"].status()) == 3
        writer.close()
        await network.connected()


@on_loop
async def test_brokers_of_two_link_protocols_refuse_each_other_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialling, "LONGEST_PAUSE_S", dialling.FIRST_PAUSE_S)
    network = LiveNetwork(LINE, protocols={"B2": PROTOCOL + 1})

    def said(name: str, neighbour: str) -> str:
        (row,) = (each for each in network.links[name].status() if each["neighbour"] == neighbour)
        return str(row["problem"])

    try:
        for name in network.names:
            await network.start(name)
        # B1 connects to B2, and B2 to B3; both ends of each are told.
        why = "speaks link protocol"
        await until(lambda: all(why in said(*link) for link in (*LINE, *map(reversed, LINE))))
        advice = "start both with one version"
        assert said("B2", "B1") == f"B1 speaks link protocol 1, B2 speaks 2: {advice}"
        assert said("B1", "B2").endswith(f": {said('B2', 'B1')}")
        assert said("B3", "B2") == f"B2 speaks link protocol 2, B3 speaks 1: {advice}"
        await network.kill("B2")
        del network.protocols["B2"]
        await network.start("B2")
        await network.connected()
        assert not any(said(*link) for link in (*LINE, *map(reversed, LINE)))
    finally:
        for name in list(network.nodes):
            await network.kill(name)


@on_loop
async def test_garbage_in_the_middle_of_a_link_causes_a_new_connection() -> None:
    async with live(LINE) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await ready(network, 1)
        link = network.links["B1"]._links["B2"]
        assert link.connection is not None
        link.connection.write(framed(b"\x01\xc1"))
        await publisher.publish({"x": 1})
        await until(lambda: link.connections == 2)
        await publisher.publish({"x": 2})
        assert await received(subscriber, 2) == [0, 1]


@pytest.mark.parametrize("silent", ["B2", "B1"])
@on_loop
async def test_a_newer_connection_replaces_one_that_is_dead(silent: str) -> None:
    """The end that believes in the old one is told by the new one."""
    async with live((("B1", "B2"),)) as network:
        dialler = network.links["B1"]._links["B2"]
        assert dialler.connection is not None
        if silent == "B2":  # B2 does not notice that the connection is gone
            network.links["B1"]._drop_connection(dialler.connection)
        else:
            link = network.links["B2"]._links["B1"]
            assert link.connection is not None
            link.connection.abort()
        await until(lambda: dialler.connections == 2)
        await network.connected()
