"""Late subscribers of live brokers: the past by topic and content, by the subscriber's rules."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.client import Client, ClientError
from shoal.client.subscription import Subscription
from shoal.log.publication_log import LogSettings, PublicationLog
from shoal.log.records import LogRecord, read_records
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.messages import PublishedMessage
from shoal.runtime.storage.log_writer import LogPolicy, LogWriter
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.log_serving.test_log_serving import logging_network
from tests.runtime.one_service import network, running


async def taken(subscription: Subscription, count: int) -> list[bytes]:
    return [(await subscription.get()).payload for _ in range(count)]


@on_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_a_late_subscriber_gets_the_past_of_all_brokers_and_then_live(
    tmp_path: Path, count: int
) -> None:
    net = logging_network(tmp_path, count)
    names = [each.name for each in net.brokers]
    async with asyncio.timeout(PATIENCE_S), running(net, *names) as services:
        await until(lambda: not any(each.missing() for each in services))
        begin = datetime.now(UTC)
        async with (
            Client(str(services[0].listening["mqtt"]), "one") as one,
            Client(str(services[-1].listening["mqtt"]), "other") as other,
        ):
            for number in range(400):
                publisher = (one, other)[number % 2]
                await publisher.publish("a/b", b'{"x": %d}' % number, qos=1)
            last = 400
            for since in ("earliest", "-1h", timedelta(hours=1), begin):
                async with (
                    Client(str(services[-1].listening["mqtt"])) as client,
                    client.subscribe("a/#", "x >= 390", since=since) as subscription,
                ):
                    expected = [b'{"x": %d}' % number for number in range(390, last)]
                    assert await taken(subscription, last - 390) == expected
                    await one.publish("a/b", b'{"x": %d}' % last, qos=1)
                    assert await taken(subscription, 1) == [b'{"x": %d}' % last]
                    last += 1


@on_loop
async def test_the_rules_of_the_subscriber_hold_and_refusals_have_reasons(tmp_path: Path) -> None:
    rules = {"anonymous": True, "rules": [{"user": "*", "subscribe": ["open/#"], "publish": ["#"]}]}
    net = logging_network(tmp_path, access=rules)
    async with (
        asyncio.timeout(PATIENCE_S),
        running(net, "B1") as (service,),
        Client(str(service.listening["mqtt"])) as client,
    ):
        await client.publish("open/a", b"yes", qos=1)
        await client.publish("closed/a", b"no", qos=1)
        async with client.subscribe("open/#", since="-1h") as subscription:
            assert await taken(subscription, 1) == [b"yes"]
        for topics in ("closed/#", "#"):
            with pytest.raises(ClientError, match="permission"):
                await client.subscribe(topics, since="-1h").granted()
        with pytest.raises(ClientError, match="shared subscription"):
            await client.subscribe("$share/g/open/#", since="-1h").granted()
        with pytest.raises(ValueError, match="write earliest"):
            client.subscribe("open/#", since="yesterday")


@on_loop
async def test_without_a_log_the_reason_says_so() -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        running(network(1), "B1") as (service,),
        Client(str(service.listening["mqtt"])) as client,
    ):
        with pytest.raises(ClientError, match="no broker of this network keeps a log"):
            await client.subscribe("a", since="-1h").granted()


def test_the_log_gets_what_a_restart_sends_again_and_it_lacks(tmp_path: Path) -> None:
    """A kill may come between the journal's write and the log's."""
    log = PublicationLog(tmp_path, "net", "B1", LogSettings(), now_us=5)
    log.write([LogRecord(6, "p", 41, "a", b"logged")])
    clients = BrokerClients("B1", 50, networked=True)
    front_end = clients.front_end
    assert isinstance(front_end, FrontEnd)
    for number, payload in ((41, b"logged"), (42, b"lacking")):
        message = PublishedMessage("a", payload, "p", 7, qos=2)
        message.key = (front_end.client, number)
        owed: Any = SimpleNamespace(message=message)
        front_end.publish_again(owed)
    node: Any = SimpleNamespace(clock=SimpleNamespace(now_us=lambda: 50))
    writer = LogWriter(node, clients, log, LogPolicy())
    assert writer.write()
    entries = [each for block in log.blocks(0) for each in read_records(block)]
    assert all(isinstance(each, LogRecord) for each in entries)
    assert [(each.number, each.payload) for each in entries] == [(41, b"logged"), (42, b"lacking")]
    log.close()
