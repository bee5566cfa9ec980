"""A new broker tries every address that it knows, until a member admits it."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.joining import JoinAgainError, JoinAttempt, NetworkJoining
from shoal.runtime.storage.overlay_file import OverlayFile
from tests.runtime.processes import Processes, not_started, processes, wait_until


def overlay(network: Processes, name: str) -> dict[str, Any]:
    path = network.folder / "data" / name / "overlay.json"
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def neighbours(network: Processes, name: str) -> list[str]:
    return [row["neighbour"] for row in network.status(name)["links"]]


def tried(network: Processes, name: str) -> dict[str, str]:
    """Why each broker did not admit this one."""
    return {row["broker"]: row["problem"] for row in network.status(name)["joining"]["tried"]}


def wait_until_ready(network: Processes) -> None:
    """A member that waits for tables does not answer a new broker.

    It waits for a neighbour whose link was up until that neighbour is given up, after 60 s.
    """
    wait_until(lambda: all(map(network.is_ready, ("B1", "B2", "B3"))))


def test_a_broker_with_a_dead_first_address_is_admitted_by_a_member(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as network:
        wait_until_ready(network)
        network.kill("B3")
        network.join("B9", "B3", "B2")
        assert neighbours(network, "B9") == ["B2"]
        wait_until(lambda: network.is_ready("B9"))
        assert overlay(network, "B9")["joins"] is None


def test_a_broker_also_asks_those_of_the_network_file(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as network:
        wait_until_ready(network)
        network.kill("B1", "B3")
        network.join("B9", "B3")
        assert neighbours(network, "B9") == ["B2"]


def test_a_broker_killed_before_its_first_link_joins(tmp_path: Path) -> None:
    """It must not wait for ever for the one address of its command."""
    with not_started(tmp_path, 2) as network:
        network.joining("B9", "B2")
        network.start("B9", awaits=False)
        wait_until(lambda: tried(network, "B9").keys() == {"B1", "B2"})
        found = network.status("B9")
        assert not found["ready"]
        assert found["joining"]["stage"] == "asking"
        assert "Connection refused" in found["missing"][0]
        network.kill("B9")
        network.start("B9", awaits=False)
        wait_until(lambda: tried(network, "B9").keys() == {"B1", "B2"})
        network.start("B1")
        wait_until(lambda: network.status("B9")["joining"]["stage"] == "")
        assert neighbours(network, "B9") == ["B1"]


def test_a_joining_broker_ends_on_request(tmp_path: Path) -> None:
    with not_started(tmp_path, 2) as network:
        network.joining("B9", "B2")
        network.start("B9", awaits=False)
        wait_until(lambda: bool(tried(network, "B9")))
        network.kill("B9", how=signal.SIGTERM)
        assert '"event": "stopped"' in network.log("B9")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "other"}, "this is network 'other', not 'n'"),
        ({"links": [], "brokers": 1, "grows": False}, "B1 is alone in its network file"),
    ],
)
def test_a_broker_that_admits_none_has_a_reason(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    (tmp_path / "there").mkdir()
    brokers = changes.pop("brokers", 2)
    with (
        processes(tmp_path / "there", brokers, **changes) as there,
        not_started(tmp_path, 2) as network,
    ):
        where = there.network.broker("B1").peers
        network.joining("B9")[:0] = ["--join", f"B1={where}"]
        network.start("B9", awaits=False)
        wait_until(lambda: f"B1 at {where}: {problem}" in network.status("B9")["missing"][0])


def test_a_link_of_an_earlier_attempt_ends_at_the_member(tmp_path: Path) -> None:
    """The member knows the link, and the new broker was killed before it did."""
    with processes(tmp_path, 2) as network:
        network.join("B9", "B1")
        wait_until(lambda: network.is_ready("B9"))
        network.kill("B1", "B9")
        path = tmp_path / "data" / "B9" / "overlay.json"
        path.write_text(json.dumps(overlay(network, "B9") | {"joins": {}}))
        network.start("B9", awaits=False)
        wait_until(lambda: neighbours(network, "B2") == ["B1", "B9"])
        # Its messages go to its former address, so it gets no answer, and admits no clients.
        wait_until(lambda: network.status("B9")["joining"]["stage"] == "answering")
        network.kill("B9")
        network.start("B9", awaits=False)
        wait_until(lambda: network.status("B9")["joining"]["stage"] == "answering")
        # Another new broker would have no way to the members over it.
        network.join("B8", "B9")
        assert "B9 has not joined yet" in network.log("B8")
        assert neighbours(network, "B8") == ["B2"]
        network.start("B1")
        wait_until(lambda: neighbours(network, "B1") == ["B2"])
        wait_until(lambda: neighbours(network, "B9") == ["B2"])
        wait_until(lambda: all(map(network.is_ready, ("B1", "B2", "B8", "B9"))))


def test_a_broker_asks_again_if_the_member_that_took_it_in_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.runtime.links.joining.ALONE_S", 0.05)
    overlay, clock = OverlayFile(), Clock()
    joins = [JoinAttempt("B1", Address("127.0.0.1", 7001))]
    joining = NetworkJoining("B9", (), joins, overlay, Directory("B9", (), overlay), clock)
    overlay.has_joined()
    with pytest.raises(JoinAgainError, match="all its links have ended"):
        asyncio.run(joining.answered(lambda: False, tuple))
    assert overlay.joins == {"B1": "127.0.0.1:7001"}
