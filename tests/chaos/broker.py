"""One broker on a disk that can be made slow or full: `python -m tests.chaos.broker FILE NAME`.

The file `NAME.disk` beside the network file says how the disk is: nothing, seconds that each write
takes, or "full".  It is asked at each write, so it holds from the next one on.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from shoal.cli.main import main
from shoal.runtime.journal_files import JournalFiles

FULL = "full"


def spoil_disk(control: Path) -> None:
    """Have this process's journal written as `control` says."""
    write, sync = JournalFiles._write, JournalFiles.sync

    def wait() -> None:
        said = control.read_text(encoding="ascii") if control.exists() else ""
        if said == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if said:
            time.sleep(float(said))

    def spoilt_write(files: JournalFiles, batch: bytes) -> None:
        wait()
        write(files, batch)

    def spoilt_sync(files: JournalFiles) -> None:
        wait()
        sync(files)

    JournalFiles._write = spoilt_write  # type: ignore[method-assign, assignment]
    JournalFiles.sync = spoilt_sync  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    network_file, name = sys.argv[1:]
    spoil_disk(Path(network_file).with_name(f"{name}.disk"))
    sys.argv = ["shoal", "serve", network_file, "--broker", name]
    main()
