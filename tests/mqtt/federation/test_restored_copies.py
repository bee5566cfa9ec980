"""A leave ends although a broker was started on an older copy of its folder, or has lost it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from shoal.mqtt.codec.packets import Connect, Subscribe, SubscriptionRequest
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from tests.examples import one_in
from tests.mqtt.broker_api import Client
from tests.mqtt.federation.two_brokers import come
from tests.seeds.sessions.random_sessions import Publisher
from tests.seeds.sessions.session_network import KEPT, Network

NAMES = ("B0", "B1", "B2")
# The longest time of a leave.
LEAVE_S = 60


class Day:
    """A client with one session, and a publisher at B0."""

    def __init__(self, seed: int = 3) -> None:
        self.network = Network(Random(seed), len(NAMES))
        self.network.settle(3)
        self.publisher = Publisher(self.network, "p", "B0")
        self.publisher.go_to("B0")
        come(self.network, self.publisher)
        self._client: Client | None = None

    def go(self, broker: str, seconds: float) -> None:
        self.lose()
        client = self._client = self.network.sites[broker].open()
        client.send(Connect("s", clean_start=False, properties=KEPT))
        for _ in range(2):
            self.publisher.publish(1)
        self.network.settle(seconds)
        self.publisher.look()

    def subscribe(self) -> None:
        assert self._client is not None
        self._client.send(Subscribe(1, (SubscriptionRequest("a", 1),)))
        self.network.settle(8)

    def lose(self) -> None:
        if self._client is not None and not self._client.closed:
            self._client.lose()

    def restart(self, *names: str, **disks: list[bytes]) -> None:
        """Kill brokers, and start them, some on other disks."""
        for name in names:
            self.network.kill(name)
        self.network.disks.update(disks)
        for name in names:
            self.network.start(name)

    def leave(self, name: str) -> None:
        """The broker leaves, as its driver does it: all its sessions go to others in time."""
        network, site = self.network, self.network.sites[name]
        self.lose()
        self.publisher.leave()
        for session in list(site.clients.sessions):
            if session.session_writer is not None:
                connection = session.session_writer.connection
                connection.disconnect(ReasonCode.SERVER_MOVED, "it leaves", network.now_us)
        others = tuple(other for other in network.sites if other != name)
        assert site.clients.federation is not None
        site.clients.federation.evacuating.begin(lambda: others, network.now_us)
        site.carry_out(site.clients.take_effects())
        for _ in range(LEAVE_S):
            network.settle(1)
            if "s" not in site.clients.sessions:
                break
        assert "s" not in site.clients.sessions

    def open_transfers(self) -> list[Any]:
        """The transfers that no broker has ended."""
        found: list[Any] = []
        for name in self.network.sites:
            transfer = transfers_of(self.network, name)
            found += [(name, "export", each) for each in transfer.giving._moves]
            found += [(name, "import", each) for each in transfer.arriving._moves]
            found += [(name, "wait", each) for each in transfer.fetching.waiting]
        return found


def transfers_of(network: Network, name: str) -> SessionTransfer:
    federation = network.sites[name].clients.federation
    assert federation is not None
    return federation.session_transfer


def copies() -> Iterator[tuple[Any, ...]]:
    """Where the client was, when a folder was copied, whose it is, where the client went then,
    whether all brokers are restarted, and where it comes after that.
    """
    ways = (("B0", "B1"), ("B1", "B0"), ("B0", "B1", "B2"), ("B0", "B1", "B0"), ("B2", "B0", "B1"))
    return product(
        ways, (0.3, 0.6, 1, 2, 3), NAMES, (None, "B0", "B2"), (False, True), (None, "B1")
    )


@pytest.mark.parametrize(
    ("way", "copied_s", "restored", "then", "is_all", "back"), one_in(61, copies())
)
def test_a_leave_ends_after_a_broker_was_restored(
    way: tuple[str, ...], copied_s: float, restored: str, then: str | None, is_all: bool, back: str
) -> None:
    """The copy had an unfinished import, whose source had ended the export since: the leave waited
    for that source, for ten minutes after each restart.
    """
    for leaver in NAMES:
        day = Day()
        day.go(way[0], 1)
        day.subscribe()
        for broker in way[1:-1]:
            day.go(broker, 8)
        day.go(way[-1], copied_s)
        copy = list(day.network.disks[restored])
        day.network.settle(8)
        if then is not None:
            day.go(then, 8)
        day.restart(*(NAMES if is_all else (restored,)), **{restored: copy})
        day.network.settle(11)
        if back is not None:
            day.go(back, 3)
        day.leave(leaver)
        day.network.settle(20)
        assert not day.open_transfers()


def importing(way: tuple[str, ...] = ("B1", "B2")) -> Day:
    """The client has just come to the last broker; the one before it still exports its session."""
    day = Day()
    day.go(way[0], 1)
    day.subscribe()
    for broker in way[1:]:
        day.go(broker, 1)
    day.network.settle(0.5)
    assert "s" in day.network.sites[way[-1]].clients.sessions
    assert transfers_of(day.network, way[-1]).arriving._moves
    return day


def test_a_leave_ends_after_the_source_of_an_import_was_forgotten() -> None:
    day = importing(("B2", "B1"))
    day.network.kill("B2")
    day.network.settle(70)  # its link counts as dead
    for site in day.network.sites.values():
        assert site.clients.federation is not None
        site.clients.federation.left("B2", day.network.now_us)
    day.leave("B1")


def test_a_leave_ends_after_the_source_of_an_import_has_lost_its_disk() -> None:
    day = importing()
    day.restart("B1", B1=[])
    day.leave("B2")


def test_an_import_stays_open_while_its_source_is_down() -> None:
    """The messages that only the source has follow when it is back."""
    day = importing()
    day.network.kill("B1")
    day.network.settle(100)
    assert transfers_of(day.network, "B2").arriving._moves
    day.network.start("B1")
    day.network.settle(20)
    assert not day.open_transfers()


def test_an_import_stays_open_while_its_source_waits_for_a_link() -> None:
    """Messages for the session may come over that link, and only there."""
    day = importing()
    front_end = day.network.sites["B1"].clients.front_end
    assert front_end is not None
    front_end.waits_for_links = lambda: True
    day.network.settle(100)
    assert transfers_of(day.network, "B2").arriving._moves
    front_end.waits_for_links = lambda: False
    day.network.settle(10)
    assert not day.open_transfers()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_leave_ends_that_waits_for_a_farewell(is_forgotten: bool) -> None:
    """The session goes from B2 to B0, on to B1 and back to B0, which ends its export to B1 when B2
    has ended its own: B2 has lost its disk, or was forgotten.
    """
    day = Day()
    day.go("B2", 1)
    day.subscribe()
    front_end = day.network.sites["B2"].clients.front_end
    assert front_end is not None
    front_end.waits_for_links = lambda: True
    for broker in ("B0", "B1", "B0"):
        day.go(broker, 5)
    session = day.network.sites["B0"].clients.sessions["s"]
    ((owed_to, _, after_us, source),) = session.farewells
    assert (owed_to, source) == ("B1", "B2")
    assert after_us is not None
    day.restart("B0")
    if is_forgotten:
        day.network.kill("B2")
        day.network.settle(70)
        for site in day.network.sites.values():
            assert site.clients.federation is not None
            site.clients.federation.left("B2", day.network.now_us)
    else:
        day.restart("B2", B2=[])
    day.leave("B1")
    day.network.settle(20)
    assert not day.open_transfers()


@pytest.mark.parametrize("way", [("B1", "B0"), ("B2", "B1", "B0"), ("B1",), ()])
def test_a_leave_ends_after_the_client_has_gone_and_come_back(way: tuple[str, ...]) -> None:
    """The other brokers knew of a later entry at the leaving broker, and took no session of it."""
    day = Day()
    day.go("B0", 1)
    day.subscribe()
    copy = list(day.network.disks["B0"])
    for broker in way:
        day.go(broker, 8)
    day.restart("B0", B0=copy)
    day.network.settle(11)
    day.leave("B0")
    day.network.settle(20)
    assert not day.open_transfers()
