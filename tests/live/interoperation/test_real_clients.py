"""Other projects' MQTT clients, as programs, against a network of three brokers.

`mosquitto_pub` and `mosquitto_sub` come with Debian's mosquitto-clients, mqtt.js with `npm install
mqtt` (node finds it as any module, NODE_PATH included). `tests/live/neighbours/` covers their
reconnects after kills.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.neighbours.programs import node_finds
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S

COUNT = 200
MQTT_JS = Path(__file__).with_name("mqtt_js.js")


needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_sub") is None,
    reason="mosquitto_sub is not installed (Debian: mosquitto-clients)",
)
needs_mqtt_js = pytest.mark.skipif(
    not node_finds("mqtt"), reason="node finds no mqtt.js (npm install mqtt)"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    folder = tmp_path_factory.mktemp("network")
    with up(folder, "--brokers", "3", "--websockets") as processes:
        asyncio.run(processes.whole())
        yield processes


def subscriptions(network: Processes) -> int:
    """The number of subscriptions that B1 knows."""
    status = asyncio.run(network.status("B1"))
    return int(status["tables"]["subscriptions"])


def through(network: Processes, subscriber: Sequence[str], *publishers: Sequence[str]) -> list[str]:
    """The output of a subscriber; publishers start when B1 knows its subscription."""
    before = subscriptions(network)
    with subprocess.Popen(subscriber, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        try:
            while subscriptions(network) == before:
                assert reading.poll() is None, "the subscriber has ended"
            for publisher in publishers:
                lines = "".join(f"{number}\n" for number in range(COUNT))
                subprocess.run(
                    publisher, input=lines, text=True, check=True, timeout=3 * PATIENCE_S
                )
            text, _ = reading.communicate(timeout=3 * PATIENCE_S)
        finally:
            reading.kill()
    assert reading.returncode == 0
    while subscriptions(network) != before:
        pass
    return text.splitlines()


def mosquitto(network: Processes, broker: str, program: str, *options: str) -> list[str]:
    host, _, port = network.address(broker).rpartition(":")
    return [f"mosquitto_{program}", "-h", host, "-p", port, *options]


EXPECTED = [str(number) for number in range(COUNT)]


@needs_mosquitto
@pytest.mark.parametrize("qos", ["0", "2"])
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto_sub_receives_from_mosquitto_pub(
    network: Processes, version: str, qos: str
) -> None:
    common = ("-V", version, "-q", qos)
    found = through(
        network,
        mosquitto(network, "B3", "sub", *common, "-t", "m/#", "-C", str(COUNT)),
        mosquitto(network, "B2", "pub", *common, "-t", "m/1", "-l"),
    )
    assert found == EXPECTED


@needs_mosquitto
def test_mosquitto_sub_filters_by_content(network: Processes) -> None:
    where = ("-D", "subscribe", "user-property", "$where", "carrier = 'UA' AND delay > 30")
    publishers = [
        mosquitto(
            network,
            *("B2", "pub", "-V", "mqttv5", "-t", "flights", "-m", f"{carrier} {delay}", "-q", "1"),
            *("-D", "publish", "user-property", "carrier", carrier),
            *("-D", "publish", "user-property", "delay", delay),
        )
        for carrier, delay in (("UA", "10"), ("AA", "40"), ("UA", "31"), ("UA", "99"))
    ]
    subscriber = mosquitto(network, "B3", "sub", "-V", "mqttv5", "-t", "flights", "-C", "2", *where)
    assert through(network, subscriber, *publishers) == ["UA 31", "UA 99"]


@needs_mosquitto
@pytest.mark.parametrize("group", ["", "$share/g/"])
def test_mosquitto_sub_of_3_1_1_filters_by_content(network: Processes, group: str) -> None:
    publishers = [
        mosquitto(
            network,
            *("B2", "pub", "-V", "mqttv5", "-t", "late/1", "-m", delay, "-q", "1"),
            *("-D", "publish", "user-property", "delay", delay),
        )
        for delay in ("10", "31", "30", "99")
    ]
    topic_filter = f"{group}$where/delay > 30/late/+"
    # Brokers' tables do not contain the members of a group, so the second subscription shows that
    # the first is known.
    options = ("-V", "mqttv311", "-t", topic_filter, "-t", "known", "-C", "2")
    assert through(network, mosquitto(network, "B3", "sub", *options), *publishers) == ["31", "99"]


@needs_mqtt_js
@pytest.mark.parametrize(
    ("scheme", "version", "qos"), [("ws", "4", "1"), ("ws", "5", "2"), ("mqtt", "5", "2")]
)
def test_mqtt_js_receives_and_publishes(
    network: Processes, scheme: str, version: str, qos: str
) -> None:
    program = ["node", str(MQTT_JS)]
    urls = []
    for broker in ("B3", "B2"):
        section = network.network.broker(broker)
        address = section.mqtt if scheme == "mqtt" else section.websocket
        urls.append(f"{scheme}://{address}/mqtt")
    found = through(
        network,
        [*program, urls[0], version, "subscribe", "j/+", qos, str(COUNT)],
        [*program, urls[1], version, "publish", "j/1", qos, str(COUNT)],
    )
    assert found == EXPECTED


@needs_mqtt_js
def test_mqtt_js_filters_by_content(network: Processes) -> None:
    one, other = (f"mqtt://{network.address(broker)}" for broker in ("B3", "B2"))
    wanted = str(COUNT - 150)
    found = through(
        network,
        ["node", str(MQTT_JS), one, "5", "subscribe", "k", "1", wanted, "x >= 150"],
        ["node", str(MQTT_JS), other, "5", "publish", "k", "1", str(COUNT)],
    )
    assert found == EXPECTED[150:]


@needs_mqtt_js
@pytest.mark.parametrize("group", ["", "$share/g/"])
def test_mqtt_js_of_3_1_1_filters_by_content(network: Processes, group: str) -> None:
    one, other = (f"mqtt://{network.address(broker)}" for broker in ("B3", "B2"))
    topic_filter = f"{group}$where/x >= 150/l/+"
    found = through(
        network,
        ["node", str(MQTT_JS), one, "4", "subscribe", topic_filter, "1", str(COUNT - 150)],
        ["node", str(MQTT_JS), other, "5", "publish", "l/1", "1", str(COUNT)],
    )
    assert found == EXPECTED[150:]
