"""Commands that start and end brokers, as real processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from shoal.broker.effects import EndBroker, ProcessAnswered, StartBroker
from shoal.runtime.network_sections import ScalingSection
from shoal.runtime.process_commands import MOST_CHARACTERS, ProcessCommands
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import wait_until


def answers(
    section: ScalingSection, *orders: StartBroker | EndBroker
) -> tuple[list[ProcessAnswered], ProcessCommands]:
    """What the machine is told after these orders."""

    async def run() -> ProcessCommands:
        found.clear()
        commands = ProcessCommands(section, found.append, 0)
        for order in orders:
            commands.follow(order)
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < len(orders):
                await asyncio.sleep(0.01)
        await commands.stop()
        return commands

    found: list[ProcessAnswered] = []
    return found, asyncio.run(run())


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended; a zombie has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def python(text: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text, *words)


def test_a_command_gets_the_name_and_no_shell(tmp_path: Path) -> None:
    write = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    section = ScalingSection(
        start=python(write, str(tmp_path / "{broker}"), "$HOME; {broker}"), end=("true",)
    )
    found, _ = answers(section, StartBroker("M3"))
    assert found == [ProcessAnswered("M3")]
    assert (tmp_path / "M3").read_text() == "$HOME; M3"


def test_orders_for_one_broker_run_one_after_the_other(tmp_path: Path) -> None:
    add = "import sys, time; time.sleep(0.2); open(sys.argv[1], 'a').write(sys.argv[2])"
    path = str(tmp_path / "done")
    section = ScalingSection(start=python(add, path, "start "), end=python(add, path, "end "))
    answers(section, StartBroker("M3"), EndBroker("M3"))
    assert Path(path).read_text() == "start end "


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (python("print('no\\n unit'); exit(3)"), f"{sys.executable}: exit code 3: no unit"),
        (("/no/such/program",), "/no/such/program: No such file or directory"),
        ((), "the network file has no command for it ([scaling])"),
    ],
    ids=["fails", "is missing", "is not given"],
)
def test_a_failure_is_said_with_its_reason(command: tuple[str, ...], problem: str) -> None:
    found, _ = answers(ScalingSection(start=command), StartBroker("M3"))
    assert found == [ProcessAnswered("M3", problem)]


def test_of_much_output_the_last_words_are_kept() -> None:
    noisy = python("print('a' * 1_000_000, 'the reason'); exit(1)")
    found, _ = answers(ScalingSection(start=noisy), StartBroker("M3"))
    assert found[0].problem.endswith("aa the reason")
    assert len(found[0].problem) < len(sys.executable) + MOST_CHARACTERS + 50


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    hang = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']);"
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(99)"
    )
    path = tmp_path / "pid"
    section = ScalingSection(start=python(hang, str(path)), timeout_s=2.0)
    began_s = time.monotonic()
    found, _ = answers(section, StartBroker("M3"))
    assert found == [ProcessAnswered("M3", f"{sys.executable} had not ended after 2 s")]
    assert time.monotonic() - began_s < 10
    wait_until(lambda: not is_running(int(path.read_text())))


def test_a_command_may_leave_a_process_behind(tmp_path: Path) -> None:
    """A start command's child keeps the pipe open, and runs on."""
    leave = (
        "import subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']);"
        "open(sys.argv[1], 'w').write(str(child.pid))"
    )
    path = tmp_path / "pid"
    found, _ = answers(ScalingSection(start=python(leave, str(path))), StartBroker("M3"))
    assert found == [ProcessAnswered("M3")]
    child = int(path.read_text())
    assert is_running(child)
    os.kill(child, signal.SIGKILL)


def test_a_supervisor_finds_the_last_order_for_each_broker() -> None:
    section = ScalingSection(by_supervisor=True)
    orders = StartBroker("M3"), StartBroker("M4"), EndBroker("M3")
    found, commands = answers(section, *orders)
    assert [each.problem for each in found] == ["", "", ""]
    rows = {row["broker"]: (row["starts"], row["number"]) for row in commands.status}
    assert rows == {"M3": (False, 3), "M4": (True, 2)}


def test_a_broker_without_free_descriptors_says_so() -> None:
    """Else the system waits for an answer, and takes the spare for one that is slow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    section = ScalingSection(start=("true",), end=("true",))

    async def run() -> list[ProcessAnswered]:
        found: list[ProcessAnswered] = []
        commands = ProcessCommands(section, found.append, 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            commands.follow(StartBroker("M3"))
            await asyncio.sleep(0.1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await commands.stop()
        return found

    assert asyncio.run(run()) == [ProcessAnswered("M3", "true: Too many open files")]
