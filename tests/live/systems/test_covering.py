"""Clients of processes subscribe to overlapping filters and unsubscribe; brokers cover and merge.

In each round random clients subscribe or unsubscribe while a publisher continues. Publications
between rounds reach exactly their subscribers. Of publications during a round, a client receives
all that it wanted throughout, and none that it never wanted.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from shoal.overlays.octopia.parameters import OctopiaParameters, links
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Client, Processes, processes, wait_until

NAMES = ["B1", "B2", "B3", "B4"]
HIGHEST = 20
SYSTEMS: dict[str, dict[str, Any]] = {
    "tree": {"system": "tree", "tree": {"covering": True, "merging": True}},
    "octopia": {
        "system": "octopia",
        "octopia": {"clusters": 2, "covering": True, "merging": True},
        "links": [list(link) for link in links(OctopiaParameters(clusters=2), NAMES)],
    },
}


class Range(NamedTuple):
    """A filter: `low <= x < high`."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"t?x>={self.low}&x<{self.high}"


class Reader:
    """A client with its filters, and the messages that it must and may receive."""

    def __init__(self, client: Client) -> None:
        self.client = client.connect()
        self.ranges: set[Range] = set()
        self.must: list[int] = []
        self.may: set[int] = set()

    def change(self, chance: Random) -> None:
        """Unsubscribe from a range, or subscribe to one more, and wait for the answer."""
        if self.ranges and chance.random() < 0.45:
            self._unsubscribe(chance.choice(sorted(self.ranges)))
            return
        low = chance.randrange(HIGHEST)
        wanted = Range(low, chance.randint(low + 1, HIGHEST))
        self.client.subscribe(str(wanted), 2)
        self.ranges.add(wanted)

    def _unsubscribe(self, range_: Range) -> None:
        done = threading.Event()
        self.client.paho.on_unsubscribe = lambda *_: done.set()
        self.client.paho.unsubscribe(str(range_))
        assert done.wait(PATIENCE_S)
        self.ranges.remove(range_)

    @property
    def wants(self) -> set[int]:
        """All x that its filters match."""
        return {x for low, high in self.ranges for x in range(low, high)}

    @property
    def got(self) -> list[int]:
        return [json.loads(payload)["number"] for payload in self.client.payloads]

    def has_all(self) -> bool:
        return {*self.must} <= {*self.got}


class Churn:
    """One publisher, and readers at every broker."""

    def __init__(self, network: Processes, seed: int) -> None:
        self.chance = Random(seed)
        self.network = network
        self.readers = [
            Reader(network.client(name, f"{name}-{number}"))
            for name in NAMES
            for number in range(2)
        ]
        self.publisher = network.client("B1", "publisher").connect()
        self.said: list[int] = []

    def publish(self) -> list[tuple[int, int]]:
        """Publish every x once, in random order; number and x of each."""
        sent = []
        handed = []
        for x in self.chance.sample(range(HIGHEST), HIGHEST):
            number = len(self.said)
            self.said.append(x)
            payload = json.dumps({"number": number, "x": x})
            handed.append(self.publisher.paho.publish("t", payload, qos=2))
            sent.append((number, x))
        wait_until(lambda: all(each.is_published() for each in handed))
        return sent

    def play(self) -> None:
        """Change filters during publications, then publish what all must receive."""
        before = [reader.wants for reader in self.readers]
        ever = [set(wanted) for wanted in before]
        always = [set(wanted) for wanted in before]
        seeds = [self.chance.random() for _ in self.readers]

        def change(at: int) -> None:
            chance = Random(seeds[at])
            for _ in range(chance.randint(1, 3)):
                self.readers[at].change(chance)
                ever[at] |= self.readers[at].wants
                always[at] &= self.readers[at].wants

        changes = [threading.Thread(target=change, args=(at,)) for at in range(len(self.readers))]
        for each in changes:
            each.start()
        meanwhile = self.publish()
        for each in changes:
            each.join()
        for reader, wanted, asked in zip(self.readers, always, ever, strict=True):
            reader.must += [number for number, x in meanwhile if x in wanted]
            reader.may |= {number for number, x in meanwhile if x in asked}
        for number, x in self.publish():
            for reader in self.readers:
                if x in reader.wants:
                    reader.must.append(number)
                    reader.may.add(number)
        wait_until(lambda: all(reader.has_all() for reader in self.readers))

    def is_connected(self) -> bool:
        clients = (self.publisher, *(reader.client for reader in self.readers))
        return all(each.paho.is_connected() for each in clients)

    def disconnect(self) -> None:
        for client in (self.publisher, *(reader.client for reader in self.readers)):
            client.disconnect()

    def judge(self) -> None:
        """Nothing unwanted, no duplicates, everything in order."""
        for reader in self.readers:
            assert {*reader.got} <= reader.may, reader.ranges
            assert reader.got == sorted({*reader.got}), reader.ranges
        assert sum(len(reader.must) for reader in self.readers) > 50


def play(folder: Path, system: str, seed: int, rounds: int, *, kills: bool = False) -> None:
    with processes(folder, len(NAMES), **SYSTEMS[system]) as network:
        churn = Churn(network, seed)
        for _ in range(rounds):
            churn.play()
            if kills:
                name = churn.chance.choice(NAMES[1:])
                network.kill(name)
                network.start(name)
                wait_until(lambda: all(not network.status(each)["missing"] for each in NAMES))
                wait_until(churn.is_connected)
        churn.judge()
        churn.disconnect()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_covered_subscriber_receives_everything(tmp_path: Path, system: str) -> None:
    play(tmp_path, system, seed=1, rounds=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_covered_subscriber_receives_everything_when_brokers_are_killed(
    tmp_path: Path, system: str, seed: int
) -> None:
    play(tmp_path, system, seed, rounds=8, kills=True)
