"""A forked broker ends as one that was started by the command does."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.examples import one_in
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import SHOAL, not_started


def test_a_fork_prints_what_the_command_prints(tmp_path: Path) -> None:
    words = ("serve", str(tmp_path / "none.toml"), "--broker", "B1")
    fresh = subprocess.run(
        (*SHOAL, *words), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    fork = Forked(words, tmp_path / "log")
    assert (fork.wait(PATIENCE_S), fork.stdout.read(), (tmp_path / "log").read_text()) == (
        fresh.returncode,
        fresh.stdout,
        fresh.stderr,
    )
    fork.stdout.close()


@pytest.mark.parametrize(
    ("how", "code"),
    one_in(2, [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)]),
)
def test_a_fork_ends_by_signals_as_the_command_does(
    tmp_path: Path, how: signal.Signals, code: int
) -> None:
    with not_started(tmp_path) as network:
        command = (*SHOAL, "serve", str(network.path), "--broker", "B1")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as fresh:
            assert fresh.stdout is not None
            said = [fresh.stdout.readline() for _ in range(3)]
            fresh.send_signal(how)
            assert fresh.wait(PATIENCE_S) == code
        fork = Forked(command[len(SHOAL) :], tmp_path / "log")
        assert [fork.stdout.readline() for _ in range(3)] == said
        with pytest.raises(subprocess.TimeoutExpired):
            fork.wait(0.01)
        fork.send_signal(how)
        assert fork.wait(PATIENCE_S) == fork.poll() == code
        fork.stdout.close()
