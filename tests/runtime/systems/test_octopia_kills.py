"""Processes of a product are killed under MQTT clients: nothing acknowledged is lost elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.overlays.octopia.parameters import OctopiaParameters, links
from tests.runtime.processes import processes, wait_until

NAMES = [f"B{number}" for number in range(1, 7)]
LINKS = [list(link) for link in links(OctopiaParameters(clusters=2), NAMES)]
COUNT = 400


@pytest.mark.soak
def test_a_killed_broker_costs_no_other_client_a_message(tmp_path: Path) -> None:
    """B4 is the entry of B3, the publisher's broker, to the other cluster; clients of B1, B2, B5
    and B6 receive everything within seconds.
    """
    options = {"system": "octopia", "octopia": {"clusters": 2}, "links": LINKS}
    with processes(tmp_path, 6, **options) as network:
        readers = {
            name: network.client(name, f"s{name}").connect() for name in ("B1", "B2", "B5", "B6")
        }
        for reader in readers.values():
            reader.subscribe("t/#", 1)
        publisher = network.client("B3", "p").connect()
        sent = []
        for number in range(COUNT):
            if number == COUNT // 4:
                network.kill("B4")
            sent.append(publisher.paho.publish("t/x", str(number), qos=1))
        wait_until(lambda: all(each.is_published() for each in sent))
        for name, reader in readers.items():
            # Acknowledged publications are in their sessions, and soon delivered.
            wait_until(lambda reader=reader: len(set(reader.payloads)) == COUNT)  # type: ignore[misc]
            numbers = [int(each) for each in reader.payloads]
            assert numbers == sorted(numbers), name
        network.start("B4")
        wait_until(lambda: all(row["state"] == "up" for row in network.status("B4")["links"]))
        late = network.client("B4", "late").connect()
        late.subscribe("t/#", 1)
        publisher.paho.publish("t/x", str(COUNT), qos=1)
        wait_until(lambda: late.payloads == [str(COUNT).encode()])
