"""A new broker tries every address that it knows, until a member takes it in."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.processes import Processes, not_started, processes, wait_until


def overlay(network: Processes, name: str) -> dict[str, Any]:
    path = network.folder / "data" / name / "overlay.json"
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def neighbours(network: Processes, name: str) -> list[str]:
    return [row["neighbour"] for row in network.status(name)["links"]]


def tried(network: Processes, name: str) -> dict[str, str]:
    """Why each broker did not take this one in."""
    return {row["broker"]: row["problem"] for row in network.status(name)["joining"]["tried"]}


def wait_until_ready(network: Processes) -> None:
    """A member has no answer for a new broker while it waits for tables itself.

    It waits for those of a neighbour whose link has been up until that one is given up, after 60 s.
    """
    wait_until(lambda: all(map(network.is_ready, ("B1", "B2", "B3"))))


def test_a_member_takes_the_broker_in_whose_first_address_is_dead(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as network:
        wait_until_ready(network)
        network.kill("B3")
        network.join("B9", "B3", "B2")
        assert neighbours(network, "B9") == ["B2"]
        wait_until(lambda: network.is_ready("B9"))
        assert overlay(network, "B9")["joins"] is None


def test_a_broker_asks_those_of_the_network_file_too(tmp_path: Path) -> None:
    with processes(tmp_path, 3) as network:
        wait_until_ready(network)
        network.kill("B1", "B3")
        network.join("B9", "B3")
        assert neighbours(network, "B9") == ["B2"]


def test_a_broker_that_was_killed_before_its_first_link_goes_on(tmp_path: Path) -> None:
    """It waited for ever for the one address that it had been told."""
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


def test_a_broker_that_joins_ends_when_it_is_told_to(tmp_path: Path) -> None:
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
def test_a_broker_that_takes_nobody_in_says_why(
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


def test_a_link_of_an_earlier_attempt_ends_where_it_was_taken_up(tmp_path: Path) -> None:
    """The member knows of the link, and the new broker was killed before it did."""
    with processes(tmp_path, 2) as network:
        network.join("B9", "B1")
        wait_until(lambda: network.is_ready("B9"))
        network.kill("B1", "B9")
        path = tmp_path / "data" / "B9" / "overlay.json"
        path.write_text(json.dumps(overlay(network, "B9") | {"joins": {}}))
        network.start("B9", awaits=False)
        wait_until(lambda: neighbours(network, "B2") == ["B1", "B9"])
        # What is for it goes to where it was: it hears no answer, and takes no clients.
        wait_until(lambda: network.status("B9")["joining"]["stage"] == "answering")
        network.kill("B9")
        network.start("B9", awaits=False)
        wait_until(lambda: network.status("B9")["joining"]["stage"] == "answering")
        network.start("B1")
        wait_until(lambda: neighbours(network, "B1") == ["B2"])
        wait_until(lambda: neighbours(network, "B9") == ["B2"])
        wait_until(lambda: all(map(network.is_ready, ("B1", "B2", "B9"))))
