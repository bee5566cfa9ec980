"""Client libraries choose a handler by topic, and so handle messages of content filters.

`tests/docs` runs the Python examples of docs/how-to/mqtt-clients.md; the mqtt.js example runs here.
"""

from __future__ import annotations

import asyncio
import queue
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.docs.blocks import ROOT, blocks
from tests.live.interoperation.test_real_clients import needs_mqtt_js
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with up(tmp_path_factory.mktemp("broker"), "--brokers", "1") as processes:
        asyncio.run(processes.whole())
        yield processes


def place(broker: Processes) -> tuple[str, int]:
    host, _, port = broker.address("B1").rpartition(":")
    return host, int(port)


def where(text: str, identifier: int | None = None) -> Properties:
    properties = Properties(PacketTypes.SUBSCRIBE)
    properties.UserProperty = ("$where", text)
    if identifier is not None:
        properties.SubscriptionIdentifier = identifier
    return properties


class Paho:
    """A client with a handler for each of some topic filters."""

    def __init__(self, broker: Processes, version: int, *handled: str) -> None:
        self.arrived: queue.Queue[tuple[str, paho.MQTTMessage]] = queue.Queue()
        granted: queue.Queue[None] = queue.Queue()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=version)
        self.client.on_message = self.handler("nobody's")
        self.client.on_subscribe = lambda *_: granted.put(None)
        for each in handled:
            self.client.message_callback_add(each, self.handler(each))
        self.granted = granted
        self.client.connect(*place(broker))
        self.client.loop_start()

    def handler(self, name: str) -> paho.CallbackOnMessage:
        return lambda _client, _data, message: self.arrived.put((name, message))

    def subscribe(self, text: str, properties: Properties | None = None) -> None:
        self.client.subscribe(text, qos=1, properties=properties)
        self.granted.get(timeout=PATIENCE_S)

    def publish(self, topic: str, *payloads: str) -> None:
        for payload in payloads:
            self.client.publish(topic, payload, qos=1)

    def take(self, count: int) -> list[tuple[str, paho.MQTTMessage]]:
        return [self.arrived.get(timeout=PATIENCE_S) for _ in range(count)]

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.mark.parametrize(
    ("version", "text", "properties"),
    [
        (paho.MQTTv5, "flights/+", where("dep_delay > 30")),
        (paho.MQTTv5, "$where/dep_delay>30/flights/+", None),
        (paho.MQTTv311, "$where/dep_delay>30/flights/+", None),
        (paho.MQTTv311, "flights/UA?dep_delay>30", None),
        (paho.MQTTv311, "$share/g/$where/dep_delay>30/flights/+", None),
    ],
)
def test_paho_calls_the_topics_handler_for_a_content_filter(
    broker: Processes, version: int, text: str, properties: Properties | None
) -> None:
    client = Paho(broker, version, "flights/+")
    try:
        client.subscribe(text, properties)
        client.publish("flights/UA", '{"dep_delay": 7}', '{"dep_delay": 41}')
        [(handler, message)] = client.take(1)
        assert (handler, message.topic) == ("flights/+", "flights/UA")
        assert message.payload == b'{"dep_delay": 41}'
    finally:
        client.stop()


def test_subscription_identifiers_distinguish_two_filters_on_one_topic(broker: Processes) -> None:
    client = Paho(broker, paho.MQTTv5, "flights/+")
    try:
        client.subscribe("flights/+", where("dep_delay > 30", 1))
        client.subscribe("$where/carrier=UA/flights/+", where("TRUE", 2))
        client.publish("flights/x", '{"dep_delay": 41}', '{"carrier": "UA"}')
        client.publish("flights/x", '{"dep_delay": 41, "carrier": "UA"}')
        found = [message.properties.SubscriptionIdentifier for _, message in client.take(3)]
        assert [sorted(each) for each in found] == [[1], [2], [1, 2]]
    finally:
        client.stop()


@pytest.mark.parametrize("text", ["$where/dep_delay>30/flights/+", "flights/UA?dep_delay>30"])
def test_aiomqtt_matches_the_topic_of_a_content_filter(broker: Processes, text: str) -> None:
    async def run() -> None:
        host, port = place(broker)
        async with asyncio.timeout(PATIENCE_S), aiomqtt.Client(host, port) as client:
            await client.subscribe(text, qos=1)
            for minutes in (7, 41):
                await client.publish("flights/UA", f'{{"dep_delay": {minutes}}}', qos=1)
            message = await anext(aiter(client.messages))
            assert message.topic.matches("flights/+")
            assert not message.topic.matches(text)
            assert message.payload == b'{"dep_delay": 41}'

    asyncio.run(run())


def test_shoals_client_calls_a_groups_handler_by_its_query(
    broker: Processes,
) -> None:
    """Node-RED's `mqtt in` matches in the same way, with a regular expression of its own."""
    text = "$share/late?dep_delay>30/flights/+"

    async def run() -> None:
        host, port = place(broker)
        async with asyncio.timeout(PATIENCE_S), aiomqtt.Client(host, port) as client:
            await client.subscribe(text, qos=1)
            for minutes in (7, 41):
                await client.publish("flights/UA", f'{{"dep_delay": {minutes}}}', qos=1)
            message = await anext(aiter(client.messages))
            assert message.topic.matches(text)
            assert message.payload == b'{"dep_delay": 41}'

    asyncio.run(run())
    topic_filter = re.sub(r"^\$share/[^#+/]+/(.*)", r"\1", text)  # as in its 10-mqtt.js
    assert re.fullmatch(topic_filter.replace("+", "[^/]+"), "flights/UA")


@needs_mqtt_js
def test_the_mqtt_js_example_runs(broker: Processes, tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/mqtt-clients.md"
    (block,) = (each for each in blocks(page) if each.language == "js")
    text = re.sub(r"mqtt://[0-9.:]+", f"mqtt://{broker.address('B1')}", block.text)
    program = Path(__file__).with_name(f"page-{tmp_path.name}.js")  # for node's module search
    program.write_text(text)
    client = Paho(broker, paho.MQTTv5)
    try:
        with subprocess.Popen(["node", str(program)], stdout=subprocess.PIPE, text=True) as reading:
            assert reading.stdout is not None
            assert reading.stdout.readline() == "subscribed\n"
            client.publish("flights/UA", '{"dep_delay": 7}', '{"dep_delay": 41}')
            assert reading.stdout.readline() == 'flights/UA {"dep_delay": 41}\n'
            reading.kill()
    finally:
        program.unlink()
        client.stop()
