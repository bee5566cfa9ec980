"""A worker's children: what they return, and that neither survives the other's death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.runtime.processes import wait_until

BEGIN = """
import os, signal, sys, time
from shoal.pipeline.worker import Worker

worker = Worker()
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=60
    )


def test_the_first_task_is_the_workers_and_others_have_children() -> None:
    script = """
loaded = []
print(worker.do(lambda: (loaded.append("code"), os.getpid())[1]) == os.getpid())
print(len({worker.do(os.getpid) for _ in range(3)} - {os.getpid()}))
print(worker.do(lambda: loaded))
print(len(worker.do(lambda: bytes(10_000_000))))
"""
    ended = run(script)
    assert ended.stdout.split("\n") == ["True", "3", "['code']", "10000000", ""], ended.stderr


def test_a_worker_ends_when_its_child_is_killed() -> None:
    script = """
worker.do(os.getpid)
worker.do(lambda: os.kill(os.getpid(), signal.SIGKILL))
print("goes on")
"""
    ended = run(script)
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr


def test_a_child_ends_when_its_worker_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "process"
    script = f"""
from pathlib import Path

def work() -> None:
    note = Path({str(note)!r})
    note.with_suffix(".partial").write_text(str(os.getpid()))
    note.with_suffix(".partial").rename(note)
    while True:
        pass

worker.do(os.getpid)
worker.do(work)
"""
    process = subprocess.Popen([sys.executable, "-c", BEGIN + script])
    wait_until(note.exists)
    child = Path("/proc") / note.read_text()
    assert child.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not child.exists())
