"""The messages that `$every` spares on links, beside filtering at the subscriber alone.

Run `python benchmarks/bench_paced_links.py`. Brokers' machines and MQTT sides in memory, in a tree
of 15 (each linked to a random earlier one), for 5 minutes. At random brokers 40 sensors publish a
temperature each second at QoS 0, a random walk of steps up to 0.1. Clients subscribe to all
sensors, or to 10 of them, with `$every`; "at the subscriber" has the same clients, whose pace the
brokers do not tell each other. Each publication counts on each link that it passes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mqtt.broker_api import Client
from tests.mqtt.network_broker_api import Network

from shoal.mqtt.sessions.session import ClientSubscription

BROKERS, SENSORS, SECONDS = 15, 40, 300
# Intervals of the clients, one client each.
CASES = {
    "5 clients, 10 s each": ("10s",) * 5,
    "5 clients, 5 s to 60 s": ("5s", "10s", "20s", "30s", "60s"),
    "the same, and one that wants all": ("5s", "10s", "20s", "30s", "60s", ""),
    "5 clients, 10 s and changed by 0.5": ("10s&$changed=temp BY 0.5",) * 5,
}


def run(intervals: tuple[str, ...], *, topics: str) -> tuple[int, int]:
    """The publications on links, and the messages that clients got."""
    random = Random(7)
    names = [f"B{number}" for number in range(BROKERS)]
    links = [(f"B{random.randrange(number)}", f"B{number}") for number in range(1, BROKERS)]
    network = Network(*names, tree=links)
    network.after(15)
    clients: list[Client] = []
    for number, every in enumerate(intervals):
        clients.append(network[random.choice(names)].connect(f"c{number}"))
        clients[-1].subscribe(f"$where/$every={every}/{topics}" if every else topics)
    sensors = [network[random.choice(names)].connect(f"s{number}") for number in range(SENSORS)]
    temperatures = [random.uniform(15, 25) for _ in sensors]
    network.after(1)
    network.carried = 0
    for _ in range(SECONDS):
        for number, sensor in enumerate(sensors):
            temperatures[number] += random.uniform(-0.1, 0.1)
            payload = json.dumps({"temp": round(temperatures[number], 2)}).encode()
            sensor.publish(f"rooms/{number % 4}/{number}", payload)
        network.after(1)
    return network.carried, sum(len(client.take()) for client in clients)


def main() -> None:
    print(f"{'':38}{'on links':>12}{'at subscriber':>16}{'spared':>9}{'delivered':>12}")
    for topics in ("rooms/+/+", "rooms/1/+"):
        for name, intervals in CASES.items():
            carried, got = run(intervals, topics=topics)
            with mock.patch.object(ClientSubscription, "pace", None):
                plain, plain_got = run(intervals, topics=topics)
            spared = f"{1 - carried / plain:.0%}"
            print(f"{topics}, {name:27}{carried:12,}{plain:16,}{spared:>9}{got:7,}/{plain_got:,}")


if __name__ == "__main__":
    main()
