"""Clients of processes ask for overlapping filters and take them back; brokers cover and merge.

In each round clients at random subscribe or unsubscribe while a publisher goes on.  What is
published while nobody changes anything comes to exactly those who want it; of what is published
meanwhile, everything that was wanted all the time, and nothing that was wanted at no time.
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
    """A client, what it asks for, and what it must and may have got."""

    def __init__(self, client: Client) -> None:
        self.client = client.connect()
        self.ranges: set[Range] = set()
        self.must: list[int] = []
        self.may: set[int] = set()

    def change(self, chance: Random) -> None:
        """Take a range back, or ask for one more; the broker has answered."""
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
        """All x that it asks for."""
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
        """Every x once, in some order; number and x of each."""
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
        """Changes while it is published, then what everybody must get."""
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
        """Nothing unasked, nothing twice, all in order."""
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
                wait_until(lambda: all(network.status(each)["ready"] for each in NAMES))
                wait_until(churn.is_connected)
        churn.judge()
        churn.disconnect()


@pytest.mark.parametrize("system", SYSTEMS)
def test_who_asks_for_what_others_cover_gets_all_of_it(tmp_path: Path, system: str) -> None:
    play(tmp_path, system, seed=1, rounds=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("system", SYSTEMS)
def test_also_when_brokers_are_killed_in_between(tmp_path: Path, system: str, seed: int) -> None:
    play(tmp_path, system, seed, rounds=8, kills=True)
