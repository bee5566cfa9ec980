"""The parts of the demo that need no Spark; CI runs the whole command."""

from __future__ import annotations

import dataclasses
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from shoal.cli.commands.demo import NOTES, RUNS, problems, scenario
from shoal.cli.main import main
from shoal.cli.support.demo_live import RUNS as LIVE_RUNS
from shoal.cli.support.demo_live import live_scenario, replay_live
from shoal.cli.support.replay_outcome import show_replays
from shoal.cli.support.steps import CommandSteps
from shoal.experiments.live.judge import expected_by_filters
from shoal.experiments.run_files import read_workload
from shoal.report.inputs import ReportRun, read_runs
from shoal.report.replays import held_back, read_replay
from shoal.report.replays import problems as replay_problems
from shoal.runtime.network_file import load_network
from tests.cli.live.test_replay import EVENTS, make_workload
from tests.report.fake_runs import make_runs
from tests.runtime.live import PATIENCE_S


@pytest.fixture
def run(tmp_path: Path) -> ReportRun:
    run = read_runs(*make_runs(tmp_path, names=["load100"]))[0]
    return dataclasses.replace(run, checks={"out_of_order": 0})


def test_the_three_networks_differ_in_what_is_compared_and_nothing_else(tmp_path: Path) -> None:
    scenarios = [scenario(name, tmp_path / "workload", 7) for name in RUNS]
    assert [each.system for each in scenarios] == [
        "tree",
        "grape",
        "grape",
    ]
    assert [each.sections["grape"].priority.value for each in scenarios[1:]] == ["load", "delay"]
    alike = [
        msgspec.structs.replace(each, name="", system="tree", sections=scenarios[0].sections)
        for each in scenarios
    ]
    assert alike[0] == alike[1] == alike[2]
    assert alike[0].seed == 7


def test_a_run_as_expected_has_no_problems(run: ReportRun) -> None:
    assert problems(run, 131_072) == []


def test_every_way_to_be_wrong_is_told(run: ReportRun) -> None:
    run.metrics.update(lost=1, duplicated=20, phantom=3_000)
    disordered = dataclasses.replace(run, checks={"out_of_order": 4})
    assert problems(disordered, 131_073) == [
        "load100: 1 lost",
        "load100: 20 duplicated",
        "load100: 3,000 phantom",
        "load100: not every publication was accepted by the network",
        "load100: 4 out of order",
    ]


def test_foreign_files_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workload").mkdir()
    with pytest.raises(SystemExit) as end:
        main(["demo", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert "holds other files" in capsys.readouterr().err
    assert not (tmp_path / NOTES).exists()


TOPOLOGY = {"kind": "line"}


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """What `prepare_live` makes, small: three brokers, and what all filters say as truth."""
    path = make_workload(tmp_path / "workload")
    expected = expected_by_filters(read_workload(path), path)
    rows = [
        {"publisher": publisher, "sequence": sequence, "subscription": subscription}
        for subscription, publisher, sequence in sorted(expected)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "truth")
    return tmp_path


def test_the_live_networks_differ_in_their_system_alone(tmp_path: Path) -> None:
    tree, grape = (live_scenario(name, tmp_path, 7, TOPOLOGY) for name in LIVE_RUNS)
    assert (tree.system, grape.system) == ("tree", "grape")
    assert grape.sections["grape"].priority.value == "load"
    assert msgspec.structs.replace(tree, name="", system="grape", sections=grape.sections) == (
        msgspec.structs.replace(grape, name="")
    )


def test_the_live_part(live: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with CommandSteps() as steps:
        replays = replay_live(steps, live, 1, TOPOLOGY)
    assert [replay.name for replay in replays] == list(LIVE_RUNS)
    for replay in replays:
        assert replay_problems(replay) == []
        assert replay.delivered == replay.expected == EVENTS + 9 + 25
        assert replay.predicted is not None
        assert replay.measured is not None
        assert read_replay(live / f"{replay.name}.json") == replay
    tree, grape = (replay.measured for replay in replays)
    assert tree is not None
    assert grape is not None
    assert (tree.messages, tree.moves) == (3 * EVENTS, 0)
    assert replays[0].predicted == msgspec.structs.replace(
        tree, delay_p50_us=None, seconds=(EVENTS - 1) / 100
    )
    assert grape.messages < tree.messages
    assert grape.moves >= 1
    show_replays(Console(width=80), replays)
    text = capsys.readouterr().out
    assert "GRAPE against tree, messages per publication: " in text
    assert "from A to C: p" in text
    # Sentences about a busy machine are longer, and wrap.
    busy = set(held_back(replays))
    lines = [line for line in text.splitlines() if "against" not in line and line not in busy]
    assert max(map(len, lines)) <= 130


REPLAY_LIVE = """
import sys
from pathlib import Path
from shoal.cli.support.demo_live import replay_live
from shoal.cli.support.steps import CommandSteps
from shoal.runtime.serving import StoppedError
try:
    with CommandSteps() as steps:
        replay_live(steps, Path(sys.argv[1]), 1, {"kind": "line"})
except StoppedError:
    print("stopped")
"""


def test_ctrl_c_stops_the_live_brokers(live: Path) -> None:
    command = (sys.executable, "-c", REPLAY_LIVE, str(live))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        log = live / "tree" / "B.log"
        deadline = time.monotonic() + PATIENCE_S
        # B listens: it is about to be used, or in use.
        while not (log.exists() and "started" in log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(PATIENCE_S) == 0
    for broker in load_network(live / "tree" / "network.toml").brokers:
        address = broker.address("admin")
        assert address is not None
        with socket.socket() as probe:
            assert probe.connect_ex(tuple(address)) != 0
