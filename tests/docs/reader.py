"""A reader of a page: runs its examples in a folder of its own.

A command that ends runs in this process; one that runs until Ctrl-C is a process until the reader
leaves. The page's ports become those of the reader's network.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import shoal
from shoal.cli.main import main
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import load_network
from tests.docs.blocks import Block, Command
from tests.live.processes import up
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S
from tools.reference.commands import parser

MOSQUITTO = ("mosquitto_sub", "mosquitto_pub")
FIRST_PORT = 1883
# A page's settings for real data, which are too long for the three lines here.
SHORTER = {"--brokers 15": "--brokers 3", "--duration-s 300": "--duration-s 2"}


def check_options(command: Command, place: str) -> None:
    """AssertionError unless the program accepts the command line."""
    words = shlex.split(command.text)
    assert words[0] == "shoal", f"{place}: {command.text}"
    found = parser().commands.get(words[1])
    assert found is not None, f"{place}: no command {words[1]}"
    try:
        found.make_context(words[1], words[2:])
    except Exception as error:
        raise AssertionError(f"{place}: {command.text}: {error}") from error


def take_interrupts() -> None:
    """Accept interrupts, which a background job may ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Process:
    """A program that runs on, and its output."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.words = words
        self._out = (folder / f".{time.monotonic_ns()}").with_suffix(".out")
        self.running = self._start(folder)

    def _start(self, folder: Path) -> subprocess.Popen[bytes] | Forked:
        with self._out.open("wb") as out:
            return subprocess.Popen(self.words, cwd=folder, stdout=out, stderr=subprocess.STDOUT)

    @property
    def printed(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> str:
        """The output once it contains this text."""
        end_s = time.monotonic() + PATIENCE_S
        while text not in self.printed:
            late = time.monotonic() > end_s or self.running.poll() is not None
            assert not late, f"{self.words} printed no {text!r}: {self.printed}"
            time.sleep(0.02)
        return self.printed

    def stop(self) -> None:
        if self.running.poll() is None:
            # One mosquitto_sub may miss the other's messages.
            is_ours = isinstance(self.running, Forked)
            self.running.send_signal(signal.SIGINT if is_ours else signal.SIGKILL)
        self.running.wait(PATIENCE_S)


class ShoalProcess(Process):
    """A command of shoal that runs on."""

    def _start(self, folder: Path) -> Forked:
        self._out.touch()
        with contextlib.chdir(folder):
            forked = Forked(self.words, self._out)
        threading.Thread(target=self._copy, args=[forked], daemon=True).start()
        return forked

    def _copy(self, forked: Forked) -> None:
        with forked.stdout, self._out.open("a", encoding="utf-8") as out:
            for line in forked.stdout:
                out.write(line)
                out.flush()


class Networks:
    """Networks started with `shoal up`; pages with the same command share one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Path] = {}
        self._stack = contextlib.ExitStack()

    def up(self, options: list[str], where: Path) -> Path:
        """The folder of a network with these options, which runs until `stop`."""
        key = shlex.join(options)
        if key not in self._running:
            folder = self._folder / f"network-{len(self._running)}"
            with contextlib.chdir(where):
                self._stack.enter_context(up(folder, *options))
            self._running[key] = folder
        return self._running[key]

    def stop(self) -> None:
        self._stack.close()


class Reader:
    """Reads one page; `names` are variables of its Python.

    Spark's Java was started elsewhere and keeps its folder: with `spark` files have absolute paths.
    """

    def __init__(
        self,
        folder: Path,
        networks: Networks,
        names: Mapping[str, Any] = {},
        spark: bool = False,
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._networks = networks
        self._processes: list[Process] = []
        self._subscribers: list[Process] = []
        self._ports: dict[int, int] = {}
        self._names: dict[str, Any] = {"shoal": shoal, **names}

    def read(self, block: Block, unrun: Mapping[str, str]) -> None:
        """Do what a block says; check only the options of `unrun` commands."""
        if block.file:
            (self._folder / block.file).write_text(self._with_ports(block.text), encoding="utf-8")
        elif block.language == "python":
            self._run_python(block)
        elif block.language == "console":
            for command in block.commands:
                if any(command.text.startswith(text) for text in unrun):
                    check_options(command, block.place)
                else:
                    self._do(command, block.place)

    def leave(self) -> None:
        """Check that every subscriber received something, and end all processes."""
        try:
            for process in self._subscribers:
                process.wait_for("41")
        finally:
            for process in reversed(self._processes):
                process.stop()

    def _do(self, command: Command, place: str) -> None:
        text = self._with_ports(command.text)
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        words = shlex.split(text)
        if words[0] == "cat":
            (self._folder / words[1]).write_text(command.output, encoding="utf-8")
        elif words[:2] == ["shoal", "up"]:
            self._up(words[2:])
        elif words[0] in MOSQUITTO:
            self._mosquitto(words)
        elif words[:2] in (["shoal", "serve"], ["shoal", "subscribe"]):
            self._start(words)
        else:
            check_options(Command(text, ""), place)
            end_s = time.monotonic() + PATIENCE_S
            while True:
                code, printed, said = self._run(self._absolute(words[1:]))
                # Brokers that have just been started are not ready yet.
                if words[1] != "status" or code == 0 or time.monotonic() > end_s:
                    break
            assert code == 0, f"{place}: {text}: {printed}{said}"
            assert command.output in ("", printed), f"{place}: {text} printed {printed}"

    def _up(self, words: list[str]) -> None:
        named = ""
        if "--folder" in words:
            at = words.index("--folder")
            named = words[at + 1]
            del words[at : at + 2]
        if "--port" in words:
            at = words.index("--port")
            del words[at : at + 2]
        folder = self._networks.up(words, self._folder)
        brokers = load_network(folder / "network.toml").brokers
        for number, broker in enumerate(brokers):
            self._ports[FIRST_PORT + number] = int(broker.mqtt.rpartition(":")[2])
        if named:
            (self._folder / named).symlink_to(folder)

    def _start(self, words: list[str]) -> None:
        process = ShoalProcess(words[1:], self._folder)
        self._processes.append(process)
        if words[1] == "subscribe":
            process.wait_for("subscribed at")
            self._subscribers.append(process)
        else:
            process.wait_for('"started"')

    def _mosquitto(self, words: list[str]) -> None:
        if shutil.which(words[0]) is None:
            words = [sys.executable, str(Path(__file__).with_name("mosquitto.py")), *words]
        if MOSQUITTO[0] in words:
            # It buffers its output when it is not a terminal.
            lines = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
            process = Process([*lines, *words, "-d"], self._folder)
            self._processes.append(process)
            process.wait_for("Subscribed")
            self._subscribers.append(process)
        else:
            subprocess.run(words, check=True, timeout=PATIENCE_S)

    def _absolute(self, words: list[str]) -> list[str]:
        if not self._spark:
            return words
        return [
            str(self._folder / word)
            if before == "--out" or (self._folder / word).exists()
            else word
            for before, word in zip(["", *words], words, strict=False)
        ]

    def _run(self, words: list[str]) -> tuple[int, str, str]:
        """The exit code of a command in this process, with its standard output and errors."""
        printed, said = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self._folder),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            try:
                main(words)
            except SystemExit as end:
                return int(end.code or 0), printed.getvalue(), said.getvalue()
        return 0, printed.getvalue(), said.getvalue()

    def _run_python(self, block: Block) -> None:
        text = self._with_ports(block.text)
        if "async with" in text and "asyncio.run" not in text:
            text = f"async def example():\n{textwrap.indent(text, '    ')}"
        code = compile(text, block.place, "exec")
        with contextlib.chdir(self._folder):
            exec(code, self._names)
            if inspect.iscoroutinefunction(example := self._names.pop("example", None)):
                asyncio.run(example())

    def _with_ports(self, text: str) -> str:
        def port(found: re.Match[str]) -> str:
            said = int(found[2])
            if said and said not in self._ports:
                (self._ports[said],) = free_ports("127.0.0.1", 1)
            return f"{found[1]}{self._ports.get(said, said)}"

        return re.sub(r"(127\.0\.0\.1(?::|\", )|-p )(\d+)", port, text)


@contextlib.contextmanager
def reading(
    folder: Path, networks: Networks, names: Mapping[str, Any] = {}, spark: bool = False
) -> Iterator[Reader]:
    """A reader who leaves at the end."""
    reader = Reader(folder, networks, names, spark)
    try:
        yield reader
    finally:
        reader.leave()
