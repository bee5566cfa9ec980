"""Twenty brokers of a ring, and aircraft that cross cells and publish their position to their cell.

An aircraft subscribes to its cell, so publishers and subscribers change all the time. Meanwhile
brokers swap places, and one is killed. Nothing acknowledged is lost.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.runtime.processes import Client, Processes, processes, wait_until

BROKERS = 20
AIRCRAFT = 40
CELLS = 16
# Between two flights some aircraft cross into another cell.
FLIGHTS = 12
STEPS = 12
STEP_S = 0.2
KILLED = "B7"
RING = {
    "system": "dynatops",
    "links": [],
    "link_limits": {"give_up_us": 60_000_000, "silence_us": 5_000_000},
    "dynatops": {"patience_us": 60_000_000, "reconfigure_us": 4_000_000, "price_percent": 0},
}


class Aircraft:
    """A client that publishes to its cell, and subscribes to it."""

    def __init__(self, client: Client, name: str, cell: int) -> None:
        self.name = name
        self.cell = cell
        self.client = client.connect()
        # By cell: the first publication since its subscription, and the first after its end.
        self.heard: list[tuple[int, int, int]] = []
        self._since = 0
        # Number, cell and packet identifier of each publication.
        self._sent: list[tuple[int, int, int]] = []
        self._acknowledged: set[int] = set()
        self.client.paho.on_publish = lambda _, data, identifier, *more: self._acknowledged.add(
            identifier
        )
        self.client.subscribe(f"air/{cell}", 1)

    @property
    def is_acknowledged(self) -> bool:
        return all(each in self._acknowledged for _, _, each in self._sent)

    @property
    def sent(self) -> list[tuple[int, int]]:
        """The number and the cell of each publication."""
        return [(number, cell) for number, cell, _ in self._sent]

    def tell(self, number: int) -> None:
        said = self.client.paho.publish(f"air/{self.cell}", f"{self.name}:{number}", qos=1)
        self._sent.append((number, self.cell, said.mid))

    def cross(self, cell: int, number: int) -> None:
        """Cross into another cell, before the publication of this number."""
        if cell == self.cell:
            return
        self.client.subscribe(f"air/{cell}", 1)
        self.heard.append((self.cell, self._since, number))
        self.client.paho.unsubscribe(f"air/{self.cell}")
        self.cell, self._since = cell, number

    def land(self, number: int) -> None:
        self.heard.append((self.cell, self._since, number))


@pytest.mark.soak
def test_aircraft_that_cross_cells_lose_nothing_acknowledged(tmp_path: Path) -> None:
    with processes(tmp_path, BROKERS, **RING) as network:
        wait_until(lambda: _members(network) == BROKERS)
        random, number = Random(7), 0
        aircraft = [
            Aircraft(
                network.client(_broker_of(place), f"a{place}"),
                f"a{place}",
                random.randrange(CELLS),
            )
            for place in range(AIRCRAFT)
        ]
        for flight in range(FLIGHTS):
            for step in range(STEPS):
                begun_s = time.monotonic()
                if (flight, step) == (FLIGHTS // 2, STEPS // 4):
                    network.kill(KILLED)
                if (flight, step) == (FLIGHTS // 2, STEPS // 2):
                    network.start(KILLED)
                for each in aircraft:
                    each.tell(number)
                    number += 1
                time.sleep(max(0.0, begun_s + STEP_S - time.monotonic()))
            # Publications in a cell have arrived before an aircraft leaves it.
            wait_until(lambda: all(each.is_acknowledged for each in aircraft))
            for each in random.sample(aircraft, AIRCRAFT // 4):
                each.cross(random.randrange(CELLS), number)
        cells = {number: cell for each in aircraft for number, cell in each.sent}
        for each in aircraft:
            each.land(number)
            wanted = {
                number
                for cell, since, until in each.heard
                for number in range(since, until)
                if cells[number] == cell
            }
            wait_until(lambda each=each, wanted=wanted: wanted <= _numbers(each))  # type: ignore[misc]
            _check_order(each)
        assert sum(len(each.heard) for each in aircraft) > 2 * AIRCRAFT
        assert network.status("B1")["counts"].get("reconfigurations done", 0) >= 2
        for each in aircraft:
            each.client.disconnect()


def _broker_of(place: int) -> str:
    return f"B{1 + place % BROKERS}"


def _members(network: Processes) -> int:
    return int(network.status("B1")["tables"]["members"]) if network.status("B1")["ready"] else 0


def _numbers(aircraft: Aircraft) -> set[int]:
    return {int(each.split(b":")[1]) for each in list(aircraft.client.payloads)}


def _check_order(aircraft: Aircraft) -> None:
    """Order holds except for publishers at the killed broker: their client retransmits in any
    order.
    """
    last: dict[bytes, int] = {}
    for each in dict.fromkeys(aircraft.client.payloads):
        publisher, number = each.split(b":")
        if _broker_of(int(publisher[1:])) == KILLED:
            continue
        assert last.get(publisher, -1) < int(number), (aircraft.name, each)
        last[publisher] = int(number)
