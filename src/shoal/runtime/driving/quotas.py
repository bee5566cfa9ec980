"""How much processor time a container allows its processes.

Linux limits a control group and all groups below it: version 2 by the file `cpu.max`, version 1 by
`cpu.cfs_quota_us` and `cpu.cfs_period_us`. Inside a container the group may have a path that the
container does not see; the topmost folder is the container's own then.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path


def allowed_processors(root: Path = Path("/")) -> float:
    """Return the number of processors that this process may use, 0.2 or 2; infinity if all."""
    return min((_limit(folder) for folder in _groups(root)), default=inf)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the process's groups, and of those above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in {controllers, "cpu" if controllers else "unified"}:
            top = root / "sys/fs/cgroup" / mount
            yield top
            below = top
            for part in Path(path).parts[1:]:
                below /= part
                yield below


def _limit(folder: Path) -> float:
    try:
        if (both := folder / "cpu.max").exists():
            quota_us, period_us = both.read_text(encoding="ascii").split()
        else:
            quota_us = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period_us = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        # No limit is "max" in version 2, and -1 in version 1.
        return int(quota_us) / int(period_us) if quota_us != "max" and int(quota_us) > 0 else inf
    except (OSError, ValueError):
        return inf
