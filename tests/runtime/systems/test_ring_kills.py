"""Processes of a ring are killed under MQTT clients while its brokers swap places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.processes import processes, wait_until

COUNT = 600
TOPICS = 12
LINKS = {"links": [], "link_limits": {"give_up_us": 2_000_000, "silence_us": 2_000_000}}
# Each is the root of some topics, the first also the manager; in clusters both are gateways, until
# brokers swap places.
RING = {
    "brokers": [f"B{number}" for number in range(1, 7)],
    "reconfigure_us": 500_000,
    "price_percent": 0,
}
SYSTEMS = {"dynatops": RING, "hybrid": {**RING, "per_gateway": 3}}


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("killed", ["B1", "B4"])
def test_a_killed_root_costs_no_other_client_a_message(
    tmp_path: Path, killed: str, system: str
) -> None:
    with processes(tmp_path, 6, system=system, **{system: SYSTEMS[system]}, **LINKS) as network:
        readers = {name: network.client(name, f"s{name}").connect() for name in ("B2", "B5", "B6")}
        for place, reader in enumerate(readers.values()):
            for topic in [f"t/{each}" for each in range(place, TOPICS, 3)] if place else ["t/#"]:
                reader.subscribe(topic, 1)
        publisher = network.client("B3", "p").connect()
        sent = []
        for number in range(COUNT):
            if number == COUNT // 3:
                network.kill(killed)
            if number == 2 * COUNT // 3:
                wait_until(lambda: all(each.is_published() for each in sent))
                network.start(killed)
            topic = number % TOPICS
            sent.append(publisher.paho.publish(f"t/{topic}", str(number), qos=1))
        wait_until(lambda: all(each.is_published() for each in sent))
        for place, reader in enumerate(readers.values()):
            numbers = [each for each in range(COUNT) if not place or each % TOPICS % 3 == place]
            wanted = [str(each).encode() for each in numbers]
            wait_until(
                lambda reader=reader, wanted=wanted: len(wanted) <= len(set(reader.payloads))
            )  # type: ignore[misc]
            assert list(dict.fromkeys(reader.payloads)) == wanted
        late = network.client(killed, "late").connect()
        late.subscribe("t/7", 1)
        publisher.paho.publish("t/7", "late", qos=1)
        wait_until(lambda: late.payloads == [b"late"])
