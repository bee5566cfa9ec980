"""Every order of events in small networks, for every system.

`small_worlds.py` says which events, and what must hold.
"""

from __future__ import annotations

import pytest

from shoal.broker.effects import (
    Effect,
    LinkReady,
    LinkState,
    OpenLink,
    Send,
    Started,
)
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import System
from tests.contract.small_worlds import SmallWorld
from tests.examples import at_length
from tests.flooding import MESSAGES, Flooding, Parameters

# Its brokers send something each second: with too many orders for anything but the last test.
PERIODIC = "bluedove"
# A guest, and a system of each kind of routing.
SHORT = [
    name
    for name in SYSTEMS
    if name not in MODULES or name in ("tree", "tid", "octopia", "dynatops", "tco")
]
OTHERS = [name for name in SYSTEMS if name != PERIODIC]
ALL = [*SHORT, *at_length(name for name in OTHERS if name not in SHORT)]
# Of three brokers that start in any order these have tens of thousands of states and more.
LARGE = ("octopia", "dynatops", "bayeux", "geops", "hybrid", "tco")


@pytest.mark.parametrize("system", ALL)
def test_every_order_of_events(system: str) -> None:
    found = SmallWorld(system).explore()
    assert not found.problems
    assert found.ends


@pytest.mark.parametrize("system", ALL)
def test_every_order_of_events_of_three_brokers_that_have_started(system: str) -> None:
    found = SmallWorld(system, 3, is_settled=True).explore()
    assert not found.problems
    assert found.ends


@pytest.mark.parametrize(
    "system",
    [
        *[name for name in SHORT if name not in LARGE],
        *at_length(name for name in OTHERS if name not in SHORT or name in LARGE),
    ],
)
def test_every_order_of_events_of_three_brokers(system: str) -> None:
    found = SmallWorld(system, 3, link_fails=False).explore()
    assert not found.problems
    assert found.ends


@pytest.mark.soak
@pytest.mark.parametrize("system", [name for name in SHORT if name not in LARGE])
def test_every_order_of_events_with_a_failing_link_of_three(system: str) -> None:
    assert not SmallWorld(system, 3).explore(2_000_000).problems


@pytest.mark.soak
@pytest.mark.parametrize(("brokers", "link_fails"), [(2, True), (3, False)])
def test_every_order_of_events_of_a_system_with_periodic_messages(
    brokers: int, link_fails: bool
) -> None:
    """It rests when a broker has been declared dead, and linked again."""
    world = SmallWorld(
        PERIODIC,
        brokers,
        link_fails=link_fails,
        is_settled=True,
        publications=0,
        rest_us=20_000_000,
    )
    found = world.explore()
    assert not found.problems
    assert found.ends


class TableSent(Message, frozen=True):
    """A broker's end of its tables; it ought to introduce."""


class WithoutIntroduction(Flooding):
    """Sends its tables by a message that does not introduce, and so never has a neighbour's."""

    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        if state is LinkState.UP:
            out.append(Send(neighbour, TableSent()))

    def on_message(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(message, TableSent):
            out.append(LinkReady(neighbour))
        else:
            super().on_message(neighbour, message, now_us, out)

    @property
    def is_ready(self) -> bool:
        return True


class Twice(Flooding):
    """Floods each publication of its clients twice, and remembers none."""

    def _flood(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        source: BrokerId | None,
        out: list[Effect],
    ) -> None:
        for _ in range(2 if source is None else 1):
            self._seen.clear()
            super()._flood(publications, hops, source, out)


class Once(Flooding):
    """Lets publications go over each link until it fails, and then no more."""

    def __init__(self, context: BrokerContext, parameters: Parameters) -> None:
        super().__init__(context, parameters)
        self._failed: set[BrokerId] = set()

    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        self._failed |= {neighbour} if state is LinkState.FAILED else set()
        if neighbour not in self._failed:
            super().on_link(neighbour, state, now_us, out)


class Opening(Flooding):
    """Opens a link to each broker with a lower number."""

    is_lasting = True

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        super().start(started, now_us, out)
        others = [f"B{number}" for number in range(1, int(self.broker[1:]))]
        out += [OpenLink(other, is_lasting=self.is_lasting) for other in others]


class OpeningOnce(Opening):
    """Opens links that do not come up again."""

    is_lasting = False


def registered(monkeypatch: pytest.MonkeyPatch, strategy: type[Flooding]) -> str:
    opens = issubclass(strategy, Opening)
    system = System(
        name="faulty",
        strategy=strategy,
        shape=SELF_LINKED if opens else SYSTEMS["flooding"].shape,
        parameters=Parameters,
        messages=(*MESSAGES, TableSent),
    )
    monkeypatch.setitem(SYSTEMS, "faulty", system)
    return "faulty"


def test_a_forgotten_introduces_has_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    system = registered(monkeypatch, WithoutIntroduction)
    found = SmallWorld(system, link_fails=False).explore()
    assert "B1 keeps TableSent for B2 until it emits LinkReady('B2')" in "\n".join(found.problems)
    assert "`introduces = True`" in found.problems[-1]


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        (Twice, "delivered twice"),
        (Once, "B1 keeps PublicationBatch for B2 until"),
    ],
)
def test_a_faulty_system_is_found(
    monkeypatch: pytest.MonkeyPatch, strategy: type[Flooding], fault: str
) -> None:
    found = SmallWorld(registered(monkeypatch, strategy)).explore()
    assert found.problems[-1].startswith(fault)


@pytest.mark.parametrize(
    ("strategy", "faults"),
    [(Opening, []), (OpeningOnce, ["the last publication did not reach the subscriber: []"])],
)
def test_a_system_that_opens_links_is_judged_as_any_other(
    monkeypatch: pytest.MonkeyPatch, strategy: type[Flooding], faults: list[str]
) -> None:
    for brokers in (2, 3):
        world = SmallWorld(registered(monkeypatch, strategy), brokers, is_settled=True)
        assert world.explore().problems[-1:] == faults
