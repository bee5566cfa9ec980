"""Mosquitto bridges to a network: each message arrives once on either side.

Every way in which mosquitto 2 can connect is a mosquitto with topics of its own; all run at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.client import Client
from tests.live.neighbours.listening import Listener, ends, settled
from tests.live.neighbours.mosquitto import Mosquitto, needs_mosquitto
from tests.runtime.live import on_asyncio
from tests.runtime.processes import Processes, processes

pytestmark = needs_mosquitto


class Way(NamedTuple):
    """The settings of one bridge."""

    version: str
    try_private: bool = True
    notifications: bool = True
    cleansession: bool = False

    @property
    def has_echo(self) -> bool:
        """A 3.1.1 bridge that does not declare itself receives its own publications."""
        return self.version != "mqttv50" and not (self.try_private or self.notifications)

    def lines(self, name: str, to: str, topics: str) -> str:
        words = {True: "true", False: "false"}
        return (
            f"connection {name}\naddress {to}\ntopic {topics}/# both 1\nrestart_timeout 1\n"
            f"remote_clientid {name}\nbridge_protocol_version {self.version}\n"
            f"try_private {words[self.try_private]}\n"
            f"notifications {words[self.notifications]}\n"
            f"cleansession {words[self.cleansession]}\n"
        )


WAYS = [
    *(Way(*each) for each in product(["mqttv311", "mqttv50"], *3 * [[True, False]])),
    Way("mqttv31"),
    Way("mqttv31", try_private=False),
]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("network"), 2) as found:
        yield found


def address(network: Processes, broker: str) -> str:
    return str(network.network.broker(broker).address("mqtt"))


@on_asyncio
async def test_each_message_arrives_once_on_either_side(network: Processes, tmp_path: Path) -> None:
    to = address(network, "B1")
    others: list[Mosquitto] = []
    try:
        for number, way in enumerate(WAYS):
            lines = way.lines(f"site{number}", to, f"mb{number}")
            others.append(Mosquitto(tmp_path / f"m{number}", lines))
        checks = [
            check(way, f"mb{number}", others[number].address, address(network, "B2"))
            for number, way in enumerate(WAYS)
        ]
        await asyncio.gather(*checks)
    finally:
        for other in others:
            other.stop()


async def check(way: Way, topics: str, theirs: str, ours: str) -> None:
    async with ends(topics, theirs, ours) as (there, here):
        await there.client.publish(f"{topics}/there", b"one", qos=1)
        await here.client.publish(f"{topics}/here", b"two", qos=1)
        for end, name in ((there, "there"), (here, "here")):
            await end.client.publish(f"{topics}/kept/{name}", b"three", qos=1, retain=True)
        await settled(there.listener, here.listener)
        expected = [
            (f"{topics}/here", b"two"),
            (f"{topics}/kept/here", b"three"),
            (f"{topics}/kept/there", b"three"),
            (f"{topics}/there", b"one"),
        ]
        assert sorted(each[:2] for each in here.listener.heard) == expected, way
        if way.has_echo:
            doubled = [each for each in expected if each[0].endswith("there")]
            expected = sorted(expected + doubled)
        assert sorted(each[:2] for each in there.listener.heard) == expected, way
    for each in (theirs, ours):
        if way.has_echo and each == theirs:
            continue  # messages that arrived while it was connected are not marked as retained
        found = Listener()
        async with Client(each, f"{topics}-late") as late:
            listening = asyncio.create_task(found.listen(late, f"{topics}/kept"))
            await settled(found)
            listening.cancel()
        kept = [(f"{topics}/kept/{name}", b"three", True) for name in ("here", "there")]
        assert sorted(found.heard) == kept, way


@on_asyncio
async def test_two_bridges_side_by_side_do_not_multiply_messages(
    network: Processes, tmp_path: Path
) -> None:
    first, second = (address(network, broker) for broker in ("B1", "B2"))
    lines = {
        "left": Way("mqttv50").lines("left", first, "side"),
        "right": Way("mqttv311").lines("right", second, "side"),
    }
    others = [Mosquitto(tmp_path / name, text) for name, text in lines.items()]
    try:
        async with ends("side", *(each.address for each in others), first, second) as found:
            for number, end in enumerate(found):
                await end.client.publish(f"side/{number}", b"x", qos=1)
            await settled(*(end.listener for end in found))
            once = [(f"side/{number}", b"x", False) for number in range(len(found))]
            assert [sorted(end.listener.heard) for end in found] == [once] * len(found)
    finally:
        for other in others:
            other.stop()
