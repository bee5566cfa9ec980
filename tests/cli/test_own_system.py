"""A system of a user's module works in every command once it is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from shoal.runtime.network_file import load_network
from tests.cli.live.test_replay import EVENTS, SHOAL, make_workload, replay, run
from tests.runtime.live import PATIENCE_S

SCENARIO = """
name = "ring"
system = "flooding"
workload.path = "workload"
topology.kind = "ring"
underlay.kind = "constant"
flooding.remembered = 1_000
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_workload(tmp_path / "workload")
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    return tmp_path


def test_it_is_started_on_a_ring_and_replayed_as_predicted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = ("--scenario", str(folder / "scenario.toml"), "--port", "0")
    command = (*SHOAL, "up", *scenario, "--folder", str(folder))
    environment = os.environ | {"SHOAL_SYSTEMS": "tests.flooding"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ctrl-C stops it" in line:
                    break
            network = load_network(folder / "network.toml")
            assert len(network.links) == len(network.brokers) == 3
            code, text = run(capsys, "status", str(folder / "network.toml"), "-d")
            assert code == 0
            assert "1 subscription" in text
            code, text = run(capsys, *replay(folder, "--out", str(folder / "replay.json")))
            assert "lost: 0, duplicated: 0, phantom: 0, out of order: 0" in text
            assert code == 0
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
    found = json.loads((folder / "replay.json").read_bytes())
    # Every publication comes in from its client, and goes over every link, one of them both ways.
    assert found["predicted"]["messages"] == 5 * EVENTS
    # Here more links carry what brokers say about clients than the trace tells.
    assert 5 * EVENTS <= found["measured"]["messages"] < 5.5 * EVENTS


def test_it_is_simulated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(
        capsys, "simulate", str(folder / "scenario.toml"), "--out", str(folder / "run")
    )
    assert code == 0, text
    assert json.loads((folder / "run" / "checks.json").read_bytes())["duplicates"] == 0


def test_a_network_of_it_is_a_ring_where_nobody_says_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "up", "--system", "flooding", "--dispatchers", "3")
    assert code == 2
    assert "--dispatchers: flooding does not know it; it starts --brokers" in text
