"""mosquitto as a process, optionally with a bridge to one of our brokers."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.runtime.addresses import Address, read_address
from shoal.runtime.free_ports import free_ports
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import wait_until

# Debian installs it in a folder of root's PATH.
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
        wait_until(self._is_listening)

    def _is_listening(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        with suppress(OSError), socket.create_connection(read_address(self.address)):
            return True
        return False

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
