"""The brokers of a plan as processes that can be killed, stopped, paused and slowed down.

Brokers may join and leave, too. The network file lists those that are members at first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from shoal.runtime.forks import Fork
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import BrokerSection, dump_network, parse_network
from shoal.runtime.supervisor import ask_to_leave, get_json
from tests.chaos.broker import FULL, run
from tests.chaos.cables import HOST, Cables
from tests.chaos.history import (
    Clock,
    Cut,
    Departed,
    Died,
    Disk,
    Event,
    Killed,
    Logged,
    Measured,
    Mended,
    Paused,
    Ready,
    Resumed,
    Started,
)
from tests.chaos.members import FEWEST
from tests.chaos.schedule import X_LIMIT, Plan, clusters_of

POLL_S = 0.1
HAS_LEFT = "has left the network"
# Between two orders of one leave.
ORDER_S = 0.5
STOP_TIMEOUT_S = 20.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
# Expected complaints of a broker; any other line of these levels is a violation.
BAD_LEVELS = ('"level": "error"', '"level": "critical"')

# Brokers that return in time do not count as dead.
_VIEWS = {"patience_us": 60_000_000, "linger_us": 3_000_000}
_RING = _VIEWS | {"reconfigure_us": 3_000_000, "price_percent": 0}
# Short timeouts, so that a run of seconds covers a whole change of links.
_SYSTEMS: dict[str, dict[str, Any]] = {
    "tree": {},
    "grape": {"trace_session_length": 25, "priority": "delay", "answer_timeout_us": 2_000_000},
    "pop": {"threshold": 25, "window_publications": 25, "answer_timeout_us": 2_000_000},
    "bluedove": {
        "dimensions": [{"attribute": "x", "low": 0, "high": X_LIMIT}],
        "gossip_interval_us": 500_000,
        "pull_interval_us": 2_000_000,
        "answer_timeout_us": 1_000_000,
        "failure_us": 4_000_000,
    },
    "self_organising": {"mode": "exchange", "interval_us": 2_000_000, "least_gain_percent": 0},
    # Brokers that return in time do not count as dead, though detours begin after 3 s.
    "octopia": {"patience_us": 60_000_000},
    "tid": {},
    **dict.fromkeys(("dynatops", "bayeux", "geops"), _RING),
    "hybrid": {**_RING, "per_gateway": 2},
    "tco": _VIEWS,
}
_IN_VIEWS = ("dynatops", "bayeux", "geops", "hybrid", "tco")
_LINK_LIMITS = {name: {"give_up_us": 60_000_000} for name in _IN_VIEWS}


class Brokers:
    """The processes of one run. Faults are recorded as they are applied."""

    def __init__(
        self, plan: Plan, folder: Path, record: Callable[[Event], None], now: Callable[[], float]
    ) -> None:
        self.folder = folder
        self._record = record
        self._now = now
        self._path = folder / "network.toml"
        names = (*plan.brokers, *plan.joiners)
        ports = iter(free_ports("127.0.0.1", 3 * len(names)))
        listeners = {
            name: {key: f"127.0.0.1:{next(ports)}" for key in ("peers", "mqtt", "admin")}
            for name in names
        }
        clusters = {"clusters": clusters_of(plan.brokers)} if plan.system == "octopia" else {}
        data = {
            "name": "chaos",
            "system": plan.system,
            "seed": plan.seed,
            "brokers": [{"name": name} | listeners[name] for name in plan.brokers],
            "links": plan.links,
            "access": {"anonymous": True},
            "storage": {"folder": str(folder / "data"), "acknowledge": plan.acknowledge},
            "limits": {"maximum_queued_messages": 1_000_000},
            "link_limits": {"silence_us": 2_000_000} | _LINK_LIMITS.get(plan.system, {}),
            plan.system: _SYSTEMS.get(plan.system, {}) | clusters,
        }
        self.network = parse_network(data)
        self._path.write_text(dump_network(self.network), encoding="utf-8")
        sections = [BrokerSection(name=name, **listeners[name]) for name in plan.joiners]
        # With brokers that may join.
        self.network = msgspec.structs.replace(
            self.network, brokers=[*self.network.brokers, *sections]
        )
        # Options of the commands of joiners, which the file does not list.
        self._listens: dict[str, list[str]] = {
            name: [f"--listen={key}={where}" for key, where in listeners[name].items()]
            for name in plan.joiners
        }
        self._joins: dict[str, str] = {}
        # Brokers that are to be in the network; some of them are to leave.
        self._members = set(plan.brokers)
        self._leaving: set[str] = set()
        # Brokers that are to join once they have left.
        self._returning: set[str] = set()
        # Only where the plan needs them: relays cost processor time.
        has_cables = any(each.kind in ("cut", "hang", "slow cable") for each in plan.actions)
        self._cables = Cables(self._peers()) if has_cables else None
        self._processes: dict[str, Fork] = {}
        self._killed: dict[str, Fork] = {}
        self._paused: set[str] = set()
        self._stopping: set[str] = set()
        self._starting = {name: asyncio.Lock() for name in names}
        self._watching: set[asyncio.Task[None]] = set()
        self._memory_mb: dict[str, float] = {}
        self._ready: set[str] = set()

    @property
    def staying(self) -> list[str]:
        """Members that have no order to leave."""
        return sorted(self._members - self._leaving)

    @property
    def leaving(self) -> list[str]:
        """Members that have not left yet, as they were ordered."""
        return sorted(self._leaving)

    def address(self, broker: str) -> tuple[str, int]:
        """The address for MQTT clients."""
        address = self.network.broker(broker).address("mqtt")
        assert address is not None
        return address.host, address.port

    def broker_at(self, address: str) -> str:
        """The broker with this MQTT address; KeyError when there is none."""
        return {each.mqtt: each.name for each in self.network.brokers}[address]

    def _peers(self) -> dict[str, int]:
        found = {each.name: each.address("peers") for each in self.network.brokers}
        return {name: address.port for name, address in found.items() if address is not None}

    async def lay_cables(self) -> None:
        """Start the relays. Each broker gets its own network file with the relays as addresses of
        other brokers.
        """
        if self._cables is None:
            return
        ways = await self._cables.start()
        for broker in self.network.brokers:
            own = [
                each
                if each is broker
                else msgspec.structs.replace(each, peers=f"{HOST}:{ways[broker.name, each.name]}")
                for each in self.network.brokers
            ]
            network = msgspec.structs.replace(self.network, brokers=own)
            self._file(broker.name).write_text(dump_network(network), encoding="utf-8")

    def _file(self, broker: str) -> Path:
        return self._path if self._cables is None else self._path.with_name(f"{broker}.toml")

    # --- faults -------------------------------------------------------------------------------

    async def start(self, broker: str) -> None:
        """Start the member unless it runs; wait for the end of a stopped or killed process first.

        A process killed while it waits for a disk ends when the disk answers.
        """
        async with self._starting[broker]:
            if (killed := self._killed.pop(broker, None)) is not None:
                await killed.wait()
            if broker in self._stopping:
                await self._processes[broker].wait()
                await asyncio.sleep(0)
            if broker in self._members and broker not in self._processes:
                options = (*self._listens.get(broker, ()), self._joins.get(broker))
                process = Fork(run, self._file(broker).absolute(), broker, *filter(None, options))
                await process.start()
                self._processes[broker] = process
                self._record(Started(at_s=self._now(), broker=broker))
                self._watch(self._wait_for_end(broker, process))
                self._watch(self._wait_until_ready(broker, process))

    async def join(self, broker: str, over: str) -> None:
        """Start a broker that joins through another; if it is leaving, behind its leave.

        A member whose order to leave was not given stays one. If the other is about to leave, or
        has left, the broker joins through one that stays.
        """
        if broker in self.staying:
            return
        self._returning.add(broker)
        while broker in self._leaving or (
            broker in self._processes and broker not in self._members
        ):
            await asyncio.sleep(POLL_S)
        self._returning.discard(broker)
        if over not in self.staying:
            over = min(self.staying, default=over)
        self._joins[broker] = f"--join={over}={self.network.broker(over).peers}"
        self._members.add(broker)
        await self.start(broker)

    async def leave(self, broker: str) -> None:
        """Order the broker to leave, repeatedly until it has left.

        An order is refused while a neighbour is down, and a killed broker may have forgotten it. So
        orders take long, and the last two that have joined and stay get none.
        """
        staying = self._ready.intersection(self.staying)
        if broker not in self.staying or len(staying - {broker}) < FEWEST:
            return
        self._leaving.add(broker)
        address = self.network.broker(broker).address("admin")
        assert address is not None
        while broker in self._leaving:
            with contextlib.suppress(OSError):
                refusal = await ask_to_leave(address)
                if refusal and HAS_LEFT in json.dumps(await get_json(address, "/status")):
                    # It was killed in the last moment of its leave.
                    self._depart(broker)
                    await self.stop(broker)
            await asyncio.sleep(ORDER_S)

    def _depart(self, broker: str) -> None:
        self._leaving.discard(broker)
        self._members.discard(broker)
        self._record(Departed(at_s=self._now(), broker=broker))

    def end(self, broker: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill the broker or ask it to stop, if it runs."""
        process = self._processes.get(broker)
        if process is None:
            return
        if how == signal.SIGKILL:
            self._killed[broker] = self._processes.pop(broker)
            self._stopping.discard(broker)
        else:
            self._stopping.add(broker)
        self._paused.discard(broker)
        self._ready.discard(broker)
        self._record(Killed(at_s=self._now(), broker=broker))
        _send(process, how)
        if how != signal.SIGKILL:
            _send(process, signal.SIGCONT)

    async def stop(self, broker: str) -> None:
        """Ask the broker to drain, and wait for its end."""
        process = self._processes.get(broker)
        if process is None:
            return
        self.end(broker, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            self._record(Logged(at_s=self._now(), broker=broker, line="does not stop when asked"))
            _send(process, signal.SIGKILL)
        self._forget(broker, process)

    def pause(self, broker: str) -> None:
        process = self._processes.get(broker)
        if process is not None and broker not in self._paused:
            self._paused.add(broker)
            self._record(Paused(at_s=self._now(), broker=broker))
            _send(process, signal.SIGSTOP)

    def resume(self, broker: str) -> None:
        process = self._processes.get(broker)
        if process is not None and broker in self._paused:
            self._paused.discard(broker)
            _send(process, signal.SIGCONT)
            self._record(Resumed(at_s=self._now(), broker=broker))

    def set_disk(self, broker: str, delay_s: float = 0.0, *, is_full: bool = False) -> None:
        control = self.folder / f"{broker}.disk"
        new = control.with_suffix(".new")
        new.write_text(FULL if is_full else f"{delay_s}" if delay_s else "", encoding="ascii")
        new.replace(control)
        self._record(Disk(at_s=self._now(), broker=broker, delay_s=delay_s, is_full=is_full))

    def set_clock(self, broker: str, off_s: float) -> None:
        """Set the clock's offset from the broker's next start on."""
        (self.folder / f"{broker}.clock").write_text(f"{off_s}", encoding="ascii")
        self._record(Clock(at_s=self._now(), broker=broker, off_s=off_s))

    def spoil_cable(self, how: str, one: str, other: str, delay_s: float = 0.0) -> None:
        """Cut, hang, slow or mend a cable."""
        assert self._cables is not None
        match how:
            case "cut":
                self._cables.cut(one, other)
            case "hang":
                self._cables.hang([(one, other)])
            case "slow cable":
                self._cables.slow(one, other, delay_s)
                return
            case _:
                self._cables.mend(one, other)
                self._record(Mended(at_s=self._now(), broker=one, other=other))
                return
        self._record(Cut(at_s=self._now(), broker=one, other=other))

    async def heal(self) -> None:
        """Remove all faults and start every member."""
        if self._cables is not None:
            for one, other in combinations(self._peers(), 2):
                self.spoil_cable("mend", one, other)
        for broker in self.network.brokers:
            self.resume(broker.name)
            self.set_disk(broker.name)
            await self.start(broker.name)

    # --- states -------------------------------------------------------------------------------

    @property
    def unready(self) -> list[str]:
        """Members that do not run, have not reported ready yet, or have not left yet; and brokers
        that are to join.
        """
        return sorted((self._members - self._ready) | self._leaving | self._returning)

    async def are_ready(self) -> bool:
        """Whether all members report ready."""
        return all(await asyncio.gather(*map(self._is_ready, self._members)))

    async def measure(self, during_s: float) -> None:
        """Record the processor time and memory of all brokers at rest, but of those that leave."""
        began_s = self._now()
        before = {name: self._cpu_s(name) for name in self._processes}
        await asyncio.sleep(during_s)
        for name in before.keys() & self._processes.keys():
            self._record(
                Measured(
                    at_s=self._now(),
                    broker=name,
                    cpu_s=self._cpu_s(name) - before[name],
                    during_s=self._now() - began_s,
                    memory_mb=self._memory(name),
                    memory_at_start_mb=self._memory_mb.get(name, 0.0),
                )
            )

    async def describe(self, broker: str) -> str:
        """The broker's words why it is not ready, or has not left."""
        address = self.network.broker(broker).address("admin")
        assert address is not None
        try:
            status = await get_json(address, "/status")
        except OSError as error:
            return f"its admin port: {error}"
        leaving = status["leaving"]
        if leaving["stage"]:
            return f"its leave, in {leaving['stage']} for {leaving['since_s']:.0f} s: " + (
                leaving["problem"] or "no problem"
            )
        return f"readiness: {status['missing']}"

    def _cpu_s(self, broker: str) -> float:
        text = Path(f"/proc/{self._processes[broker].pid}/stat").read_text(encoding="utf-8")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def _memory(self, broker: str) -> float:
        statm = Path(f"/proc/{self._processes[broker].pid}/statm")
        return int(statm.read_text(encoding="utf-8").split()[1]) * PAGE_MB

    async def _is_ready(self, broker: str) -> bool:
        address = self.network.broker(broker).address("admin")
        assert address is not None
        with contextlib.suppress(OSError):
            return not (await get_json(address, "/ready"))["missing"]
        return False

    async def _wait_until_ready(self, broker: str, process: Fork) -> None:
        while self._processes.get(broker) is process:
            if broker not in self._paused and await self._is_ready(broker):
                if self._processes.get(broker) is process:
                    self._ready.add(broker)
                    self._record(Ready(at_s=self._now(), broker=broker))
                    self._memory_mb.setdefault(broker, self._memory(broker))
                return
            await asyncio.sleep(POLL_S)

    async def _wait_for_end(self, broker: str, process: Fork) -> None:
        code = await process.wait()
        if self._processes.get(broker) is process:
            if broker in self._leaving and code == 0 and broker not in self._stopping:
                self._depart(broker)
            elif broker not in self._stopping:
                self._record(Died(at_s=self._now(), broker=broker, code=code))
            self._forget(broker, process)

    def _forget(self, broker: str, process: Fork) -> None:
        if self._processes.get(broker) is process:
            del self._processes[broker]
            self._ready.discard(broker)
            self._stopping.discard(broker)

    def _watch(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    # --- the end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop all brokers, and record unexpected lines of their logs."""
        await asyncio.gather(*(self.stop(name) for name in list(self._processes)))
        for task in list(self._watching):
            task.cancel()
        if self._cables is not None:
            self._cables.close()
        for broker in self.network.brokers:
            self._read_log(broker.name)

    def kill_all(self) -> None:
        """Kill every process that is left."""
        for process in self._processes.values():
            _send(process, signal.SIGKILL)

    def _read_log(self, broker: str) -> None:
        path = self.folder / f"{broker}.log"
        if not path.exists():
            return  # it never joined
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            is_json = line.startswith("{")
            # A broker killed in the last moment of its leave says so when it starts again.
            is_expected = HAS_LEFT in line
            is_bad = '"exception"' in line or (
                any(level in line for level in BAD_LEVELS) and not is_expected
            )
            if is_bad if is_json else not line.startswith(f"{broker} "):
                self._record(Logged(at_s=self._now(), broker=broker, line=line))


def _send(process: Fork, number: signal.Signals) -> None:
    """Send a signal unless the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
