"""A restarted broker recognises publications that it had delivered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Deliver
from shoal.broker.messages import RoutedPublication
from shoal.model import MessageId, Publication
from shoal.mqtt.codec.properties import NO_PROPERTIES
from shoal.mqtt.front_end.network import write_body
from shoal.mqtt.messages import PublishedMessage
from shoal.runtime.broker_service import BrokerService
from tests.live.crowds.moved_clients import properties
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network, running

PUBLISHER = "$mqtt/B2"


def publication(topic: str, number: int) -> Publication:
    """A publication of another broker's front end."""
    message = PublishedMessage(topic, b"%d" % number, "p", 0, 2, False, NO_PROPERTIES, None)
    return Publication(
        publisher=PUBLISHER,
        sequence=number,
        published_us=0,
        attributes={"$topic": topic},
        body=write_body(message),
        assured=True,
    )


def deliver(service: BrokerService, *publications: Publication) -> None:
    assert service.front_end.clients.front_end is not None
    for each in publications:
        routed = RoutedPublication(each, MessageId("B2", PUBLISHER, each.sequence))
        service.front_end.deliver(
            Deliver(service.front_end.clients.front_end.client, routed, ("s",), 1)
        )
    service.node.schedule_flush()


@pytest.mark.parametrize("order", ["publisher", "topic"])
@on_asyncio
async def test_deliveries_before_a_restart_are_not_repeated(tmp_path: Path, order: str) -> None:
    changes: dict[str, Any] = {"storage": {"folder": str(tmp_path), "sync": "never"}}
    ring = network(2, system="dynatops", links=[], dynatops={"order": order}, **changes)
    first, second, third = publication("a", 5), publication("b", 6), publication("a", 7)
    got: list[object] = []
    async with asyncio.timeout(PATIENCE_S):
        for said in ([first, second], [marked(first), marked(second), marked(third)]):
            async with running(ring, "B1") as (one,):
                client = aiomqtt.Client(
                    "127.0.0.1",
                    one.listening["mqtt"].port,
                    identifier="c",
                    protocol=aiomqtt.ProtocolVersion.V5,
                    clean_start=not got,  # an unknown client waits for the other broker
                    properties=properties(follows=False),
                )
                async with client:
                    if not got:
                        # The other broker is down, so no answer about the client comes.
                        subscribing = asyncio.create_task(client.subscribe([("a", 2), ("b", 2)]))
                        await until(lambda: one.front_end.clients.subscriptions.count == 2)
                        subscribing.cancel()
                    deliver(one, *said)
                    messages, last = aiter(client.messages), b"%d" % said[-1].sequence
                    while got[-1:] != [last]:
                        got.append((await anext(messages)).payload)
    assert got == [b"5", b"6", b"7"]
