"""One broker on a disk that can be made slow or full, in a fork.

The file `NAME.disk` beside the network file says how the disk is: nothing, seconds that each write
takes, or "full".  It is asked at each write, so it holds from the next one on.  `NAME.clock` has
the seconds that the clock is off; it is read once, as a broker reads its clock once.
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
    """Have this process write and sync files as `control` says."""
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
    """Have this process take the time for another, as `control` says."""
    off_s = float(control.read_text(encoding="ascii")) if control.exists() else 0.0
    now_ns = time.time_ns
    time.time_ns = lambda: now_ns() + int(off_s * 1e9)
    time.time = lambda: time.time_ns() / 1e9


def run(network_file: Path, name: str) -> None:
    """What the fork is for."""
    stand_alone(network_file.with_name(f"{name}.log"))
    # As a command's own, not the server's.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    spoil_disk(network_file.with_name(f"{name}.disk"))
    spoil_clock(network_file.with_name(f"{name}.clock"))
    sys.argv = ["shoal", "serve", str(network_file), "--broker", name]
    main()
