"""A burst through a product of twelve processes, of which one is killed in the middle of it.

The burst's publisher is alone at its broker. Nothing acknowledged is lost, doubled, out of order or
delivered without a subscription. A publisher elsewhere continues: its publications are acknowledged
and delivered while the burst waits.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from shoal.overlays.octopia.parameters import OctopiaParameters, links
from tests.runtime.processes import Processes, processes, wait_until

NAMES = [f"B{number}" for number in range(1, 13)]
OPTIONS = {
    "system": "octopia",
    "octopia": {"clusters": 3, "threshold": 2.0},
    "links": [list(link) for link in links(OctopiaParameters(clusters=3), NAMES)],
}
# B7 to B9 are a region: the burst begins at B7, and enters another cluster at B8.
HOST, KILLED, ELSEWHERE = "B7", "B8", "B5"
BURST, BESIDE = 4_000, 60
READERS = ("B1", "B2", "B6", "B9", "B10", "B11", "B12")


@pytest.mark.soak
def test_a_burst_with_a_kill_costs_no_other_client_a_message(tmp_path: Path) -> None:
    with processes(tmp_path, len(NAMES), **OPTIONS) as network:
        _play(network)


def _play(network: Processes) -> None:
    bursts = {name: network.client(name, f"burst {name}").connect() for name in READERS}
    steady = {name: network.client(name, f"steady {name}").connect() for name in READERS}
    for reader in bursts.values():
        reader.subscribe("burst/#", 2)
    for reader in steady.values():
        reader.subscribe("steady/#", 2)
    hot = network.client(HOST, "hot").connect()
    other = network.client(ELSEWHERE, "other").connect()
    sent = [hot.paho.publish("burst/x", b"%d" % number, qos=2) for number in range(BURST)]
    beside_s = []
    for number in range(BESIDE):
        if number == BESIDE // 3:
            network.kill(KILLED)
        begun_s = time.monotonic()
        one = other.paho.publish("steady/x", b"%d" % number, qos=2)
        wait_until(lambda one=one: one.is_published())  # type: ignore[misc]
        beside_s.append(time.monotonic() - begun_s)
    waiting = sum(not each.is_published() for each in sent)
    print(f"beside the burst: median {sorted(beside_s)[BESIDE // 2]:.3f} s, {waiting:,} wait")
    assert waiting > 0  # the other publisher does not queue behind it
    wait_until(lambda: all(each.is_published() for each in sent))
    for name in READERS:
        for reader, count in ((bursts[name], BURST), (steady[name], BESIDE)):
            wait_until(lambda reader=reader, count=count: len(reader.payloads) >= count)  # type: ignore[misc]
            assert [int(each) for each in reader.payloads] == list(range(count)), name
