"""An ordinary week of a network: rules, certificates, drains, kills, stops and full disks.

Writers publish all the time; a durable session, a group, a content filter and retained topics
are judged in the end.  Joining and leaving are in `tests/live/systems/test_joining_and_leaving.py`.

| what | judged |
| --- | --- |
| a durable session | has all that was acknowledged, of each writer in its order |
| a group, QoS 2 | one member got each message of QoS 2, once; those of QoS 1 at least once |
| a content filter | all that was acknowledged and matches, and nothing else |
| retained topics | the last that was acknowledged, at every broker |
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import paho.mqtt.client as mqtt
import pytest
import trustme

from shoal.runtime.addresses import Address
from shoal.runtime.network_file import dump_network
from shoal.runtime.network_sections import RuleSection
from shoal.runtime.supervisor import order
from tests.chaos.network import Brokers
from tests.chaos.schedule import SYSTEMS, make_plan
from tests.live.everyday.clients import Plain, Writer, retained
from tests.runtime.one_service import data_of
from tests.runtime.processes import Processes, processes, wait_until

TLS = {"authority": "ca.pem", "certificate": "{broker}.pem", "key": "{broker}.key"}
RULES = [{"user": "", "publish": ["day/#", "state/#"], "subscribe": ["day/#", "state/#"]}]


class Week:
    """A network of a system, its clients, and what is done to it."""

    def __init__(self, network: Processes, authority: trustme.CA) -> None:
        self.network = network
        self.names = [broker.name for broker in network.network.brokers]
        self._authority = authority
        first, second, third = self.names[:3]
        self.durable = Plain(self.at(second), "durable", version=mqtt.MQTTv311)
        self.durable.subscribe("day/#", 1)
        self.members = [Plain(self.at(name), f"member {name}") for name in (first, third)]
        for member in self.members:
            member.subscribe("$share/group/day/#", 2)
        self.filtering = Plain(self.at(third), "filtering")
        self.filtering.subscribe("$where/even=1/day/#", 1)
        self.readers = [self.durable, *self.members, self.filtering]
        self.writers = [
            Writer(self.at(first), "one", 1, mqtt.MQTTv311),
            Writer(self.at(third), "two", 2),
        ]

    def at(self, broker: str) -> Address:
        address = self.network.network.broker(broker).address("mqtt")
        assert address is not None
        return address

    def stop(self) -> None:
        for client in (*self.writers, *self.readers):
            client.stop()

    # --- what an operator does ------------------------------------------------------------------

    def reload_rules(self) -> None:
        """One more rule: nobody loses anything."""
        network = self.network.network
        more = (*network.access.rules, RuleSection(user="ann", publish=("more/#",)))
        access = msgspec.structs.replace(network.access, rules=more)
        text = dump_network(msgspec.structs.replace(network, access=access))
        self.network.path.write_text(text, encoding="utf-8")
        self._reload()
        assert all("closed" not in self.network.log(name) for name in self.names)

    def rotate_certificates(self) -> None:
        issue(self._authority, self.network.folder, self.names)
        self._reload()

    def drain_and_undrain(self) -> None:
        self._order("drain")
        wait_until(lambda: not self.network.status(self.names[1])["mqtt"]["sessions"])
        self._order("undrain")

    def kill_and_start(self) -> None:
        self.network.kill(self.names[0])
        time.sleep(0.5)
        self.network.start(self.names[0])

    def stop_and_start(self) -> None:
        self.network.kill(self.names[2], how=signal.SIGTERM)
        time.sleep(0.5)
        self.network.start(self.names[2])

    def fill_a_disk(self) -> None:
        self.network.fill_disk(self.names[1])
        time.sleep(1)
        self.network.empty_disk(self.names[1])

    def _reload(self) -> None:
        before = {name: self._reloads(name) for name in self.names}
        for name in self.names:
            self.network.running[name].send_signal(signal.SIGHUP)
        wait_until(lambda: all(self._reloads(name) > before[name] for name in self.names))

    def _reloads(self, name: str) -> int:
        return self.network.log(name).count('"reloaded"')

    def _order(self, what: str) -> None:
        address = self.network.network.broker(self.names[1]).address("admin")
        assert address is not None
        assert asyncio.run(order(address, what)) == ""

    # --- to its end, and the judge --------------------------------------------------------------

    def goes_on(self) -> None:
        """Every broker is ready, and what each writer publishes from now on arrives."""
        wait_until(lambda: all(self.network.status(name)["ready"] for name in self.names))
        before = [len(writer.acknowledged) + 5 for writer in self.writers]
        for writer, count in zip(self.writers, before, strict=True):
            wait_until(lambda w=writer, n=count: len(w.acknowledged) > n)  # type: ignore[misc]
            number = writer.acknowledged[count]
            for reader in (self.durable, self.filtering):
                wait_until(
                    lambda r=reader, w=writer, n=number: any(  # type: ignore[misc]
                        each.writer == w.name and each.number >= n for each in list(r.heard)
                    )
                )

    def judge(self) -> None:
        for writer in self.writers:
            writer.end()
        said = {(writer.name, number) for writer in self.writers for number in writer.acknowledged}
        even = {each for each in said if each[1] % 2 == 0}
        shared = [each for member in self.members for each in member.heard]
        wait_until(lambda: said <= set(self.durable.heard))
        wait_until(lambda: even <= set(self.filtering.heard))
        wait_until(lambda: said <= {each for member in self.members for each in member.heard})
        assert all(each.number % 2 == 0 for each in self.filtering.heard)
        for reader in (self.durable, self.filtering):
            for writer in self.writers:
                numbers = [each.number for each in reader.heard if each.writer == writer.name]
                first = list(dict.fromkeys(numbers))
                assert first == sorted(first), (reader.name, writer.name)
        shared = [each for member in self.members for each in member.heard]
        several = {each: n for each, n in Counter(shared).items() if n > 1}
        assert not [each for each in several if each.writer == "two"]
        states = {f"state/{writer.name}": writer.state for writer in self.writers}
        for name in self.names:
            assert retained(self.at(name), set(states), wait_until) == states, name


def issue(authority: trustme.CA, folder: Path, names: list[str]) -> None:
    """New certificates for the links of all brokers."""
    for name in names:
        issued = authority.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")


@pytest.fixture
def week(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Week]:
    """As many brokers as the system needs, and TLS between them."""
    plan = make_plan(request.param, 0)
    data: dict[str, Any] = data_of(Brokers(plan, tmp_path, lambda _: None, time.monotonic).network)
    del data["brokers"]
    data |= {"tls": TLS, "storage": {"folder": "data"}}
    data["access"] = {"anonymous": True, "rules": RULES}
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issue(authority, tmp_path, list(plan.brokers))
    with processes(tmp_path, len(plan.brokers), **data) as network, ExitStack() as stack:
        names = [broker.name for broker in network.network.brokers]
        wait_until(lambda: all(network.status(name)["ready"] for name in names))
        found = Week(network, authority)
        stack.callback(found.stop)
        yield found


Operation = Callable[[Week], None]
QUICK: list[Operation] = [
    Week.reload_rules,
    Week.rotate_certificates,
    Week.kill_and_start,
    Week.fill_a_disk,
]
ALL: list[Operation] = [*QUICK, Week.drain_and_undrain, Week.stop_and_start, Week.kill_and_start]


def play(week: Week, operations: list[Operation]) -> None:
    week.goes_on()
    for operation in operations:
        began_s = time.monotonic()
        operation(week)
        week.goes_on()
        print(f"{operation.__name__}: {time.monotonic() - began_s:.1f} s")
    week.judge()


@pytest.mark.parametrize("week", ["tree", "grape", "octopia"], indirect=True)
def test_some_days(week: Week) -> None:
    play(week, QUICK)


# What is on its way over a link that fails may be lost in `tid`.
@pytest.mark.soak
@pytest.mark.parametrize("week", [name for name in SYSTEMS if name != "tid"], indirect=True)
def test_a_week(week: Week) -> None:
    play(week, ALL)
