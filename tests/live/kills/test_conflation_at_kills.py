"""`$every` over processes: a client moves, is away, or its broker is killed, as it publishes on."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.runtime.processes import Client, Processes, processes, wait_until

EVERY_S = 0.5
# Arrivals of a loaded machine: one that is late comes nearer to the next.
NEAREST_S = EVERY_S / 2
NAMES = ("B1", "B2", "B3")


class Numbers:
    """Publishes growing numbers at a broker, without a pause."""

    def __init__(self, client: Client) -> None:
        self.count = 0
        self.is_over = False
        self._client = client
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.is_over:
            self.count += 1
            self._client.paho.publish("t", str(self.count), 1)
            time.sleep(0.03)

    def stop(self) -> None:
        self.is_over = True
        self._thread.join()


class Arrivals:
    """The numbers that the subscriber gets, with their times, at whichever broker."""

    def __init__(self, network: Processes) -> None:
        self.found: list[tuple[float, int]] = []
        self._network = network
        self.broker = "B2"
        self.client = self._connected()
        self.client.subscribe(f"t?$every={EVERY_S * 1_000:.0f}ms", 1)

    def _connected(self) -> Client:
        client = self._network.client(self.broker, "c")
        client.paho.on_message = lambda _client, _data, message: self.found.append(
            (time.monotonic(), int(message.payload))
        )
        return client.connect()

    def ends_with(self, number: int) -> bool:
        return bool(self.found) and self.found[-1][1] == number

    def go_to(self, broker: str, after_s: float = 0) -> None:
        self.client.disconnect()
        time.sleep(after_s)
        self.broker = broker
        self.client = self._connected()


def _check(found: list[tuple[float, int]]) -> None:
    """In order, and an interval apart; retransmissions after a kill count as their first copy."""
    times: dict[int, float] = {}
    for at_s, number in found:
        times.setdefault(number, at_s)
    assert list(times) == sorted(times), found
    gaps = [later - earlier for earlier, later in pairwise(times.values())]
    assert min(gaps, default=1) > NEAREST_S, found


@pytest.mark.soak
@pytest.mark.parametrize("rounds", [20])
def test_the_rule_holds_over_moves_and_kills(rounds: int, tmp_path: Path) -> None:
    random = Random(rounds)
    with processes(tmp_path, 3) as network, network.client("B1", "p") as publisher:
        arrivals = Arrivals(network)
        for number in range(rounds):
            first = len(arrivals.found)
            numbers = Numbers(publisher)
            time.sleep(random.uniform(0.3, 1.2))
            match number % 3:
                case 0:
                    others = [each for each in NAMES if each != arrivals.broker]
                    arrivals.go_to(random.choice(others))
                case 1 if arrivals.broker != "B1":
                    network.kill(arrivals.broker)
                    network.start(arrivals.broker)
                case _:
                    arrivals.go_to(arrivals.broker, after_s=1)
            time.sleep(random.uniform(0.3, 1.2))
            numbers.stop()
            wait_until(partial(arrivals.ends_with, numbers.count))
            _check(arrivals.found[first:])
            time.sleep(EVERY_S)  # the next round begins with an idle key
        arrivals.client.disconnect()
