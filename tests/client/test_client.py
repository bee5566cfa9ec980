"""The Python client against live brokers: content, lost connections, a redirect, refusals."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.client import Client, ClientError, Keep, Subscription, Will
from shoal.client.attributes import plain_text
from shoal.client.client import MAX_REDIRECTIONS
from shoal.client.inbox import MAX_UNREAD
from shoal.client.terms import Version
from shoal.language import FilterSyntaxError, read_plain_value
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connack, Disconnect, Suback
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.examples import at_length
from tests.runtime.front_ends.test_mqtt_front_end import MqttNetwork, mqtt
from tests.runtime.live import PATIENCE_S, on_asyncio, on_loop, until
from tests.strategies import VALUES


async def payloads(subscription: Subscription, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await subscription.get()).payload for _ in range(count)]


def at(network: MqttNetwork, broker: str, name: str = "") -> Client:
    return Client(str(network.addresses[broker]), name)


@on_loop
async def test_content_filters_select_across_brokers() -> None:
    async with mqtt() as network, at(network, "B3") as reader, at(network, "B1") as writer:
        where = "carrier = 'UA' AND dep_delay > 30"
        async with reader.subscribe("flights", where) as late:
            await network.knows("B1", 4)
            for minutes in range(0, 60, 10):
                attributes = {"carrier": "UA", "dep_delay": minutes}
                await writer.publish("flights", b"%d" % minutes, attributes=attributes)
            assert await payloads(late, 2) == [b"40", b"50"]
        await network.knows("B1", 3)
        assert reader.client_id
        assert reader.client_id != writer.client_id


@on_loop
async def test_a_publication_at_qos_0_is_written_at_once() -> None:
    async with mqtt() as network, at(network, "B1") as writer:
        await writer.publish("a", b"first", qos=1)
        await writer.publish("a", b"alone", qos=0)
        assert writer._session.to_write() == b""


@on_loop
async def test_a_cancelled_wait_loses_nothing() -> None:
    async with mqtt() as network, at(network, "B1") as client:
        subscription = client.subscribe("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await subscription.granted()
        await subscription.granted()
        for number in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await subscription.get()
            await client.publish("a", b"%d" % number)
            assert await payloads(subscription, 1) == [b"%d" % number]


@on_loop
async def test_an_ended_subscription_ends_its_waits() -> None:
    async with mqtt() as network, at(network, "B1") as client:
        subscription = client.subscribe("a")
        await subscription.granted()
        waiting = asyncio.create_task(subscription.get())
        await asyncio.sleep(0)
        await subscription.close()
        with pytest.raises(ClientError, match="subscription has ended"):
            await waiting


@on_loop
async def test_iterating_ends_with_the_subscription_or_its_client() -> None:
    async def found(subscription: Subscription) -> list[bytes]:
        return [message.payload async for message in subscription]

    async with mqtt() as network:
        async with at(network, "B1") as client:
            first, second = client.subscribe("a"), client.subscribe("b")
            for subscription in (first, second):
                await subscription.granted()
            iterating = [asyncio.create_task(found(each)) for each in (first, second)]
            await client.publish("b", b"x")
            await until(lambda: not second.messages)
            await first.close()
            assert await iterating[0] == []
        assert await iterating[1] == [b"x"]


@pytest.mark.parametrize("qos", [2, *at_length([1])])
@on_asyncio
async def test_lost_connections_lose_nothing(qos: int) -> None:
    async with (
        mqtt() as network,
        at(network, "B3", "r") as reader,
        at(network, "B1", "w") as writer,
        reader.subscribe("a", qos=qos) as subscription,
    ):
        await network.knows("B1", 4)

        async def publish() -> None:
            for number in range(300):
                await writer.publish("a", b"%d" % number, qos=qos)

        publishing = asyncio.create_task(publish())
        found: list[int] = []
        for _ in range(6):
            found += [int(each) for each in await payloads(subscription, 40)]
            for client in (reader, writer):
                if client._socket is not None:
                    client._socket._transport.abort()
        while not found or found[-1] < 299:
            found += [int(each) for each in await payloads(subscription, 1)]
        await publishing
        assert list(dict.fromkeys(found)) == list(range(300))
        if qos == 2:
            assert len(found) == 300


@on_loop
async def test_a_lost_connection_is_logged_once_and_so_is_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "shoal.client")

    def said() -> list[str]:
        return [
            each.getMessage().partition(": ")[2]
            for each in caplog.records
            if each.name.startswith("shoal.client")
        ]

    async with mqtt() as network, at(network, "B1", "r") as reader:
        assert said() == []
        assert reader._socket is not None
        reader._socket._transport.abort()
        await until(lambda: len(said()) == 2)
        assert said() == ["the connection is lost; trying again", "connected again"]
    assert len(said()) == 2


@on_loop
async def test_a_restarted_broker_is_sent_subscriptions_again() -> None:
    async with (
        mqtt() as network,
        at(network, "B3", "r") as reader,
        at(network, "B3") as writer,
        reader.subscribe("a/+") as subscription,
    ):
        await writer.publish("a/b", b"0")
        assert await payloads(subscription, 1) == [b"0"]
        front_end = network.front_ends["B3"]
        connection = next(each for each in front_end._sockets if each.client_id == "r")
        goodbye = Disconnect(properties=Properties(session_expiry_interval_s=0))
        front_end.received(connection, encode(goodbye, MQTT_5))  # as if the client had ended it
        while connection in front_end._sockets or not front_end.clients.subscriptions.count:
            await asyncio.sleep(0.01)
        await writer.publish("a/b", b"1")
        assert await payloads(subscription, 1) == [b"1"]


@on_loop
async def test_a_client_follows_a_redirect() -> None:
    async with (
        mqtt() as network,
        at(network, "B1", "mover") as mover,
        at(network, "B2") as reader,
        reader.subscribe("a") as subscription,
    ):
        await network.knows("B1", 4)
        for number, target in enumerate(("B3", "B2", "B1")):
            await mover.publish("a", b"%d" % number)
            for front_end in network.front_ends.values():
                for connection in list(front_end._sockets):
                    if connection.client_id == "mover":
                        now_us = front_end.node.clock.now_us()
                        where = str(network.addresses[target])
                        front_end.carry_out(connection.redirect(where, now_us))
            while mover.address != str(network.addresses[target]) or not mover._up.is_set():
                await asyncio.sleep(0.01)
        assert await payloads(subscription, 3) == [b"0", b"1", b"2"]
        assert mover.redirections == 3 < MAX_REDIRECTIONS


@on_loop
async def test_a_slow_reader_loses_nothing() -> None:
    async with (
        mqtt() as network,
        at(network, "B1") as reader,
        at(network, "B1") as writer,
        reader.subscribe("a", qos=1) as subscription,
    ):
        for _ in range(30):
            await asyncio.gather(*(writer.publish("a", b"x" * 1_000) for _ in range(100)))
        await asyncio.sleep(0.05)
        assert reader._inbox.unread < 2 * MAX_UNREAD
        assert await payloads(subscription, 3_000) == [b"x" * 1_000] * 3_000


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", ["5", "3.1.1"])
@on_loop
async def test_a_lasting_session_continues_beyond_its_window(qos: int, version: Version) -> None:
    """A client that does not acknowledge must not stop after a window of 100 messages."""
    async with mqtt() as network, at(network, "B1") as writer:
        address = str(network.addresses["B1"])
        sent = [b"%d" % number for number in range(150)]
        async with Client(address, "kept", keep=Keep(seconds=60), version=version) as reader:
            subscription = reader.subscribe("a", qos=qos)
            await subscription.granted()
            await asyncio.gather(*(writer.publish("a", each, qos=qos) for each in sent))
            assert await payloads(subscription, 110) == sent[:110]
        reader = Client(address, "kept", keep=Keep(seconds=60), version=version)
        subscription = reader.subscribe("a", qos=qos)
        async with reader:
            assert await payloads(subscription, 40) == sent[110:]


@pytest.mark.parametrize("qos", [1, 2])
@on_loop
async def test_explicitly_acknowledged_messages_are_answered_by_qos(qos: int) -> None:
    """At QoS 2 the broker expects PUBREC and PUBCOMP."""
    keep = Keep(seconds=60, window=3, manual_ack=True)
    async with mqtt() as network, at(network, "B1") as writer:
        address = str(network.addresses["B1"])
        async with Client(address, "kept", keep=keep) as reader:
            first, both = reader.subscribe("a/+", qos=qos), reader.subscribe("a/#", qos=qos)
            await both.granted()
            for number in range(6):
                await writer.publish("a/b", b"%d" % number, qos=qos)
            got = [await first.get() for _ in range(3)]
            await reader.unsubscribe(both)  # the other client's messages are queued there
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await first.get()
            for message in (*got[:2], got[0]):
                reader.acknowledge(message)
            assert await payloads(first, 2) == [b"3", b"4"]
            assert reader.connections == 1
        reader = Client(address, "kept", keep=keep)
        again = reader.subscribe("a/+", qos=qos)
        async with reader:
            assert await payloads(again, 3) == [b"2", b"3", b"4"]


@on_loop
async def test_unread_messages_of_an_ended_subscription_fill_no_window() -> None:
    keep = Keep(seconds=60, window=3)
    async with (
        mqtt() as network,
        at(network, "B1") as writer,
        Client(str(network.addresses["B1"]), "kept", keep=keep) as reader,
    ):
        unread, other = reader.subscribe("a/+"), reader.subscribe("b")
        await other.granted()
        for number in range(3):
            await writer.publish("a/b", b"%d" % number)
        await until(lambda: len(unread.messages) == 3)
        await writer.publish("b", b"x")
        await reader.unsubscribe(unread)
        assert await payloads(other, 1) == [b"x"]


@on_loop
async def test_refusals_are_errors() -> None:
    async with mqtt() as network:
        with pytest.raises(ClientError, match="client identifiers that begin with"):
            async with at(network, "B1", "$mqtt/me"):
                pass
        async with at(network, "B1") as client:
            with pytest.raises(FilterSyntaxError):
                client.subscribe("a", "x >")
            with pytest.raises(ValueError, match="# stands for all levels"):
                client.subscribe("a/#/b")
            with pytest.raises(ValueError, match="nothing can be published to it"):
                await client.publish("a/+")
            with pytest.raises(TypeError, match=r"payload is bytes, not str; text.encode\(\)"):
                await client.publish("a", "text")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="payload is bytes, not dict"):
                await client.publish("a", {"x": 1})  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"a filter is a text such as .* not int"):
                client.subscribe("a", 5)  # type: ignore[arg-type]
            with pytest.raises(ClientError, match="topic filter invalid"):
                await client.subscribe("a?x>").granted()
            with pytest.raises(ValueError, match="has no form as a user property"):
                await client.publish("a", attributes={"x": float("inf")})
            with pytest.raises(ValueError, match="attribute name ''"):
                await client.publish("a", attributes={"": 1})
            with pytest.raises(ValueError, match="'\\$topic': names that begin with \\$"):
                await client.publish("a", attributes={"$topic": "b"})
            with pytest.raises(ValueError, match="qos is 0, 1 or 2, not 3"):
                await client.publish("a", qos=3)
            with pytest.raises(ValueError, match="qos is 0, 1 or 2, not 5"):
                client.subscribe("a", qos=5)
        with pytest.raises(ClientError, match="the client is closed"):
            await client.publish("a")


@on_loop
async def test_requests_without_a_connection_are_errors() -> None:
    """No answer can come, so it is not waited for."""
    async with mqtt() as network:
        client = at(network, "B1")
        with pytest.raises(ClientError, match="use it in `async with client:`"):
            await client.publish("a")
        subscription = client.subscribe("a")
        with pytest.raises(ClientError, match="use it in `async with client:`"):
            await subscription.granted()
        with pytest.raises(ClientError, match="use it in `async with client:`"):
            await subscription.get()
        async with client:
            await subscription.granted()  # requested before, granted only here
        for _ in range(2):
            with pytest.raises(ClientError, match="the client is closed"):
                client.subscribe("a")
        with pytest.raises(ClientError, match="the client is closed"):
            await subscription.get()


@on_loop
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_only_a_too_large_publication_is_refused(qos: int) -> None:
    """The broker would close the connection at each retransmission."""
    async with mqtt() as network, at(network, "B1") as client, client.subscribe("a") as found:
        size = network.front_ends["B1"].clients.limits.maximum_packet_size
        before = client.publish("a", b"before")
        too_large = client.publish("a", b"x" * size, qos=qos)
        await before
        with pytest.raises(ClientError, match=f"packet too large: .* takes {size:,} at most"):
            await too_large
        await client.publish("a", b"after", qos=1)
        assert await payloads(found, 2) == [b"before", b"after"]
        assert client.connections == 1


@on_loop
async def test_an_unencodable_publication_blocks_nothing() -> None:
    async with mqtt() as network, at(network, "B1") as client, client.subscribe("a") as found:
        with pytest.raises(ValueError, match="70000 bytes; MQTT strings"):
            await client.publish("a", attributes={"x": "y" * 70_000})
        with pytest.raises(ValueError, match=r"U\+0000"):
            await client.publish("a", content_type="\0", qos=2)
        with pytest.raises(ValueError, match="MQTT strings"):
            client.subscribe("a", "x = '" + "é" * 40_000 + "'")
        client._socket.close()  # type: ignore[union-attr]
        await client.publish("a", b"x", qos=1)
        assert await payloads(found, 1) == [b"x"]


@on_loop
async def test_two_clients_of_one_name_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        mqtt() as network,
        at(network, "B1", "same") as one,
        at(network, "B1", "same") as two,
    ):
        async with asyncio.timeout(PATIENCE_S):
            while one.connections + two.connections < 6:
                await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        begun_s, begun = loop.time(), one.connections + two.connections
        await asyncio.sleep(1)
        # Each pause is twice the one before, so few of six are short.
        assert one.connections + two.connections - begun <= 2 * (loop.time() - begun_s) / 0.3
    assert "another client connects as 'same'; a name is for one client" in caplog.text


@on_loop
async def test_a_will_is_published_after_a_lost_connection() -> None:
    async with mqtt() as network, at(network, "B2") as reader, reader.subscribe("gone/#") as gone:
        address = str(network.addresses["B1"])
        async with Client(address, "polite", will=Will(topic="gone/polite")):
            pass
        client = Client(address, "killed", will=Will(topic="gone/killed", payload=b"!", qos=2))
        async with client:
            assert client._running is not None
            client._running.cancel()
            assert client._socket is not None
            client._socket.close()
            async with asyncio.timeout(PATIENCE_S):
                message = await gone.get()
            assert (message.topic, message.payload) == ("gone/killed", b"!")


def test_invalid_wills_and_options_are_errors() -> None:
    with pytest.raises(ValueError, match="nothing can be published to it"):
        Client("127.0.0.1", will=Will(topic="a/#"))
    with pytest.raises(ValueError, match="70000 bytes"):
        Client("127.0.0.1", will=Will(topic="a", payload=b"x" * 70_000))
    with pytest.raises(ValueError, match=r"MQTT 3\.1\.1 has none"):
        Client("127.0.0.1", version="3.1.1", will=Will(topic="a", delay_s=5))
    with pytest.raises(ValueError, match=r"U\+0000"):
        Client("127.0.0.1", "a\0")


@on_loop
async def test_an_advertisement_narrows_the_subscriptions_at_its_broker() -> None:
    async with mqtt() as network, at(network, "B3") as reader:
        front_end = network.network.nodes["B1"].machine.strategy.tables
        before = len(front_end.advertisements)
        promise = "carrier = 'UA' AND dep_delay >= 0"
        with pytest.raises(FilterSyntaxError):
            Client("127.0.0.1:1", advertise=["x >"])
        address = str(network.addresses["B1"])
        async with (
            Client(address, "flights", advertise=[promise]) as writer,
            reader.subscribe("late", "dep_delay > 30") as late,
        ):
            await network.knows("B1", 4)
            assert len(front_end.advertisements) == before + 1
            await writer.publish("late", attributes={"carrier": "UA", "dep_delay": 41})
            assert (await late.get()).attributes == {"carrier": "UA", "dep_delay": "41"}


@on_loop
async def test_no_broker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.client.client.CONNECT_TIMEOUT_S", 0.2)
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1: no broker answers"):
        async with Client("127.0.0.1:1"):
            pass


@on_loop
async def test_an_unknown_host_name_is_an_error_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that may be resolved later is retried."""
    for code, attempts in ((socket.EAI_NONAME, [1]), (socket.EAI_AGAIN, range(2, 100))):
        asked = 0

        async def resolve(*_: object, code: int = code, **__: object) -> None:
            nonlocal asked
            asked += 1
            raise socket.gaierror(code, "name unknown")

        monkeypatch.setattr("shoal.client.client.CONNECT_TIMEOUT_S", 1.0)
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", resolve)
        words = r"b1\.example: .*the name cannot be resolved \(name unknown\)"
        with pytest.raises(ClientError, match=words):
            async with Client("b1.example"):
                pass
        assert asked in attempts


@on_loop
async def test_a_broker_that_closes_at_once_may_use_an_older_mqtt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.client.client.CONNECT_TIMEOUT_S", 1.0)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for version, is_said in (("5", True), ("3.1.1", False)):
        with pytest.raises(ClientError) as caught:
            async with Client(f"127.0.0.1:{port}", version=version):
                pass
        words = "closes the connection; does it speak MQTT 3.1.1 only?"
        assert (words in str(caught.value)) == is_said
    server.close()


@on_loop
async def test_stopping_does_not_wait_for_a_hanging_broker() -> None:
    """`shoal subscribe` must end at Ctrl-C."""
    answers = iter((encode(Connack(), MQTT_5), encode(Suback(1, (ReasonCode(1),)), MQTT_5)))

    async def grant(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(10_000)
            writer.write(answer)
        await asyncio.sleep(PATIENCE_S)

    async def read(granted: asyncio.Event) -> None:
        async with Client(f"127.0.0.1:{port}") as client, client.subscribe("a") as subscription:
            granted.set()
            await subscription.get()

    server = await asyncio.start_server(grant, "127.0.0.1", 0)
    port, granted = server.sockets[0].getsockname()[1], asyncio.Event()
    reading = asyncio.create_task(read(granted))
    await granted.wait()
    reading.cancel()
    done, _ = await asyncio.wait([reading], timeout=PATIENCE_S / 2)
    server.close()
    assert done


@given(VALUES.filter(lambda value: value == value and abs(value) != float("inf")
       if isinstance(value, float) else True) | st.text())  # fmt: skip
def test_values_read_back_equal(value: bool | int | float | str) -> None:
    read = read_plain_value(plain_text(value))
    assert (type(read), read) == (type(value), value)


def test_the_package_exports_the_client() -> None:
    assert shoal.Client is Client
    assert (shoal.ClientError, shoal.Will) == (ClientError, Will)
    assert all(hasattr(shoal, name) for name in shoal.client.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Server'"):
        _ = shoal.Server
