"""A whole network on one machine: a process for each broker, started, watched and stopped.

A broker's process that dies is restarted after a pause, so that killing one does not end the
network; a process that ends in order, after a leave, is not. Each broker logs to a file of its own.

Spares run while the system asks for them: the status of the broker that decides has its orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.parse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.shapes import Link
from shoal.overlays.system import SystemLayout
from shoal.runtime.addresses import Address
from shoal.runtime.forks import Fork, broker_fork
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import (
    AccessSection,
    BrokerSection,
    LogSection,
    ScalingSection,
)
from shoal.runtime.operations.caller import ANYBODY, Caller, OrderRefusedError, make_caller
from shoal.runtime.storage.journal_files import Sync
from shoal.runtime.storage.overlay_file import is_member, who_has_left

# Python and its compiled parts take a second to load, more beside much load.
START_TIMEOUT_S = 60.0
# A broker drains before it stops; one that has not stopped by then is killed.
STOP_TIMEOUT_S = 15.0
RESTART_PAUSE_S = 1.0
_OPEN = AccessSection(anonymous=True)
# A client that is to move is waited for.
_ORDER_TIMEOUT_S = 30.0
_POLL_S = 0.1
# Interval of questions about spares that are to start or to end.
_ORDERS_S = 0.5


class StartError(Exception):
    """A network that did not start; says which broker, its last words and where its log is."""


def local_network(
    system: str,
    layout: SystemLayout,
    *,
    host: str = "127.0.0.1",
    port: int = 1883,
    websockets: bool = False,
) -> NetworkFile:
    """A new network of a system on this machine, linked in its shape.

    MQTT listens at `port` and the ports after it, with 0 at any that are free; all others are.
    """
    sections = _sections([*layout.front_ends], [*layout.others], host, port, websockets)
    names = [broker.name for broker in sections]
    links = SYSTEMS[system].make_links(layout.parameters, names)
    return _network(system, sections, links, layout.parameters)


def local_brokers(
    brokers: Sequence[BrokerId],
    links: Sequence[Link],
    system: str,
    parameters: msgspec.Struct | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    websockets: bool = False,
) -> NetworkFile:
    """These brokers, linked so, on this machine; where MQTT listens is as in `local_network`."""
    sections = _sections(list(brokers), [], host, port, websockets)
    return _network(system, sections, links, parameters)


def with_logs(network: NetworkFile, folder: str, sync: Sync) -> NetworkFile:
    """The network with a log in each broker's folder in `folder`, and a listener for readers."""
    free = iter(free_ports("127.0.0.1", len(network.brokers)))
    brokers = tuple(
        msgspec.structs.replace(each, log=str(Address("127.0.0.1", next(free))))
        for each in network.brokers
    )
    section = LogSection(folder=str(Path(folder) / "{broker}" / "log"), sync=sync)
    return msgspec.structs.replace(network, brokers=brokers, log=section)


def _network(
    system: str,
    sections: tuple[BrokerSection, ...],
    links: Sequence[Link],
    parameters: msgspec.Struct | None,
) -> NetworkFile:
    network = NetworkFile(
        name="local",
        brokers=sections,
        system=system,
        links=tuple(links),
        access=_OPEN,
        parameters={} if parameters is None else {system: parameters},
    )
    if not network.spares.names:
        return network
    return msgspec.structs.replace(network, scaling=ScalingSection(by_supervisor=True))


def _sections(
    front_ends: list[BrokerId], others: list[BrokerId], host: str, port: int, websockets: bool
) -> tuple[BrokerSection, ...]:
    """Brokers on this machine: those that clients connect to, then those that have none."""
    free = iter(free_ports(host, 4 * (len(front_ends) + len(others))))
    return tuple(
        BrokerSection(
            name=name,
            peers=str(Address("127.0.0.1", next(free))),
            mqtt=str(Address(host, port + number if port else next(free))) if is_front_end else "",
            websocket=str(Address(host, next(free))) if websockets and is_front_end else "",
            admin=str(Address("127.0.0.1", next(free))),
        )
        for number, name in enumerate((*front_ends, *others))
        for is_front_end in (number < len(front_ends),)
    )


async def get_json(address: Address, path: str, caller: Caller = ANYBODY) -> dict[str, Any]:
    """Return an admin port's answer, with any status code.

    OSError if there is no answer; TimeoutError if there is none yet: its broker may be busy;
    RefusedError if the broker refuses this caller.
    """
    code, text = await asyncio.to_thread(caller.exchange, address, "GET", path)
    answer = _read(address, text)
    if code in (401, 403):
        raise OrderRefusedError(answer["problem"])
    return answer


async def order(address: Address, name: str, caller: Caller = ANYBODY, **said: str) -> str:
    """Have a broker leave its network, move a client and so on; why it cannot.

    OSError when it does not answer, or knows no such order.
    """
    path = f"/{name}?{urllib.parse.urlencode(said)}"
    code, text = await asyncio.to_thread(
        caller.exchange, address, "POST", path, {"X-Shoal": name}, _ORDER_TIMEOUT_S
    )
    if code not in (202, 401, 403, 409):
        raise OSError(f"it knows no order {name}: HTTP {code}")
    problem: str = _read(address, text)["problem"]
    return problem


def _read(address: Address, text: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise OSError(f"{address} does not answer like a broker: {error}") from None
    return answer


async def ask_to_leave(
    address: Address, caller: Caller = ANYBODY, without: Iterable[BrokerId] = ()
) -> str:
    """Ask a broker to leave its network, and to treat some neighbours as dead; why it cannot.

    OSError when it does not answer.
    """
    return await order(address, "leave", caller, without=",".join(without))


class SpareOrders:
    """Orders of brokers that start and end spares, as their statuses show them again and again.

    Each broker has numbers of its own: those of two brokers say nothing about their order.
    """

    def __init__(self) -> None:
        # The number of the last order, by the broker that gave it, and by spare.
        self._last: dict[tuple[BrokerId, BrokerId], int] = {}

    def fresh(self, decider: BrokerId, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """The orders of one broker that have not been returned."""
        last = self._last
        found = [row for row in rows if row["number"] > last.get((decider, row["broker"]), 0)]
        self._last |= {(decider, row["broker"]): row["number"] for row in found}
        return found


class Supervisor:
    """The processes of a network with file `path`; logs go beside it.

    Brokers that have `left` the network in an earlier run are not started, and spares only if they
    were members at its end.
    """

    def __init__(self, network: NetworkFile, path: Path) -> None:
        self.network = network
        self.processes: dict[BrokerId, Fork] = {}
        self.restarts = 0
        folders = (network.storage.folder_of(broker.name) for broker in network.brokers)
        self.left = who_has_left(folder for folder in folders if folder is not None)
        # Started and ended by orders.
        self._spares = set(network.spares.names) if network.spares.are_started else set()
        former = {
            name
            for name in self._spares - self.left
            if (folder := network.storage.folder_of(name)) is not None and is_member(folder)
        }
        self.stopped = self._spares - former
        self.left -= self._spares
        self._brokers = [
            each for each in network.brokers if each.name not in self.left | self.stopped
        ]
        self._orders = SpareOrders()
        # Spares that are not started again when their processes end.
        self._unwanted: set[BrokerId] = set()
        self._path = path
        self._caller = make_caller(network.admin)
        self._watching: dict[BrokerId, asyncio.Task[None]] = {}
        self._following: asyncio.Task[None] | None = None
        self._is_stopping = False

    def log_path(self, name: BrokerId) -> Path:
        return self._path.with_name(f"{name}.log")

    async def start(self) -> None:
        """Start all brokers and wait until all are ready; StartError when one ends instead.

        TimeoutError has the reasons of brokers that do not become ready."""
        for broker in self._brokers:
            await self._spawn(broker.name)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.gather(*(self._ready(each) for each in self._brokers))
        except TimeoutError:
            raise TimeoutError(await self.what_is_missing()) from None
        for each in self._brokers:
            self._watching[each.name] = asyncio.create_task(self._watch(each.name))
        if self._spares:
            self._following = asyncio.create_task(self._follow_orders())

    async def _spawn(self, name: BrokerId) -> None:
        joins = [each.name for each in self.network.brokers if each.name not in self._spares]
        fork = broker_fork(
            self._path, name, self.log_path(name), joins if name in self._spares else ()
        )
        self.processes[name] = fork
        await fork.start()

    # --- spares -------------------------------------------------------------------------------

    async def _follow_orders(self) -> None:
        """Start and end spares as the brokers ask for it."""
        while not self._is_stopping:
            await asyncio.sleep(_ORDERS_S)
            for broker in self._brokers:
                address = broker.address("admin")
                if address is None or not broker.mqtt:
                    continue
                with contextlib.suppress(OSError):
                    status = await get_json(address, "/status", self._caller.to(broker.name))
                    for row in self._orders.fresh(broker.name, status["processes"]):
                        await self.follow(row["broker"], starts=row["starts"])

    async def follow(self, name: BrokerId, *, starts: bool) -> None:
        """Start a spare, or end it."""
        if name not in self._spares:
            return
        process = self.processes.get(name)
        is_running = process is not None and process.returncode is None
        if not starts:
            self._unwanted.add(name)
            if process is not None and is_running:
                await self._end(process)
            return
        self._unwanted.discard(name)
        watching = self._watching.get(name)
        if watching is None or watching.done():  # else it starts a process that has died
            if not is_running:
                await self._spawn(name)
            self._watching[name] = asyncio.create_task(self._watch(name))

    async def _end(self, process: Fork) -> None:
        """Stop a spare in order, or by force."""
        _signal([process], signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            _signal([process], signal.SIGKILL)

    # --- starting and watching ----------------------------------------------------------------

    async def _ready(self, broker: BrokerSection) -> None:
        address = broker.address("admin")
        assert address is not None
        while True:
            if self.processes[broker.name].returncode is not None:
                raise StartError(self._last_words(broker.name))
            with contextlib.suppress(OSError):
                if (await self._ask_ready(address, broker.name))["ready"]:
                    return
            await asyncio.sleep(_POLL_S)

    async def what_is_missing(self) -> str:
        """Return the reasons why brokers are not ready."""
        found = []
        for broker in self._brokers:
            address = broker.address("admin")
            assert address is not None
            try:
                missing = (await self._ask_ready(address, broker.name))["missing"]
            except OSError:
                missing = ["its admin port"]
            if missing:
                found.append(f"{broker.name} waits for {', '.join(missing)}")
        return "; ".join(found)

    async def _ask_ready(self, address: Address, name: BrokerId) -> dict[str, Any]:
        return await get_json(address, "/ready", self._caller.to(name))

    def _last_words(self, name: BrokerId) -> str:
        path = self.log_path(name)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        words = [line.removeprefix("shoal: ") for line in lines if not line.startswith("{")]
        return f"{words[-1] if words else f'{name} ended'}; {name} did not start, see {path}"

    async def _watch(self, name: BrokerId) -> None:
        while not self._is_stopping:
            code = await self.processes[name].wait()
            if code == 0 or name in self._unwanted:
                return  # it has left the network, or was stopped
            self._note_death(name, code)
            await asyncio.sleep(RESTART_PAUSE_S)
            if not self._is_stopping and name not in self._unwanted:
                self.restarts += 1
                await self._spawn(name)

    def _note_death(self, name: BrokerId, code: int) -> None:
        """A line in the broker's log, which it cannot write itself."""
        if self._is_stopping:
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        row = {
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
            "level": "warning",
            "broker": name,
            "event": "broker died",
            "why": how,
            "restarts_in_s": RESTART_PAUSE_S,
        }
        with self.log_path(name).open("a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")

    async def stop(self) -> None:
        """Stop all brokers, those that do not stop by force."""
        self._is_stopping = True
        for task in filter(None, (*self._watching.values(), self._following)):
            task.cancel()
        running = [each for each in self.processes.values() if each.returncode is None]
        _signal(running, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.gather(*(each.wait() for each in running))
        except TimeoutError:
            _signal((each for each in running if each.returncode is None), signal.SIGKILL)


def _signal(processes: Iterable[Fork], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
