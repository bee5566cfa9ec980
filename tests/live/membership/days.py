"""The vocabulary of a day: a network of one system, plain clients, operations with a bound.

An operation succeeds, or `Day` reports within its bound why each broker waits. A plain client has
one address and never follows a redirect.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho

from shoal.overlays.registry import MODULES
from shoal.runtime.supervisor import get_json
from tests.examples import at_length
from tests.runtime.forked import Forked, order
from tests.runtime.processes import Client, Processes, not_started
from tests.systems import with_cycles

SYSTEMS = tuple(MODULES)
# Operations take 2 s to 10 s; none may take longer without an error.
BOUND_S = 30.0
# Publishers: the pause between two publications, and how many may be unacknowledged.
PAUSE_S = 0.05
MOST_UNACKNOWLEDGED = 20
# A subscription takes time to spread, so a probe is published repeatedly.
PROBE_S = 0.25
POLL_S = 0.1
# The middle of an operation: a process is killed by then at the latest.
MIDDLE_S = 3.0
SETTINGS: dict[str, dict[str, Any]] = {
    "bluedove": {"dimensions": [{"attribute": "x", "low": 0, "high": 10}]},
}
_tokens = count(1)


def systems(*named: str) -> list[Any]:
    """These systems, and in the soak all others."""
    return [*named, *at_length(each for each in SYSTEMS if each not in named)]


def cases(named: list[tuple[str, str]], values: Iterable[str]) -> list[Any]:
    """These pairs of a system and a value, and in the soak all others."""
    return [*named, *at_length(each for each in product(SYSTEMS, values) if each not in named)]


class Publisher:
    """A plain client that publishes numbers to `day/BROKER` at QoS 1 all day."""

    def __init__(self, network: Processes, broker: str) -> None:
        self.topic = f"day/{broker}"
        # Numbers by packet identifier, until they are acknowledged.
        self._unacknowledged: dict[int, int] = {}
        # Packet identifiers that were acknowledged before `publish` returned them.
        self._early: set[int] = set()
        self.acknowledged: set[int] = set()
        # The next number.
        self.next = 0
        self._lock = threading.Lock()
        self._client = network.client(broker, f"publisher at {broker}", 0)
        self._client.paho.on_publish = self._on_publish
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)

    def start(self) -> None:
        self._client.connect()
        self._thread.start()

    def _publish(self) -> None:
        while True:
            while len(self._unacknowledged) >= MOST_UNACKNOWLEDGED:
                if self._is_over.wait(PAUSE_S):
                    return
            # Without the lock: paho calls `_on_publish` while it holds a lock that this needs.
            found = self._client.paho.publish(self.topic, b"%d" % self.next, 1)
            with self._lock:
                if found.mid in self._early:
                    self._early.remove(found.mid)
                    self.acknowledged.add(self.next)
                else:
                    self._unacknowledged[found.mid] = self.next
                self.next += 1
            if self._is_over.wait(PAUSE_S):
                return

    def _on_publish(self, _: paho.Client, __: Any, packet_id: int, *___: Any) -> None:
        with self._lock:
            number = self._unacknowledged.pop(packet_id, None)
            if number is None:
                self._early.add(packet_id)
            else:
                self.acknowledged.add(number)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(BOUND_S)
        self._client.disconnect()


class Subscriber:
    """A plain client with a lasting session; it records the numbers of each publisher."""

    def __init__(self, network: Processes, name: str) -> None:
        self.name = name
        self.session_present: list[bool] = []
        self._network = network
        self._came: dict[str, set[int]] = {}
        self._first: dict[str, int] = {}
        self._client: Client | None = None

    def connect(self, broker: str) -> None:
        """Connect to this broker only; the session may be elsewhere."""
        self._client = self._network.client(broker, self.name)
        self._client.paho.on_message = self._on_message
        self._client.connect()
        self.session_present.append(self._client.session_present[0])

    def subscribe(self, publishers: Iterable[Publisher]) -> None:
        """Subscribe to all publishers; from now on each publication is owed."""
        assert self._client is not None
        self._client.subscribe("day/#", 1)
        self._first = {each.topic: each.next for each in publishers}

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.disconnect()

    def _on_message(self, _: paho.Client, __: Any, message: paho.MQTTMessage) -> None:
        self._came.setdefault(message.topic, set()).add(int(message.payload))

    def lacks(self, publishers: Iterable[Publisher]) -> dict[str, set[int]]:
        """The acknowledged publications that have not arrived, by topic."""
        return {
            each.topic: missing
            for each in publishers
            if (
                missing := {n for n in set(each.acknowledged) if n >= self._first[each.topic]}
                - self._came.get(each.topic, set())
            )
        }


class Day:
    """A network of one system, its publishers, and an operator."""

    def __init__(self, network: Processes) -> None:
        self.network = network
        self.publishers: dict[str, Publisher] = {}

    @property
    def brokers(self) -> list[str]:
        return list(self.network.running)

    # --- clients --------------------------------------------------------------------------------

    def publish_at(self, *brokers: str) -> None:
        for broker in brokers:
            self.publishers[broker] = Publisher(self.network, broker)
            self.publishers[broker].start()

    def publish_on(self, number: int = 20) -> None:
        """Wait until each publisher with a running broker has so many more acknowledged."""
        wanted = {
            name: len(each.acknowledged) + number
            for name, each in self.publishers.items()
            if name in self.network.running
        }
        self.wait(
            f"each of {sorted(wanted)} acknowledges {number} publications",
            lambda: all(len(self.publishers[n].acknowledged) >= w for n, w in wanted.items()),
        )

    def end(self) -> None:
        for publisher in self.publishers.values():
            publisher.end()

    @contextmanager
    def subscriber(self, name: str, broker: str) -> Iterator[Subscriber]:
        """A subscriber to everything published from now on."""
        found = Subscriber(self.network, name)
        try:
            found.connect(broker)
            found.subscribe(self.publishers.values())
            yield found
        finally:
            found.disconnect()

    # --- operations -----------------------------------------------------------------------------

    def join(self, name: str, over: str) -> None:
        self.network.join(name, over)

    def leave(self, name: str, then: Callable[[], None] | None = None) -> None:
        """Order a broker's leave; its process ends and the command reports it, within the bound.

        `then` is called as soon as the process has ended.
        """
        self.await_leave(name, begin_leave(self.network, name), then)

    def await_leave(
        self,
        name: str,
        leaving: Forked,
        then: Callable[[], None] | None = None,
        *,
        is_only: bool = True,
    ) -> str:
        """Wait for a process's end; return the command's output (`is_only`: success)."""
        process = self.network.running[name]
        try:
            assert process.wait(BOUND_S) == 0, self.network.log(name)
        except subprocess.TimeoutExpired:
            leaving.send_signal(signal.SIGKILL)
            said = "".join(leaving.communicate(BOUND_S))
            raise self._failure(f"{name} does not leave within {BOUND_S:.0f} s: {said}") from None
        self.network.running.pop(name).stdout.close()
        if then is not None:
            then()
        said = "".join(leaving.communicate(BOUND_S))
        if then is None and is_only:
            assert leaving.returncode == 0, f"shoal leave {name}: {said}"
        return said

    def grow_old(self) -> None:
        """Restart a broker, so that the agreement of the network's start is in the past."""
        self.network.kill("B3", how=signal.SIGTERM)
        self.network.start("B3")
        self.are_linked()

    def run_again(self, name: str) -> None:
        """Run a broker by its command, as an operator or a supervisor does."""
        self.network.start(name, awaits=False)

    def is_refused_twice(self, name: str) -> bool:
        """Whether a broker's command ends with a reason while the broker runs."""
        first = self.network.running[name]
        self.network.run(name)
        second, self.network.running[name] = self.network.running[name], first
        code = second.wait(BOUND_S)
        second.stdout.close()
        return code != 0

    def until_log(self, name: str, text: str, operation: Callable[[], None]) -> None:
        """Begin an operation, and wait until a broker logs a line of it, with a bound."""

        def count_now() -> int:
            path = self.network.folder / f"{name}.log"
            return path.read_text(encoding="utf-8").count(text) if path.exists() else 0

        before, deadline_s = count_now(), time.monotonic() + MIDDLE_S
        operation()
        while count_now() == before and time.monotonic() < deadline_s:
            time.sleep(0.001)

    # --- conditions -----------------------------------------------------------------------------

    def are_linked(self) -> None:
        """Each broker is ready, and has a link that is up."""
        self.wait("each broker is ready and linked", self._are_linked)

    def _are_linked(self) -> bool:
        return all(map(self.is_linked, self.brokers))

    def is_linked(self, broker: str) -> bool:
        """Whether a broker runs, is ready, and has a link that is up."""
        status = status_of(self.network, broker)
        return (
            status is not None
            and status["ready"]
            and any(row["state"] == "up" for row in status["links"])
        )

    def may_leave(self, name: str) -> None:
        """Wait until all links of a broker that has answered are up, or it has ended: its leave
        goes on by itself if it was decided before a kill.
        """

        def may() -> bool:
            status = status_of(self.network, name)
            return status is None or all(row["state"] == "up" for row in status["links"])

        self.wait(f"{name} may leave", may)

    def is_back_or_reports_its_leave(self, name: str) -> bool:
        """Wait until a broker of the network file is linked, or says that it has left; whether it
        says so.

        A broker that left may be started by the command of one that never did.
        """

        def says() -> bool:
            return "has left the network" in self.describe(name)

        self.wait(f"{name} is linked, or says why not", lambda: self.is_linked(name) or says())
        return says()

    def all_receive_from_all(self) -> None:
        """A new subscriber at each broker receives from a new publisher at each broker."""
        token = f"probe/{next(_tokens)}"
        heard: dict[str, set[str]] = {broker: set() for broker in self.brokers}
        with ExitStack() as stack:
            for broker, topics in heard.items():
                reader = self.network.client(broker, f"{token} reads at {broker}", 0)
                reader.paho.on_message = lambda _, __, m, topics=topics: topics.add(m.topic)
                stack.enter_context(reader)
                reader.subscribe(f"{token}/#", 1)
            writers = {
                f"{token}/{broker}": stack.enter_context(
                    self.network.client(broker, f"{token} writes at {broker}", 0)
                )
                for broker in heard
            }
            published_s = 0.0

            def is_heard() -> bool:
                nonlocal published_s
                if time.monotonic() - published_s > PROBE_S:
                    published_s = time.monotonic()
                    for topic, writer in writers.items():
                        writer.paho.publish(topic, b"", 1)
                return all(topics == writers.keys() for topics in heard.values())

            try:
                self.wait("each broker hears each broker", is_heard)
            except AssertionError as error:
                deaf = {
                    broker: sorted(each.rpartition("/")[2] for each in writers.keys() - topics)
                    for broker, topics in heard.items()
                    if topics != writers.keys()
                }
                raise AssertionError(f"these do not hear those: {deaf}\n{error}") from None

    def has_all(self, subscriber: Subscriber) -> None:
        """A subscriber receives all publications that are acknowledged until now."""
        publishers = self.publishers.values()
        owed = subscriber.lacks(publishers)

        def lost() -> dict[str, int]:
            still = subscriber.lacks(publishers)
            found = {
                topic: len(numbers & still.get(topic, set())) for topic, numbers in owed.items()
            }
            return {topic: number for topic, number in found.items() if number}

        try:
            self.wait(f"{subscriber.name} has all that was acknowledged", lambda: not lost())
        except AssertionError as error:
            raise AssertionError(f"{subscriber.name} lost {lost()}\n{error}") from None

    def retained(self, broker: str) -> dict[str, bytes]:
        """The values below `state` that a new subscriber receives before a probe of its own."""
        token = f"state/probe/{next(_tokens)}"
        found: dict[str, bytes] = {}
        reader = self.network.client(broker, token, 0)
        reader.paho.on_message = lambda _, __, each: found.__setitem__(each.topic, each.payload)
        with reader:
            reader.subscribe("state/#", 1)
            reader.paho.publish(token, b"", 1)
            self.wait(f"{broker} hears itself", lambda: token in found)
        return {topic: value for topic, value in found.items() if topic != token}

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; else say why each broker waits."""
        deadline_s = time.monotonic() + BOUND_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise self._failure(f"not within {BOUND_S:.0f} s: {what}")
            time.sleep(POLL_S)

    def _failure(self, what: str) -> AssertionError:
        return AssertionError("\n".join([what, *map(self.describe, self.brokers)]))

    def describe(self, broker: str) -> str:
        """A broker's status in one line."""
        process = self.network.running[broker]
        if process.poll() is not None:
            last = self.network.log(broker).splitlines()[-1:]
            return f"  {broker}: ended with code {process.poll()}; {last}"
        status = status_of(self.network, broker)
        if status is None:
            return f"  {broker}: its admin port does not answer"
        links = {row["neighbour"]: row["state"] for row in status["links"]}
        others = sorted(row["broker"] for row in status["brokers"])
        leaving = {key: text for key, text in status["leaving"].items() if text}
        return (
            f"  {broker}: missing {status['missing']}, links {links}, brokers {others}, "
            f"leaving {leaving}, awaited tables {json.dumps(status['tables'])}"
        )


def status_of(network: Processes, broker: str) -> dict[str, Any] | None:
    """The status of a broker; None without an answer."""

    async def ask() -> dict[str, Any]:
        address = network.network.broker(broker).address("admin")
        assert address is not None
        async with asyncio.timeout(BOUND_S):
            return await get_json(address, "/status")

    with suppress(OSError):
        return asyncio.run(ask())
    return None


def begin_leave(network: Processes, name: str) -> Forked:
    admin = network.network.broker(name).admin
    assert admin is not None
    return order(network.folder, "leave", str(network.path), name, "--admin", admin)


@contextmanager
def day(
    folder: Path, system: str, brokers: int = 3, *, publishers: Iterable[str] | None = None
) -> Iterator[Day]:
    """A day of a line of brokers, with cycles where the system's shape has them.

    A publisher is at each broker, or at the named ones.
    """
    names = tuple(f"B{number}" for number in range(1, brokers + 1))
    links = [list(link) for link in with_cycles(system, names, tuple(pairwise(names)))]
    settings = {system: SETTINGS[system]} if system in SETTINGS else {}
    with not_started(folder, brokers, system=system, links=links, **settings) as network:
        found = Day(network)
        network.start(*names)
        found.are_linked()
        try:
            found.publish_at(*(names if publishers is None else publishers))
            yield found
        finally:
            found.end()
