"""Everything that an operator does in a week, each to its end, while plain clients publish.

Six brokers, two publishers (QoS 1 and 2), a reader with a lasting session, one that is disconnected
all week, a reader with a content filter, a shared group of two members at two brokers, and retained
states. The judge compares acknowledgements with deliveries.

`tests/live/membership` has joins and leaves.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trustme

from shoal.runtime.network_file import dump_network
from tests.contract.drivers import with_cycles
from tests.examples import at_length
from tests.live.everyday.clients import STATE, Publisher, Reader, retained
from tests.runtime.forked import order
from tests.runtime.processes import Processes, processes, wait_until

BROKERS = tuple(f"B{number}" for number in range(1, 7))
LINE = tuple(pairwise(BROKERS))
# `tid` may lose publications on a link that fails; see docs/background/guarantees.md.
SYSTEMS = ["octopia"]
OTHERS = [
    "tree",
    "grape",
    "pop",
    "self_organising",
    "bluedove",
    "dynatops",
    "bayeux",
    "geops",
    "hybrid",
    "tco",
]
FULL_S = 0.5
TLS = {"authority": "ca.pem", "certificate": "{broker}.pem", "key": "{broker}.key"}
SETTINGS: dict[str, dict[str, Any]] = {
    "bluedove": {"dimensions": [{"attribute": "x", "low": 0, "high": 10}]},
}


class Week:
    """A network with its clients, and the operations on it."""

    def __init__(self, network: Processes, authority: trustme.CA) -> None:
        self.network = network
        self._authority = authority
        self.publishers = [Publisher(network, "B1", "one", 1), Publisher(network, "B4", "two", 2)]
        self.durable = Reader(network, "B6", "durable", "site/#")
        self.away = Reader(network, "B3", "away", "site/#")
        self.filtered = Reader(network, "B5", "filtered", "$where/x>6/site/+")
        self.members = [
            Reader(network, broker, f"member at {broker}", "$share/g/site/#", 1)
            for broker in ("B2", "B5")
        ]
        self.readers = [self.durable, self.away, self.filtered, *self.members]

    def begin(self) -> None:
        wait_until(lambda: all(self.network.is_ready(broker) for broker in BROKERS))
        for reader in self.readers:
            reader.start()
        self.away.pause()
        for publisher in self.publishers:
            publisher.start()
        self.goes_on()

    def goes_on(self) -> None:
        """Publications are still acknowledged and delivered, whatever was done before."""
        for publisher in self.publishers:
            publisher.goes_on()

    # --- operations -----------------------------------------------------------------------------

    def order(self, *words: str) -> None:
        command = order(self.network.folder, words[0], str(self.network.path), *words[1:])
        said = "".join(command.communicate(60))
        assert command.returncode == 0, said

    def kill(self, broker: str) -> None:
        self.network.kill(broker)
        self.network.start(broker)

    def stop_and_start(self, broker: str) -> None:
        self.network.kill(broker, how=signal.SIGTERM)
        self.network.start(broker)

    def drain(self, broker: str) -> None:
        self.order("drain", broker)
        self.order("undrain", broker)

    def fill_disk(self, broker: str) -> None:
        """Fill a broker's disk; make room after publications have come for its readers.

        Where no neighbour keeps messages, their publishers wait meanwhile.
        """
        self.network.fill_disk(broker)
        time.sleep(FULL_S)
        self.network.empty_disk(broker)
        wait_until(lambda: self.network.is_ready(broker))

    def reload(self, broker: str) -> None:
        """Reload a broken file, which changes nothing, then a right one with a rule."""
        path = self.network.path
        right = dump_network(self.network.network)
        path.write_text(right + "\nthis is no TOML", encoding="utf-8")
        self.network.running[broker].send_signal(signal.SIGHUP)
        wait_until(lambda: "not reloaded" in self.network.log(broker))
        path.write_text(right, encoding="utf-8")
        self._reload(broker)

    def _reload(self, *brokers: str) -> None:
        before = {broker: self._reloads(broker) for broker in brokers}
        for broker in brokers:
            self.network.running[broker].send_signal(signal.SIGHUP)
        wait_until(lambda: all(self._reloads(broker) > before[broker] for broker in brokers))

    def _reloads(self, broker: str) -> int:
        return self.network.log(broker).count('"event": "reloaded"')

    def rotate_certificates(self) -> None:
        """Replace the links' certificates; later connections show the new ones."""
        issue(self._authority, self.network.folder)
        self._reload(*BROKERS)

    def restart_all(self) -> None:
        """Restart all brokers one after the other, as an upgrade does."""
        for broker in BROKERS:
            self.stop_and_start(broker)
            wait_until(lambda broker=broker: self.network.is_ready(broker))  # type: ignore[misc]

    # --- the judge ------------------------------------------------------------------------------

    def end(self) -> None:
        for publisher in self.publishers:
            publisher.stop()
        self.away.resume()

    def judge(self) -> None:
        everything = {each.name: set(range(len(each.sent))) for each in self.publishers}
        wanted = {name: {n for n in numbers if n % 10 > 6} for name, numbers in everything.items()}
        for reader, owed in (
            (self.durable, everything),
            (self.away, everything),
            (self.filtered, wanted),
        ):
            _wait_for(owed, reader)
            for publisher in self.publishers:
                came = reader.came[publisher.name]
                assert set(came) == owed[publisher.name], (reader.name, publisher.name)
                firsts = list(dict.fromkeys(came))
                assert firsts == sorted(firsts), (reader.name, publisher.name)
                if publisher.qos == 2:
                    assert len(came) == len(set(came)), (reader.name, publisher.name)
        for name, numbers in everything.items():
            wait_until(
                lambda name=name, numbers=numbers: (
                    numbers  # type: ignore[misc]
                    <= {n for member in self.members for n in member.came[name]}
                )
            )
        self._judge_retained()

    def _judge_retained(self) -> None:
        last = {each.name: (len(each.sent) - 1) // 10 * 10 for each in self.publishers}
        states = {f"{STATE}/{name}": b"%d" % number for name, number in last.items()}
        for broker in BROKERS:
            wait_until(lambda broker=broker: retained(self.network, broker, 2) == states)  # type: ignore[misc]

    def close(self) -> None:
        for each in (*self.publishers, *self.readers):
            each.end()


def _wait_for(owed: dict[str, set[int]], reader: Reader) -> None:
    """Wait for all deliveries, or a long time; the judge reports missing ones."""
    try:
        wait_until(lambda: all(numbers <= set(reader.came[name]) for name, numbers in owed.items()))
    except AssertionError:
        return


def issue(authority: trustme.CA, folder: Path) -> None:
    """New certificates for the links of all brokers."""
    for broker in BROKERS:
        issued = authority.issue_cert("127.0.0.1", common_name=broker)
        issued.private_key_pem.write_to_path(folder / f"{broker}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{broker}.pem")


@contextmanager
def week(folder: Path, system: str) -> Iterator[Week]:
    links = [list(link) for link in with_cycles(system, BROKERS, LINE)]
    settings = {system: SETTINGS[system]} if system in SETTINGS else {}
    limits = {"maximum_queued_messages": 1_000_000}
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issue(authority, folder)
    data = {"system": system, "links": links, "limits": limits, "tls": TLS, **settings}
    with processes(folder, len(BROKERS), **data) as network:
        found = Week(network, authority)
        try:
            yield found
        finally:
            found.close()


@pytest.mark.parametrize("system", [*SYSTEMS, *at_length(OTHERS)])
def test_an_ordinary_week_loses_nothing(tmp_path: Path, system: str) -> None:
    with week(tmp_path, system) as days:
        days.begin()
        days.reload("B2")
        days.rotate_certificates()
        days.kill("B2")
        days.goes_on()
        days.fill_disk("B6")
        days.stop_and_start("B5")
        days.goes_on()
        days.end()
        days.judge()


@pytest.mark.soak
@pytest.mark.parametrize("system", [*SYSTEMS, *OTHERS])
def test_a_rolling_upgrade_loses_nothing(tmp_path: Path, system: str) -> None:
    with week(tmp_path, system) as days:
        days.begin()
        days.drain("B5")  # some 12 s, since sessions of plain clients stay for a while
        days.goes_on()
        for _ in range(3):
            days.restart_all()
            days.goes_on()
        days.end()
        days.judge()
