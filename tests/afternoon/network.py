"""The network of an afternoon: TLS between brokers, folders, and commands with a bound."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import trustme

from shoal.overlays.registry import SYSTEMS
from tests.afternoon.ledger import Ledger
from tests.runtime.forked import Forked, order
from tests.runtime.processes import Processes
from tests.systems import with_cycles

BROKERS = ("B1", "B2", "B3", "B4")
JOINERS = ("J1", "J2")
# An operation ends within this time on an idle machine, and subscribers hear publishers.
BOUND_S = 60.0
HEARD_S = 45.0
# Brokers notice the end of a step: a neighbour's last link, or a member that has left.
WHOLE_S = 10.0
POLL_S = 0.2
COLUMNS = 80
MOST_COPIES = 5
TABLE = re.compile(r"(broker  |─|[BJ]\d  )")
TLS = {"authority": "ca.pem", "certificate": "{broker}.pem", "key": "{broker}.key"}
SETTINGS: dict[str, dict[str, Any]] = {
    "bluedove": {"dimensions": [{"attribute": "x", "low": 0, "high": 10}]},
    "hybrid": {"per_gateway": 2},
    "octopia": {"clusters": 2},
    "self_organising": {"mode": "exchange"},
}


class StepError(Exception):
    """An operation did not end in time, or not as it should."""


class Network:
    """Brokers and the operator's commands; a command that answers otherwise is a fault."""

    def __init__(self, folder: Path, system: str, factor: float = 1.0) -> None:
        self.folder = folder
        self.system = system
        self.factor = factor
        self.authority = trustme.CA()
        self.trust(self.authority)
        self.issue(self.authority)
        settings = {system: SETTINGS[system]} if system in SETTINGS else {}
        self.brokers = Processes(
            folder, len(BROKERS), system=system, links=_links(system), tls=TLS, **settings
        )
        self.path = self.brokers.path
        self._text = self.path.read_text(encoding="utf-8")
        network = self.brokers.network
        # Only OctopiA's brokers wait longer than their links.
        parameters = network.system_parameters or SYSTEMS[system].parameters()
        patience_us = getattr(parameters, "patience_us", 0)
        self.ledger = Ledger(system, (network.bounds.give_up_us + patience_us) / 1e6)

    # --- certificates ---------------------------------------------------------------------------

    def trust(self, *authorities: trustme.CA) -> None:
        """Write the authorities that brokers trust."""
        pems = b"".join(each.cert_pem.bytes() for each in authorities)
        (self.folder / "ca.pem").write_bytes(pems)

    def issue(self, authority: trustme.CA) -> None:
        """Write new certificates of all brokers to the same files."""
        for name in (*BROKERS, *JOINERS):
            issued = authority.issue_cert("127.0.0.1", "localhost", common_name=name)
            issued.private_key_pem.write_to_path(self.folder / f"{name}.key")
            issued.cert_chain_pems[0].write_to_path(self.folder / f"{name}.pem")

    # --- processes ------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        return [name for name, each in self.brokers.running.items() if each.poll() is None]

    def data(self, name: str) -> Path:
        """A broker's folder."""
        return self.folder / "data" / name

    def copy_data(self, name: str, to: Path) -> None:
        """Copy a broker's folder while it runs; copy again if a file has gone meanwhile."""
        for _ in range(MOST_COPIES):
            shutil.rmtree(to, ignore_errors=True)
            with suppress(shutil.Error):
                shutil.copytree(self.data(name), to)
                return
        raise StepError(f"{self.data(name)} changes during each copy")

    def start(self, *names: str) -> None:
        """Run brokers by their commands until each is ready."""
        self.brokers.run(*names)
        for name in names:
            self.await_ready(name)

    def join(self, name: str, over: str) -> None:
        """Start a broker that joins over another one, until it is ready."""
        self.brokers.joining(name, over)
        self.start(name)

    def rejoin(self, name: str, over: str) -> None:
        """Start a broker of the network file that has left, so that it joins again."""
        self.brokers.rejoin(name, over)
        self.start(name)

    def leave(self, name: str, *options: str) -> None:
        """Take a broker out of the network; its process ends."""
        self.command("leave", name, *options, says=f"{name} has left")
        self.await_end(name, 0)

    def ports(self, *names: str) -> list[tuple[str, int]]:
        """Brokers with their ports for clients."""
        return [(name, self.brokers.broker_address(name, "mqtt").port) for name in names]

    def await_ready(self, name: str) -> None:
        def is_ready() -> bool:
            if (code := self.brokers.running[name].poll()) is not None:
                raise StepError(f"{name} ended with code {code}: {self.last_line(name)}")
            return self.get(name, "/ready")[0] == 200

        self.wait(f"{name} is ready", is_ready, lambda: self.get(name, "/ready")[1])

    def stop(self, *names: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End brokers by a signal."""
        for name in names:
            self.brokers.running[name].send_signal(how)
        for name in names:
            self.await_end(name, -how if how == signal.SIGKILL else 0)
        self.ledger.excuse_end()

    @contextmanager
    def outage(self, *names: str, how: signal.Signals = signal.SIGKILL) -> Iterator[None]:
        """Brokers are down meanwhile; they start afterwards, and long outages are excused."""
        begun_s, at = time.monotonic(), self.ledger.at(*names)
        self.stop(*names, how=how)
        try:
            yield
        finally:
            self.start(*names)
        self.ledger.excuse_outage(at, time.monotonic() - begun_s)

    def await_end(self, name: str, code: int) -> None:
        """Wait until a broker's process ends with this code."""
        process = self.brokers.running.pop(name)
        with process.stdout:
            try:
                found = process.wait(BOUND_S * self.factor)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                raise StepError(f"process {name} has not ended: {self.last_line(name)}") from None
        if found != code:
            raise StepError(f"{name} ended with code {found}, not {code}: {self.last_line(name)}")

    def is_refused(self, name: str, *causes: str) -> None:
        """A broker's command ends with an error that has these texts."""
        self.brokers.run(name)
        self.await_end(name, 2)
        found = self.last_line(name)
        if missing := [each for each in causes if each not in found]:
            raise StepError(f"{name} names no {', '.join(missing)}: {found}")

    def reload(self, *names: str, event: str = '"event": "reloaded"') -> None:
        """Send SIGHUP, and wait until each broker logs that it has reloaded."""
        before = {name: self.brokers.log(name).count(event) for name in names}
        for name in names:
            self.brokers.running[name].send_signal(signal.SIGHUP)
        for name in names:
            self.wait(
                f"{name} logs {event}",
                lambda name=name: self.brokers.log(name).count(event) > before[name],  # type: ignore[misc]
                lambda name=name: self.last_line(name),  # type: ignore[misc]
            )

    def write(self, more: str = "", rules: str = "[]") -> None:
        """Write the network file with these rules, and with these lines after it."""
        text = self._text.replace("rules = []\n", f"rules = {rules}\n", 1)
        self.path.write_text(text + more, encoding="utf-8")

    # --- commands -------------------------------------------------------------------------------

    def command(self, *words: str, code: int | None = 0, says: str = "") -> str:
        """`shoal WORD network.toml WORDS...` ends in time, with this code and text."""
        return self.begin(*words)(code, says)

    def begin(self, *words: str) -> Callable[[int | None, str], str]:
        """Run a command; the returned function waits for its end."""
        running = order(self.folder, words[0], str(self.path), *words[1:])
        return lambda code, says: self._end_of(running, f"shoal {' '.join(words)}", code, says)

    def _end_of(self, running: Forked, name: str, code: int | None, says: str) -> str:
        try:
            output = "".join(running.communicate(BOUND_S * self.factor))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            output = "".join(running.communicate(BOUND_S))
            raise StepError(f"{name} has not ended: {output}") from None
        if code is not None and running.returncode != code:
            raise StepError(f"{name} ended with code {running.returncode}, not {code}: {output}")
        if says not in output:
            raise StepError(f"{name} does not say {says!r}: {output}")
        return output

    def check_status(self, code: int = 0) -> None:
        """`shoal status` ends with this code, and its table is not wider than a terminal."""
        output = self.command("status", code=code)
        rows = [line for line in output.splitlines() if TABLE.match(line)]
        if not rows:
            raise StepError(f"shoal status has no table: {output}")
        if wide := [line for line in rows if len(line) > COLUMNS]:
            raise StepError(f"shoal status has rows over {COLUMNS} columns: {wide}")

    def get(self, name: str, path: str) -> tuple[int, str]:
        """The code and body of a broker's admin port; 0 without an answer."""
        where = self.brokers.network.broker(name).admin
        try:
            with urllib.request.urlopen(f"http://{where}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    # --- conditions -----------------------------------------------------------------------------

    def wait(
        self,
        name: str,
        condition: Callable[[], bool],
        describe: Callable[[], object],
        limit_s: float = BOUND_S,
    ) -> None:
        """Wait until the condition holds; a fault describes the state otherwise."""
        deadline_s = time.monotonic() + limit_s * self.factor
        while not condition():
            if time.monotonic() > deadline_s:
                raise StepError(f"not within {limit_s * self.factor:.0f} s: {name}; {describe()}")
            time.sleep(POLL_S)

    def is_heard(self) -> None:
        """Every subscriber hears every publisher, and has received all that is owed to it."""
        ledger, marks = self.ledger, self.ledger.marks()
        self.wait(
            "every subscriber hears every publisher",
            lambda: not ledger.unheard(marks),
            lambda: f"{ledger.unheard(marks)}; {self.missing()}",
            HEARD_S,
        )
        ledger.begin_anew()
        self.wait(
            "every subscriber has all that was acknowledged",
            lambda: not ledger.debts(),
            lambda: {pair: (len(each), each[:5]) for pair, each in ledger.debts().items()},
            HEARD_S,
        )

    def is_whole(self) -> None:
        """Each running broker is ready, and `shoal status` says so."""
        self.wait("each broker is ready", lambda: not self.missing(), self.missing, WHOLE_S)
        self.check_status()

    def missing(self) -> dict[str, str]:
        """The brokers that lack something, with what they lack."""
        found = {name: self.get(name, "/ready")[1] for name in self.running}
        return {name: body for name, body in found.items() if '"missing":[]' not in body}

    def last_line(self, name: str) -> str:
        """The last line of a broker's log."""
        return "".join(self.brokers.log(name).splitlines()[-1:])


def _links(system: str) -> list[list[str]]:
    """The links of the file: a line, with cycles where possible; none if brokers open them."""
    chosen = SYSTEMS[system]
    if chosen.shape.opens_links:
        return []
    if chosen.links is None:
        return [list(each) for each in with_cycles(system, BROKERS, pairwise(BROKERS))]
    given = msgspec.convert(SETTINGS.get(system, {}), chosen.parameters)
    return [list(each) for each in chosen.make_links(chosen.complete(given, BROKERS), BROKERS)]


@contextmanager
def network(folder: Path, system: str, factor: float) -> Iterator[Network]:
    """A network that does not run yet; its processes end with the context."""
    found = Network(folder, system, factor)
    try:
        yield found
    finally:
        found.brokers.kill(*found.brokers.running)
