"""A scenario's network is started, a workload replayed through it, and both are reported."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.runtime.network_file import load_network
from shoal.runtime.supervisor import get_json
from tests.experiments.test_run_files import write_workload
from tests.live.processes import up
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import wait_until

SHOAL = (sys.executable, "-m", "shoal.cli.main")
EVENTS = 150

SCENARIO = """
name = "line"
system = "grape"
workload.path = "workload"
topology.kind = "line"
underlay.kind = "constant"
[grape]
trace_session_length = 10
"""


def subscription(name: str, broker: str, filter: str) -> dict[str, Any]:
    return {"subscription": name, "client": f"{name}/client", "broker": broker, "filter": filter}


def make_workload(folder: Path) -> Path:
    """A publisher at A, of which nearly all wants C, two links away, in a second and a half."""
    return write_workload(
        folder,
        brokers=[{"broker": name} for name in "ABC"],
        publishers=[
            {
                "publisher": "p",
                "advertisement_id": "p/1",
                "advertisement": "kind = 'it''s'",
                "broker": "A",
            }
        ],
        subscriptions=[
            subscription("near", "A", "x > 140"),
            subscription("far", "C", "kind = 'it''s' AND share >= 0.5"),
            subscription("all", "C", "x >= 0"),
        ],
        events=[
            {
                "publisher": "p",
                "sequence": number,
                "time_us": number,
                "replay_us": 10_000 * number,
                "attributes": {
                    "x": number,
                    "kind": "it's",
                    "share": None if number % 3 else number / EVENTS,
                    "code": str(number),
                },
            }
            for number in range(EVENTS)
        ],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The workload, and a network of three processes that is what the scenario says."""
    folder = tmp_path_factory.mktemp("live")
    make_workload(folder / "workload")
    (folder / "scenario.toml").write_text(SCENARIO)
    with up(folder, "--scenario", str(folder / "scenario.toml")):
        yield folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    found = capsys.readouterr()
    return int(caught.value.code or 0), found.err + found.out


def replay(folder: Path, *options: str) -> tuple[str, ...]:
    workload, network = folder / "workload", folder / "network.toml"
    return "replay", str(workload), "--network", str(network), *options


def test_all_that_is_expected_arrives_and_the_publisher_moves(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, *replay(folder, "--out", str(folder / "replay.json")))
    expected = EVENTS + 9 + 25
    assert (
        f"deliveries expected by the filters, live: {expected}, delivered: {expected}, "
        "lost: 0, duplicated: 0, phantom: 0, out of order: 0"
    ) in text
    assert code == 0
    assert "replay: 1 of 1 publishers ended at another broker, 1 where the simulator had" in text
    assert "  from A to C: p\n" in text
    found = json.loads((folder / "replay.json").read_bytes())
    assert (found["brokers"], found["publishers"], found["publications"]) == (3, 1, EVENTS)
    for figures in (found["predicted"], found["measured"]):
        # While the publisher is at A every publication passes three brokers; at C, one or three.
        assert EVENTS < figures["messages"] < 3 * EVENTS
        assert 0 < figures["hops_mean"] < 2
        assert figures["moves"] >= 1
    assert found["controls"] > 0
    assert found["redirections"] >= 1


def test_a_part_is_judged_by_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = folder / "truth"
    truth.mkdir()
    # One that will not arrive, one that will, and one that is not replayed.
    rows = [
        {"publisher": "p", "sequence": 5, "subscription": "near"},
        {"publisher": "p", "sequence": 6, "subscription": "all"},
        {"publisher": "p", "sequence": 149, "subscription": "all"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), truth / "part-0.parquet")
    options = ("--truth", str(truth), "--seconds", "0.1", "--speed", "2")
    code, text = run(capsys, *replay(folder, *options))
    assert code == 1
    assert re.search(r"expected by Spark, live: 2, delivered: 10, lost: 1, .* phantom: 9", text)


def test_ctrl_c_ends_it_with_what_became_of_all_until_then(folder: Path, tmp_path: Path) -> None:
    """It told nothing at all."""
    out = tmp_path / "out.json"
    admin = load_network(folder / "network.toml").broker("C").address("admin")
    assert admin is not None

    def published() -> int:
        count: int = asyncio.run(get_json(admin, "/status"))["counts"]["publications_in"]
        return count

    before = published()
    command = (*SHOAL, *replay(folder, "--speed", "0.05", "--out", str(out)))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: published() > before + 15)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "live, is not whole: it was stopped" in text
    found = json.loads(out.read_text())
    assert 0 < found["expected"] == found["delivered"] < EVENTS
    assert (found["lost"], found["phantom"]) == (0, 0)


def test_what_a_user_gets_wrong_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_workload(tmp_path / "other")
    pq.write_table(
        pa.Table.from_pylist([{"broker": name} for name in "ABCD"]), other / "brokers.parquet"
    )
    rows = [subscription("s", "D", "TRUE")]
    pq.write_table(pa.Table.from_pylist(rows), other / "subscriptions.parquet")
    network = str(folder / "network.toml")
    text = Path(network).read_text()
    down = tmp_path / "down.toml"
    for port, address in enumerate(re.findall(r'admin = "(.+)"', text), 1):
        text = text.replace(address, f"127.0.0.1:{port}")
    down.write_text(text)
    bad = tmp_path / "scenario.toml"
    bad.write_text('name = "x"\nworkload.path = "nowhere"\n')
    wrong = [
        (("replay", str(tmp_path / "none"), "-n", network), "none: no such folder"),
        (("replay", str(other), "-n", str(tmp_path / "none")), "cannot be read"),
        (("replay", str(other), "-n", network), "the network has no broker 'D' with an MQTT"),
        (("replay", str(folder / "workload"), "-n", str(down)), "does not answer at "),
        (replay(folder, "--speed", "0"), "--speed 0.0: is not above 0"),
        (replay(folder, "--seconds", "0"), "no events in 0.0 s"),
        (replay(folder, "--truth", str(tmp_path / "none")), "none: no such table"),
        (("up", "--scenario", str(bad)), "nowhere: no such folder"),
        (("up", "--scenario", str(tmp_path / "none")), "cannot be read"),
        (("up", "--scenario", str(bad), "--system", "pop"), "--system: the scenario says that"),
        (("up", "--scenario", str(bad), "--set", "sed=1"), "sed: unknown key; did you mean seed?"),
        (("up", "--set", "seed=1"), "--set: seed: unknown key"),
    ]
    for arguments, problem in wrong:
        code, text = run(capsys, *arguments)
        assert code == 2, (arguments, text)
        assert problem in text
        assert "Traceback" not in text
