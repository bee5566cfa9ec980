"""Every order of events in small networks, for every system whose links are given.

`small_worlds.py` says which events, and what must hold.
"""

from __future__ import annotations

import pytest

from shoal.broker.effects import Effect, LinkReady, LinkState, Send
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.overlays.system import System
from tests.contract.small_worlds import SmallWorld
from tests.examples import at_length
from tests.flooding import MESSAGES, Flooding, Parameters

WITH_LINKS = [name for name in SYSTEMS if not SYSTEMS[name].shape.opens_links]
# A guest, and a system of each kind of routing that sends nothing by itself.
SHORT = [name for name in WITH_LINKS if name not in MODULES or name in ("tree", "tid", "octopia")]
ALL = [*SHORT, *at_length(name for name in WITH_LINKS if name not in SHORT)]


@pytest.mark.parametrize("system", ALL)
@pytest.mark.parametrize(("brokers", "link_fails"), [(2, True), (3, False)])
def test_every_order_of_events(system: str, brokers: int, link_fails: bool) -> None:
    found = SmallWorld(system, brokers, link_fails=link_fails).explore()
    assert not found.problems
    assert found.ends


# A failing link of three brokers of OctopiA makes too many states.
@pytest.mark.soak
@pytest.mark.parametrize("system", [name for name in SHORT if name != "octopia"])
def test_every_order_of_events_with_a_failing_link_of_three(system: str) -> None:
    assert not SmallWorld(system, 3).explore(2_000_000).problems


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


def registered(monkeypatch: pytest.MonkeyPatch, strategy: type[Flooding]) -> str:
    system = System(
        name="faulty",
        strategy=strategy,
        shape=SYSTEMS["flooding"].shape,
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
