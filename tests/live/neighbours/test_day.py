"""A compressed day of other projects' software, with a broker that is killed and returns.

All clients connect to one broker, publish and subscribe all the time, and reconnect by their
defaults. The judge compares what was acknowledged to each with what each received.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.client import Client
from tests.live.neighbours.discovery import RETAINED, HomeAssistant, Zigbee2Mqtt
from tests.live.neighbours.libraries import Aiomqtt, Bridged, Paho
from tests.live.neighbours.neighbour import STATE, Neighbour, Place, topic
from tests.live.neighbours.programs import MosquittoClients, MqttJs, NodeRed
from tests.runtime.live import PATIENCE_S, on_asyncio
from tests.runtime.processes import Processes, processes

NEIGHBOURS: list[type[Neighbour]] = [Paho, Aiomqtt, MosquittoClients, MqttJs, Bridged, NodeRed]
# Numbers that each client publishes between two kills, at least.
BETWEEN = 10
DOWN_S = 0.3


def wait(is_so: Callable[[], bool]) -> None:
    """Wait until the condition holds, or a long time; the judge reports failures."""
    end_s = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < end_s:
        time.sleep(0.05)


class Day:
    """The clients at broker B1, and the results of their day."""

    def __init__(self, folder: Path, network: Processes) -> None:
        self.network = network
        address = network.network.broker("B1").address("mqtt")
        assert address is not None
        place = Place(address.host, address.port, folder)
        self.neighbours = {kind.name: kind(place) for kind in NEIGHBOURS if not kind.missing}
        self.publishing = [each for each in self.neighbours.values() if each.name != NodeRed.name]
        self.zigbee = Zigbee2Mqtt(place)
        # Clients to be ended.
        self._started: list[Neighbour | Zigbee2Mqtt | HomeAssistant] = []
        self.homes = [HomeAssistant(place) for _ in range(2)]

    def live(self, kills: int, chance: random.Random) -> None:
        for each in (*self.neighbours.values(), self.zigbee, self.homes[0]):
            each.start()
            self._started.append(each)
        self._publish()
        assert self.homes[0].is_complete.wait(PATIENCE_S)
        self._replace_home()
        wait(lambda: self.all_subscribed)
        for _ in range(kills):
            time.sleep(chance.uniform(0, DOWN_S))
            self.network.kill("B1")
            time.sleep(DOWN_S)
            self.network.start("B1")
            self._publish()
        for each in self.publishing:
            each.stop_publishing()
        wait(lambda: not self.lost())

    def _publish(self) -> None:
        """Wait until each client has published for a while, and all have received it."""
        wanted = {each: len(each.acknowledged) + BETWEEN for each in self.publishing}
        wait(lambda: all(len(each.acknowledged) >= wanted[each] for each in wanted))

    def _replace_home(self) -> None:
        """Home Assistant's machine is switched off, and another takes its place."""
        self.homes[0].vanish()
        announced = self.zigbee.announced
        self.homes[1].start()
        self._started.append(self.homes[1])
        assert self.homes[1].is_complete.wait(2 * PATIENCE_S)
        wait(lambda: self.zigbee.announced > announced)

    def _pairs(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Pairs of publisher and subscriber: what was acknowledged to one, and received by the
        other.
        """
        for listener in self.publishing:
            for each in self.publishing:
                name = f"{each.name} to {listener.name}"
                yield name, each.acknowledged, listener.heard[topic(each.name)]
        if isinstance(red := self.neighbours.get(NodeRed.name), NodeRed):
            name = f"{red.relayed} to {red.name}"
            yield name, self.neighbours[red.relayed].acknowledged, red.written

    @property
    def all_subscribed(self) -> bool:
        relayed = self.neighbours[Paho.name].heard[topic(NodeRed.name)]
        has_relayed = bool(relayed) or NodeRed.name not in self.neighbours
        return has_relayed and all(heard for _, _, heard in self._pairs())

    def lost(self) -> dict[str, set[int]]:
        """Acknowledged publications that have not arrived since each subscribed, by subscriber."""
        found = {
            name: {n for n in acknowledged if n >= min(heard, default=0)} - set(heard)
            for name, acknowledged, heard in self._pairs()
        }
        return {name: numbers for name, numbers in found.items() if numbers}

    def disordered(self) -> dict[str, list[int]]:
        """First occurrences that arrived behind later numbers; repetitions do not count."""
        firsts = {name: list(dict.fromkeys(heard)) for name, _, heard in self._pairs()}
        return {name: numbers for name, numbers in firsts.items() if numbers != sorted(numbers)}

    def end(self) -> None:
        for each in self._started:
            each.end()


KILLS = [1, pytest.param(100, marks=pytest.mark.soak)]


@pytest.fixture(scope="module", params=KILLS)
def day(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """The day is over; all clients are still connected."""
    with processes(tmp_path_factory.mktemp("day"), 2) as network:
        found = Day(tmp_path_factory.mktemp("neighbours"), network)
        try:
            found.live(request.param, random.Random(request.param))
            yield found
        finally:
            found.end()


@pytest.mark.parametrize("kind", NEIGHBOURS, ids=lambda kind: kind.name)
def test_a_day_loses_nothing_acknowledged_and_keeps_order(day: Day, kind: type[Neighbour]) -> None:
    if kind.missing:
        pytest.skip(kind.missing)
    lost, disordered = day.lost(), day.disordered()
    for found in (lost, disordered):
        assert {name: found[name] for name in found if kind.name in name.split()} == {}


@on_asyncio
async def test_retained_messages_are_right_at_every_broker(day: Day) -> None:
    states = {topic(each.name, STATE): str(each.state).encode() for each in day.publishing}
    for broker in day.network.network.brokers:
        found: dict[str, bytes] = {}
        async with (
            Client(str(broker.address("mqtt")), f"judge-{broker.name}") as judge,
            judge.subscribe("#", qos=1) as everything,
        ):
            async for message in everything:
                if message.retain:
                    found[message.topic] = message.payload
                if len(found) == len(states) + len(RETAINED):
                    break
        assert found == states | RETAINED
