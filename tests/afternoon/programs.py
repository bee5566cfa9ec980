"""Subscribers that are programs of others: mosquitto_sub and mqtt.js."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path

from tests.afternoon.clients import Ports, Subscriber, wants_all
from tests.live.neighbours.programs import node_finds

SUBSCRIBE_JS = Path(__file__).with_name("subscribe.js")
AGAIN_S = 1.0
# A program that has received nothing for so long is started again at the next broker: it may be
# refused in a way that its exit code does not tell.
SILENT_S = 12.0


class ProgramSubscriber(Subscriber):
    """A program that prints a topic and a payload in each line; it is started again at its end."""

    # The reason why the program cannot run here; empty if it can.
    missing = ""

    def __init__(self, name: str, ports: Ports, folder: Path) -> None:
        super().__init__(name, ports, wants_all)
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None
        self._last_s = time.monotonic()
        self._is_over = threading.Event()

    def words(self) -> list[str]:
        """The program and its options."""
        raise NotImplementedError

    def start(self) -> None:
        for work in (self._run, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with (
                self._log.open("a") as log,
                subprocess.Popen(
                    self.words(), stdout=subprocess.PIPE, stderr=log, text=True
                ) as self._process,
            ):
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    self._last_s = time.monotonic()
                    self.record(*line.split(" ", 1))
            if self._process.returncode:
                self._at = (self._at + 1) % len(self._ports)
            self._is_over.wait(AGAIN_S)

    def _watch(self) -> None:
        while not self._is_over.wait(AGAIN_S):
            if time.monotonic() - self._last_s > SILENT_S and self._process:
                self._last_s = time.monotonic()
                self._at = (self._at + 1) % len(self._ports)
                self._process.terminate()

    def end(self) -> None:
        self._is_over.set()
        if self._process:
            self._process.terminate()


class MosquittoSubscriber(ProgramSubscriber):
    """mosquitto_sub reconnects by itself to the same broker."""

    missing = "" if shutil.which("mosquitto_sub") else "mosquitto_sub"

    def words(self) -> list[str]:
        port = str(self._ports[self._at][1])
        session = ["-c", "-i", self.name, "-V", "5", "-x", "100000", "-k", "10"]
        topic = ["-t", "site/+", "-q", "1", "-F", "%t %p"]
        return ["mosquitto_sub", "-p", port, *session, *topic]


class MqttJsSubscriber(ProgramSubscriber):
    """mqtt.js goes round its brokers by itself."""

    missing = "" if node_finds("mqtt") else "mqtt.js"

    def words(self) -> list[str]:
        ports = ",".join(str(port) for _, port in self._ports)
        return ["node", str(SUBSCRIBE_JS), self.name, ports]
