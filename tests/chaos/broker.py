"""One forked broker with a disk that can be slow or full, and a clock that can be wrong.

The file `NAME.disk` beside the network file controls the disk: empty, the seconds that each write
takes, or "full". It is read at each write. `NAME.clock` has the offset of the clock in seconds; it
is read once, as a broker reads its clock once.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from pathlib import Path

from shoal.cli.main import main
from shoal.runtime.forks import stand_alone

FULL = "full"


def spoil_disk(control: Path) -> None:
    """Make writes and syncs of this process slow or fail, as `control` says."""
    write, sync = os.write, os.fdatasync

    def wait() -> None:
        said = control.read_text(encoding="ascii") if control.exists() else ""
        if said == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if said:
            time.sleep(float(said))

    def spoilt_write(file: int, data: bytes) -> int:
        if stat.S_ISREG(os.fstat(file).st_mode):
            wait()
        return write(file, data)

    def spoilt_sync(file: int) -> None:
        wait()
        sync(file)

    os.write, os.fdatasync = spoilt_write, spoilt_sync  # type: ignore[assignment]


def spoil_clock(control: Path) -> None:
    """Set this process's clock off, as `control` says."""
    off_s = float(control.read_text(encoding="ascii")) if control.exists() else 0.0
    now_ns = time.time_ns
    time.time_ns = lambda: now_ns() + int(off_s * 1e9)
    time.time = lambda: time.time_ns() / 1e9


def run(network_file: Path, name: str, *options: str) -> None:
    """Run a broker with these options of its command; the main function of the fork."""
    stand_alone(network_file.with_name(f"{name}.log"))
    # A process of its own, as a command starts it.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    spoil_disk(network_file.with_name(f"{name}.disk"))
    spoil_clock(network_file.with_name(f"{name}.clock"))
    sys.argv = ["shoal", "serve", str(network_file), "--broker", name, *options]
    main()
