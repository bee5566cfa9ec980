"""Programs beside a network: mosquitto's clients, mqtt.js, and a flow in Node-RED."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import IO, Any

from shoal.runtime.free_ports import free_ports
from tests.live.neighbours.neighbour import (
    DATA,
    EVERYBODY,
    PAUSE_S,
    STATE,
    Neighbour,
    kinds,
    topic,
)
from tests.runtime.live import PATIENCE_S

DAY_JS = Path(__file__).with_name("day.js")


@cache
def node_finds(module: str) -> str:
    """The file of a module that node finds from here, NODE_PATH included; empty if it does not."""
    if shutil.which("node") is None:
        return ""
    words = ["node", "-p", f"require.resolve({json.dumps(module)})"]
    found = subprocess.run(words, cwd=DAY_JS.parent, capture_output=True, check=False, text=True)
    return found.stdout.strip() if found.returncode == 0 else ""


class Program:
    """A process whose lines are read as they come; its errors are in a file."""

    def __init__(self, words: list[str], log: Path, record: Any) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._hear = record
        self._thread = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._thread.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._hear(line.split())

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class MosquittoClients(Neighbour):
    """mosquitto_sub reconnects by itself; a mosquitto_pub that fails is started again."""

    name = "mosquitto"
    missing = (
        "" if shutil.which("mosquitto_sub") else "no mosquitto_sub (Debian: mosquitto-clients)"
    )

    def start(self) -> None:
        self._where = ["-h", self.place.host, "-p", str(self.place.port), "-q", "1"]
        words = ["mosquitto_sub", *self._where, "-c", "-i", self.name, "-t", EVERYBODY]
        log = self.place.folder / "mosquitto_sub.log"
        self._reader = Program([*words, "-F", "%t %p"], log, lambda line: self.record(*line))
        self._thread = threading.Thread(target=self._publish_all)
        self._thread.start()

    def _publish_all(self) -> None:
        number = 0
        while not self.is_over.wait(PAUSE_S):
            for kind in kinds(number):
                words = ["mosquitto_pub", *self._where, "-t", topic(self.name, kind)]
                words += ["-m", str(number), *(["-r"] if kind == STATE else [])]
                while subprocess.run(words, capture_output=True, check=False).returncode:
                    if self.is_gone.wait(5 * PAUSE_S):
                        return
                self.acknowledge(number, kind)
            number += 1

    def stop_publishing(self) -> None:
        super().stop_publishing()
        self._thread.join()

    def end(self) -> None:
        super().end()
        self._reader.end()
        self._thread.join()


class MqttJs(Neighbour):
    """mqtt.js as in Zigbee2MQTT and Node-RED: reconnects after a second, and subscribes again."""

    name = "mqttjs"
    missing = "" if node_finds("mqtt") else "node finds no mqtt.js (npm install mqtt)"

    def start(self) -> None:
        url = f"mqtt://{self.place.host}:{self.place.port}"
        words = ["node", str(DAY_JS), url, self.name]
        self._ended = threading.Event()
        self._program = Program(words, self.place.folder / "mqttjs.log", self._take)

    def _take(self, line: list[str]) -> None:
        match line:
            case ["heard", name, payload]:
                self.record(name, payload)
            case ["over"]:
                self._ended.set()
            case [kind, number]:
                self.acknowledge(int(number), kind)

    def stop_publishing(self) -> None:
        super().stop_publishing()
        self._program.say("stop\n")
        assert self._ended.wait(3 * PATIENCE_S)

    def end(self) -> None:
        super().end()
        self._program.end()


class NodeRed(Neighbour):
    """A flow that writes another client's publications to a file and publishes them again.

    Its `mqtt out` drops messages until it knows of the reconnect; the file has them.
    """

    name = "nodered"
    relayed = "paho"
    _red = node_finds("node-red")
    missing = "" if _red else "node finds no Node-RED (npm install node-red)"

    def start(self) -> None:
        # Its log, for the diagnosis of failures.
        self._lines: list[list[str]] = []
        folder = self.place.folder / "node-red"
        folder.mkdir()
        self._file = folder / "heard"
        (port,) = free_ports("127.0.0.1", 1)
        settings = (
            f'module.exports = {{ uiPort: {port}, uiHost: "127.0.0.1", httpAdminRoot: false, '
            'flowFile: "flow.json", telemetry: { enabled: false }, mqttReconnectTime: 1000 };'
        )
        (folder / "settings.js").write_text(settings, encoding="utf-8")
        (folder / "flow.json").write_text(json.dumps(self._flow()), encoding="utf-8")
        red = Path(self._red).parents[1] / "red.js"
        words = ["node", str(red), "-u", str(folder), "-s", str(folder / "settings.js")]
        self._program = Program(words, folder / "log", self._lines.append)

    def _flow(self) -> list[dict[str, Any]]:
        """A flow as the editor writes it; missing fields have the editor's defaults."""
        broker = {
            "id": "the-broker", "type": "mqtt-broker", "broker": self.place.host,
            "port": str(self.place.port), "clientid": self.name, "autoConnect": True,
            "protocolVersion": "4", "keepalive": "60", "cleansession": False,
        }  # fmt: skip
        come = {
            "id": "the-in", "type": "mqtt in", "z": "the-flow", "topic": topic(self.relayed),
            "qos": "1", "datatype": "auto-detect", "broker": "the-broker",
            "wires": [["the-out", "the-file"]],
        }  # fmt: skip
        go = {
            "id": "the-out", "type": "mqtt out", "z": "the-flow", "topic": topic(self.name, DATA),
            "qos": "1", "retain": "false", "broker": "the-broker", "wires": [],
        }  # fmt: skip
        file = {
            "id": "the-file", "type": "file", "z": "the-flow", "filename": str(self._file),
            "filenameType": "str", "appendNewline": True, "overwriteFile": "false", "wires": [],
        }  # fmt: skip
        return [{"id": "the-flow", "type": "tab", "label": "day"}, broker, come, go, file]

    @property
    def written(self) -> list[int]:
        """The lines of its file."""
        if not self._file.exists():
            return []
        return [int(line) for line in self._file.read_text(encoding="utf-8").splitlines()]

    def end(self) -> None:
        super().end()
        self._program.end()
