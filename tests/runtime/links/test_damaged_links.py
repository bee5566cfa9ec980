"""A link that damages bytes: nothing is lost, and no other broker waits for it."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.processes import Processes, not_started, wait_until

# No such message passes a cable that damages one bit of each 4 KB.
LARGE_BYTES = 6_000
COUNT = 30


def payloads(mark: bytes) -> list[bytes]:
    return [b"%b%d" % (mark, number) + bytes(LARGE_BYTES) for number in range(COUNT)]


def link(network: Processes, broker: str, neighbour: str) -> dict[str, object]:
    (row,) = [each for each in network.status(broker)["links"] if each["neighbour"] == neighbour]
    return row


def test_a_damaging_link_delays_no_other_and_loses_nothing(tmp_path: Path) -> None:
    with (
        not_started(tmp_path, 3) as network,
        network.lay_cable("B1", "B2") as cable,
    ):
        network.start("B1", "B2", "B3")
        with (
            network.client("B1", "near") as near,
            network.client("B3", "far") as far,
            network.client("B1", "p1") as p1,
            network.client("B3", "p3") as p3,
        ):
            for each in (near, far):
                each.subscribe("a", 1)
            for name in ("B1", "B2", "B3"):
                network.knows(name, 2 + 3)
            cable.damaged_every = 4_096
            sent = [
                publisher.paho.publish("a", payload, 1)
                for publisher, mark in ((p1, b"one"), (p3, b"two"))
                for payload in payloads(mark)
            ]
            wait_until(lambda: all(each.is_published() for each in sent))
            assert "damaged frame" in str(link(network, "B1", "B2")["quarantined"])
            cable.damaged_every = 0
            for each in (near, far):
                wait_until(lambda each=each: len(each.payloads) >= 2 * COUNT)
                for mark in (b"one", b"two"):
                    assert [p for p in each.payloads if p.startswith(mark)] == payloads(mark)
            assert network.log("B1").count("link in quarantine") == 1
