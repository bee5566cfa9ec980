"""An upgrade behind one address: brokers are drained, stopped and started one after the other.

The clients are paho and `mosquitto_sub`; they know HAProxy's address only, and reconnect when
closed. HAProxy runs the configuration of `examples/haproxy`, with other ports. The test prints how
long each client was without a connection or messages (`pytest -s`).
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from shoal.cli.main import main
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import load_network
from tests.examples import at_length
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, processes, wait_until

EXAMPLE = Path(__file__).parents[3] / "examples" / "haproxy"
CONFIGURATION = (EXAMPLE / "haproxy.cfg").read_text(encoding="utf-8")
# Of brokers that are ready, and of those that run.
BACKENDS = CONFIGURATION.split("\nbackend ")[1:]
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
MOSQUITTO_SUB = shutil.which("mosquitto_sub")
VERSIONS = {"old": paho.MQTTv311, "new": paho.MQTTv5}


def test_the_example_lists_the_brokers_of_its_network_file() -> None:
    network = load_network(EXAMPLE / "network.toml")
    for broker in network.brokers:
        admin = broker.address("admin")
        assert admin is not None
        line = f"server {broker.name} {broker.mqtt} port {admin.port}\n"
        assert [line in backend for backend in BACKENDS] == [True, True]
    assert CONFIGURATION.count("    server ") == 2 * len(network.brokers)


class Gaps:
    """The longest pause between two events of a continuous series."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s: float | None = None

    def begin(self) -> None:
        if self._last_s is None:
            self._last_s = time.monotonic()

    def end(self) -> None:
        if self._last_s is not None:
            self.longest_s = max(self.longest_s, time.monotonic() - self._last_s)
            self._last_s = None


class Plain:
    """paho with its defaults and a lasting session; it knows one address."""

    def __init__(self, port: int, name: str, version: Any) -> None:
        self.name = name
        self.out = Gaps()
        self.heard: list[str] = []
        self.acknowledged: list[str] = []
        self._acknowledged = threading.Event()
        self._subscribed = threading.Event()
        clean = {} if version == paho.MQTTv5 else {"clean_session": False}
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, **clean)
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = lambda *_: self.out.begin()
        self.paho.on_message = lambda _c, _d, message: self.heard.append(message.payload.decode())
        self.paho.on_publish = lambda *_: self._acknowledged.set()
        self.paho.on_subscribe = lambda *_: self._subscribed.set()
        options = {"clean_start": False, "properties": _kept()} if version == paho.MQTTv5 else {}
        self.paho.connect("127.0.0.1", port, **options)
        self.paho.loop_start()

    def subscribe(self, topic: str) -> None:
        self.paho.subscribe(topic, 1)
        assert self._subscribed.wait(PATIENCE_S)

    def publish_until(self, is_over: threading.Event) -> None:
        """Publish one at a time: paho may send new publications before its retransmissions."""
        number = 0
        while not is_over.wait(0.01):
            text = f"{self.name} {number}"
            self.paho.publish(f"a/{self.name}", text, 1)
            assert self._acknowledged.wait(PATIENCE_S)
            self._acknowledged.clear()
            self.acknowledged.append(text)
            number += 1

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
        if not reason.is_failure:
            self.out.end()


def _kept() -> paho.Properties:
    properties = paho.Properties(paho.PacketTypes.CONNECT)  # type: ignore[attr-defined]
    properties.SessionExpiryInterval = 600
    return properties


class Mosquitto:
    """`mosquitto_sub` with a lasting session."""

    def __init__(self, port: int) -> None:
        self.name = "mosquitto_sub"
        self.out = Gaps()
        self.heard: list[str] = []
        words = [str(MOSQUITTO_SUB), "-p", str(port), "-t", "a/#", "-q", "1", "-i", "m", "-c"]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.out.end()
            self.out.begin()
            self.heard.append(line.rstrip("\n"))

    def stop(self) -> None:
        assert self._process.poll() is None, "mosquitto_sub has given up"
        self._process.terminate()
        self._process.wait(PATIENCE_S)


@contextmanager
def balanced(network: Processes) -> Iterator[int]:
    """HAProxy in front of these brokers; its port."""
    (port,) = free_ports("127.0.0.1", 1)
    text = CONFIGURATION.replace("127.0.0.1:1883", f"127.0.0.1:{port}")
    text = "".join(row for row in text.splitlines(True) if not row.startswith("    server "))
    servers = ""
    for broker in network.network.brokers:
        admin = broker.address("admin")
        assert admin is not None
        servers += f"    server {broker.name} {broker.mqtt} port {admin.port}\n"
    before, *backends = text.split("\nbackend ")
    text = "\nbackend ".join([before, *(f"{each}\n{servers}" for each in backends)])
    path = network.folder / "haproxy.cfg"
    path.write_text(text, encoding="utf-8")
    process = subprocess.Popen([str(HAPROXY), "-f", str(path), "-db"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def in_order(heard: list[str], publisher: str) -> bool:
    """Whether a publisher's messages arrived in order, by first occurrences."""
    numbers = [int(text.split()[1]) for text in heard if text.split()[0] == publisher]
    first = list(dict.fromkeys(numbers))
    return first == sorted(first)


def is_ready(network: Processes, name: str) -> bool:
    return bool(network.status(name)["ready"])


@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
@pytest.mark.parametrize(("brokers", "upgraded"), [(2, 1), *at_length([(4, 4)])])
def test_an_upgrade_behind_haproxy_loses_nothing_acknowledged(
    tmp_path: Path, brokers: int, upgraded: int
) -> None:
    with processes(tmp_path, brokers) as network, ExitStack() as stack:
        names = [broker.name for broker in network.network.brokers]
        for name in names:
            wait_until(lambda name=name: is_ready(network, name))  # type: ignore[misc]
        port = stack.enter_context(balanced(network))
        readers: list[Plain | Mosquitto] = []
        for kind, version in VERSIONS.items():
            readers.append(Plain(port, f"{kind}-reader", version))
            readers[-1].subscribe("a/#")  # type: ignore[union-attr]
        if MOSQUITTO_SUB is not None:
            readers.append(Mosquitto(port))
        writers = [Plain(port, f"{kind}-writer", version) for kind, version in VERSIONS.items()]
        for client in (*readers, *writers):
            stack.callback(client.stop)
        is_over = threading.Event()

        writing = [
            threading.Thread(target=writer.publish_until, args=(is_over,)) for writer in writers
        ]
        for thread in writing:
            thread.start()
        stack.callback(is_over.set)
        wait_until(lambda: all(len(each.heard) > 20 for each in readers))
        # Before that mosquitto_sub may not have subscribed.
        before = {text for writer in writers for text in writer.acknowledged}
        for name in names[:upgraded]:
            with pytest.raises(SystemExit) as ended:
                main(("drain", str(network.path), name, "--after", "1"))
            assert not ended.value.code
            network.kill(name, how=signal.SIGTERM)
            network.start(name)
            wait_until(lambda name=name: is_ready(network, name))  # type: ignore[misc]
        is_over.set()
        for thread in writing:
            thread.join()
        said = {text for writer in writers for text in writer.acknowledged} - before
        assert said
        wait_until(lambda: all(said <= set(reader.heard) for reader in readers))
        for reader in readers:
            assert all(in_order(reader.heard, writer.name) for writer in writers), reader.name
        for each in (*writers, *readers):
            print(f"{each.name} was out for {each.out.longest_s:.1f} s at most")


@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")
def test_a_broker_that_runs_takes_clients_while_none_is_ready(tmp_path: Path) -> None:
    with processes(tmp_path, 2) as network, balanced(network) as port:
        wait_until(lambda: is_ready(network, "B1") and is_ready(network, "B2"))
        network.kill("B2")
        wait_until(lambda: not is_ready(network, "B1"))
        time.sleep(1)  # HAProxy asks twice in a second
        client = Plain(port, "late", paho.MQTTv5)
        try:
            client.subscribe("a/#")
            is_over = threading.Event()
            writing = threading.Thread(target=client.publish_until, args=(is_over,))
            writing.start()
            wait_until(lambda: len(client.heard) > 3)
            is_over.set()
            writing.join()
        finally:
            client.stop()
