"""Brokers as processes that can be killed, and real clients that reconnect by themselves."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.runtime.addresses import Address, read_address
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import dump_network, parse_network
from shoal.runtime.network_sections import BrokerSection
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S, status_of

SHOAL = (sys.executable, "-m", "shoal.cli.main")
# A broker listens within a second, and then waits for others, at most for the time of a member.
STARTS_S = 60


class Processes:
    """A line of brokers, each a process of its own; their folder has all their files."""

    def __init__(self, folder: Path, brokers: int, **changes: Any) -> None:
        ports = iter(free_ports("127.0.0.1", 3 * brokers))
        keys = ("peers", "mqtt", "admin")
        sections = [
            {"name": f"B{number}"} | {key: f"127.0.0.1:{next(ports)}" for key in keys}
            for number in range(1, brokers + 1)
        ]
        links = [[f"B{number}", f"B{number + 1}"] for number in range(1, brokers)]
        data = {
            "name": "n",
            "brokers": sections,
            "links": links,
            "access": {"anonymous": True},
            "storage": {"folder": "data", "sync": "never"},
        }
        self.network = parse_network(data | changes)
        self.folder = folder
        self.path = folder / "network.toml"
        self.path.write_text(dump_network(self.network), encoding="utf-8")
        self.running: dict[str, Forked] = {}
        # Network files of brokers that reach others by another way.
        self._paths: dict[str, Path] = {}
        # Options of joined brokers, which are in no file.
        self._joined: dict[str, list[str]] = {}

    def join(self, name: str, *over: str) -> None:
        """Start a new broker, which knows some of the others."""
        self.joining(name, *over)
        self.start(name)

    def add_joiner(self, name: str, over: str) -> None:
        """Choose the command of a new broker, which knows one of the others."""
        self.joining(name, over)

    def rejoin(self, name: str, over: str) -> None:
        """Let a broker of the network file join through another one at its next start."""
        self._joined[name] = ["--join", f"{over}={self.network.broker(over).peers}"]

    def joining(self, name: str, *over: str) -> list[str]:
        """The options of a new broker; the same each time."""
        if name not in self._joined:
            keys, ports = ("peers", "mqtt", "admin"), free_ports("127.0.0.1", 3)
            listeners = {key: f"127.0.0.1:{port}" for key, port in zip(keys, ports, strict=True)}
            options = self._joined[name] = []
            for each in over:
                options += ["--join", f"{each}={self.network.broker(each).peers}"]
            for key, where in listeners.items():
                options += ["--listen", f"{key}={where}"]
            section = BrokerSection(name=name, **listeners)
            brokers = (*self.network.brokers, section)
            self.network = msgspec.structs.replace(self.network, brokers=brokers)
        return self._joined[name]

    def comes_back(self, name: str, over: str) -> None:
        """Start a broker of the file that joins anew."""
        (self.folder / "data" / name / "overlay.json").unlink(missing_ok=True)
        self._joined[name] = ["--join", f"{over}={self.network.broker(over).peers}"]
        self.start(name)

    def broker_address(self, name: str, key: str) -> Address:
        """A broker's listening address."""
        address = self.network.broker(name).address(key)
        assert address is not None
        return address

    def status(self, name: str) -> dict[str, Any]:
        return asyncio.run(status_of(self.network.broker(name).address("admin")))

    def is_ready(self, name: str) -> bool:
        """Whether a broker accepts publications without waiting."""
        return not self.status(name)["missing"]

    def start(self, *names: str, awaits: bool = True) -> None:
        """Start brokers, and wait until they admit clients, or at least answer (`awaits`)."""
        self.run(*names)
        if not awaits:
            for name in names:
                self.status(name)
            return
        for name in names:
            assert self._listens(name), f"{name} admits no clients; {self.log(name)}"

    def _listens(self, name: str) -> bool:
        """Whether a broker reports in time that it admits clients; a joining one may never."""
        stdout, listening = self.running[name].stdout, list[str]()
        reading = threading.Thread(
            target=lambda: listening.extend(stdout.readline() for _ in range(3)), daemon=True
        )
        reading.start()
        reading.join(STARTS_S)
        return bool(listening) and listening[-1].startswith(f"{name} mqtt ")

    def run(self, *names: str) -> None:
        """Run brokers by their commands, without waiting."""
        for name in names:
            words = ("serve", str(self._paths.get(name, self.path)), "--broker", name)
            self.running[name] = Forked(
                (*words, *self._joined.get(name, ())), self.folder / f"{name}.log"
            )

    def lay_cable(self, name: str, other: str) -> Cable:
        """Later starts of the broker with the smaller name dial the other over this cable."""
        cable = Cable(read_address(self.network.broker(other).peers))
        brokers = [
            msgspec.structs.replace(each, peers=str(cable.address)) if each.name == other else each
            for each in self.network.brokers
        ]
        self._paths[name] = self.folder / f"{name}.toml"
        network = msgspec.structs.replace(self.network, brokers=tuple(brokers))
        self._paths[name].write_text(dump_network(network), encoding="utf-8")
        return cable

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def kill(self, *names: str, how: signal.Signals = signal.SIGKILL) -> None:
        for name in names:
            self.running[name].send_signal(how)
        for name in names:
            process = self.running.pop(name)
            process.wait(PATIENCE_S)
            process.stdout.close()

    def fill_disk(self, name: str) -> None:
        """Make all writes of a broker fail (EFBIG) until there is room again."""
        infinity = resource.RLIM_INFINITY
        resource.prlimit(self.running[name].pid, resource.RLIMIT_FSIZE, (0, infinity))

    def empty_disk(self, name: str) -> None:
        """Make room on a broker's disk again."""
        infinity = resource.RLIM_INFINITY
        resource.prlimit(self.running[name].pid, resource.RLIMIT_FSIZE, (infinity, infinity))

    def knows(self, broker: str, subscriptions: int) -> None:
        """Wait until a broker knows so many subscriptions, its own front end's included."""

        def has_heard() -> bool:
            return bool(self.status(broker)["tables"]["subscriptions"] == subscriptions)

        if len(self.network.brokers) > 1:
            wait_until(has_heard)

    def client(self, broker: str, name: str, expiry_s: int = 600) -> Client:
        address = self.network.broker(broker).address("mqtt")
        assert address is not None
        return Client(address.host, address.port, name, expiry_s)


@contextmanager
def processes(folder: Path, brokers: int = 1, **changes: Any) -> Iterator[Processes]:
    with not_started(folder, brokers, **changes) as found:
        found.start(*(each.name for each in found.network.brokers))
        yield found


@contextmanager
def not_started(folder: Path, brokers: int = 1, **changes: Any) -> Iterator[Processes]:
    found = Processes(folder, brokers, **changes)
    try:
        yield found
    finally:
        found.kill(*found.running)


class Cable:
    """Relays connections to an address, until it is cut; it can be mended.

    One bit of each `damaged_every` bytes is flipped, none if that is 0.
    """

    def __init__(self, to: Address) -> None:
        self.damaged_every = 0
        # Decides only which bits flip.
        self._random = Random(1)
        self._to = to
        self._is_cut = False
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for each in list(self._sockets):
            _close(each)

    def mend(self) -> None:
        self._is_cut = False

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(self._to)
                except OSError:
                    near.close()
                    continue
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        self._sockets.add(source)
        with suppress(OSError):
            passed = 0
            while not self._is_cut and (data := bytearray(source.recv(65_536))):
                passed += len(data)
                if self.damaged_every and passed >= self.damaged_every:
                    data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
                    passed = 0
                target.sendall(data)
        for each in (source, target):
            _close(each)
        self._sockets.discard(source)


def _close(end: socket.socket) -> None:
    """Also for a thread that waits for it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class Paho(paho.Client):
    """paho without a mistake in its QoS 2.

    After two failed reconnects it publishes released messages anew, though [MQTT-4.3.3-6] forbids
    it; no broker can recognise those.
    """

    def _messages_reconnect_reset_out(self) -> None:
        released = (MessageState.MQTT_MS_WAIT_FOR_PUBCOMP, MessageState.MQTT_MS_RESEND_PUBREL)
        kept = [each for each in self._out_messages.values() if each.state in released]
        super()._messages_reconnect_reset_out()
        for message in kept:
            message.state = MessageState.MQTT_MS_RESEND_PUBREL


class Client:
    """An MQTT 5 client with a lasting session; it reconnects by itself."""

    def __init__(self, host: str, port: int, name: str, expiry_s: int) -> None:
        self.payloads: list[bytes] = []
        self.session_present: list[bool] = []
        self._where = (host, port)
        self._is_connected = threading.Event()
        self._expiry_s = expiry_s
        self.paho = Paho(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        self.paho.max_inflight_messages_set(50)
        self.paho.reconnect_delay_set(1, 1)
        self.paho.on_message = lambda client, data, message: self.payloads.append(message.payload)
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = lambda *_: self._is_connected.clear()

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, _: Any) -> None:
        self.session_present.append(flags.session_present)
        self._is_connected.set()

    def connect(self, **options: Any) -> Client:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = self._expiry_s
        options = {"clean_start": False, "properties": properties} | options
        self.paho.connect(*self._where, **options)
        self.paho.loop_start()
        assert self._is_connected.wait(PATIENCE_S)
        return self

    def disconnect(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def subscribe(self, topic: str, qos: int) -> None:
        done = threading.Event()
        self.paho.on_subscribe = lambda *_: done.set()
        self.paho.subscribe(topic, qos)
        assert done.wait(PATIENCE_S)

    def __enter__(self) -> Client:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.disconnect()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "the condition does not hold"
        time.sleep(0.03)  # a question costs the broker, and this process, milliseconds
