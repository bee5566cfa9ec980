"""mosquitto as a process: a broker of its own, which may have a bridge to one of ours."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from pathlib import Path

import pytest

from shoal.runtime.addresses import Address
from shoal.runtime.free_ports import free_ports
from tests.runtime.live import PATIENCE_S

# Debian has it where only root looks for programs.
MOSQUITTO = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
needs_mosquitto = pytest.mark.skipif(
    MOSQUITTO is None, reason="mosquitto is not installed (Debian: mosquitto)"
)


class Mosquitto:
    """One mosquitto that keeps sessions over a restart; `bridge` are lines of its file."""

    def __init__(self, folder: Path, bridge: str = "") -> None:
        (port,) = free_ports("127.0.0.1", 1)
        self.address = str(Address("127.0.0.1", port))
        folder.mkdir()
        self._file = folder / "mosquitto.conf"
        self._file.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nuser {getpass.getuser()}\n{bridge}",
            encoding="utf-8",
        )
        self._log = folder / "log"
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [MOSQUITTO, "-c", str(self._file)], stdout=log, stderr=log
            )

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
