"""The processor time that a container allows, from files as Linux has them."""

from __future__ import annotations

import time
from math import inf
from pathlib import Path

import pytest

from shoal.runtime.driving import busy
from shoal.runtime.driving.busy import BusyMeter
from shoal.runtime.driving.quotas import allowed_processors


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A file system with the groups of a process and their limits."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


CASES = {
    "version 2": ("0::/a/b\n", {"sys/fs/cgroup/a/b/cpu.max": "20000 100000\n"}, 0.2),
    "two processors": ("0::/a\n", {"sys/fs/cgroup/a/cpu.max": "200000 100000\n"}, 2.0),
    "no limit": ("0::/a\n", {"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, inf),
    "no files": ("0::/a\n", {}, inf),
    "a limit above": (
        "0::/a/b\n",
        {
            "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        },
        0.5,
    ),
    "a container that sees its own group as the topmost": (
        "0::/\n",
        {"sys/fs/cgroup/cpu.max": "50000 100000\n"},
        0.5,
    ),
    "version 1": (
        "3:cpuset:/other\n2:cpu,cpuacct:/docker/c\n0::/\n",
        {
            "sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us": "10000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_period_us": "100000\n",
        },
        0.1,
    ),
    "version 1 in a container that does not see the path": (
        "2:cpu,cpuacct:/docker/c\n",
        {
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "10000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        0.1,
    ),
    "version 1 without a limit": (
        "2:cpu:/a\n",
        {
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
        },
        inf,
    ),
    "a limit that is no number": ("0::/a\n", {"sys/fs/cgroup/a/cpu.max": "much\n"}, inf),
}


@pytest.mark.parametrize("case", CASES)
def test_the_least_limit_of_all_groups_holds(case: str, tmp_path: Path) -> None:
    groups, files, allowed = CASES[case]
    assert allowed_processors(machine(tmp_path, groups, files)) == allowed


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert allowed_processors(tmp_path) == inf


def test_a_broker_is_busy_for_the_part_that_it_uses_of_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a fifth of a processor, a tenth of its time is half of what it can have."""
    monkeypatch.setattr(busy, "allowed_processors", lambda: 0.2)
    clocks = {"monotonic_ns": 0, "process_time_ns": 0}
    for name in clocks:
        monkeypatch.setattr(time, name, lambda name=name: clocks[name])
    monkeypatch.setattr(busy, "_SCHEDULED", busy._SCHEDULED / "nothing")
    meter = BusyMeter()
    clocks.update(monotonic_ns=1_000_000_000, process_time_ns=100_000_000)
    assert meter.read() == pytest.approx(0.5)
    clocks.update(monotonic_ns=2_000_000_000, process_time_ns=300_000_000)
    assert meter.read() == 1.0
