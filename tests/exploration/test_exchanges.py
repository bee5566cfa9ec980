"""Exchanges of a link in every order of messages, with one fault at every moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.broker.messages import Publish, Subscribe
from shoal.overlays.self_organising.link_reconfiguration import steps
from shoal.overlays.self_organising.link_reconfiguration.link_reconfiguration import (
    LinkReconfiguration,
)
from shoal.overlays.self_organising.links.overlay import TreeOverlay
from tests.broker.transcript import publication, subscription
from tests.examples import at_length
from tests.exploration.exchange_steps import Fault
from tests.exploration.exchanges import LinkExchanges
from tests.exploration.network import DEAD, State

PUBLISHES = ("B1", Publish((publication(1, "C"),)))
LINKS: list[Fault] = [("link", "B1", "B2"), ("link", "B2", "B3"), ("link", "B1", "B3")]
LATE: list[Fault] = [("late", "B1"), ("late", "B2"), ("late", "B3")]
BROKERS: list[Fault] = [("broker", "B1"), ("broker", "B2"), ("broker", "B3")]


def explored(exchange: LinkExchanges) -> str:
    """The summary of the search; AssertionError with the shortest path to a fault."""
    found = exchange.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    return f"{found.states} states, {found.steps} steps, {found.ends} ends"


@pytest.mark.parametrize(
    ("remove", "where"), [(0, "B3"), (1, "B2"), *at_length([(0, "B2"), (1, "B3")])]
)
def test_an_exchange_and_a_subscription_in_any_order(remove: int, where: str) -> None:
    requests = ((where, Subscribe(subscription("late"))), PUBLISHES)
    print(explored(LinkExchanges(remove, requests)))


@pytest.mark.parametrize(
    ("remove", "fault"),
    [
        *((1, LATE[0]), (0, LATE[1]), (1, LATE[2])),
        *at_length([(0, LINKS[2]), (1, LINKS[2]), (0, LATE[0]), (1, LATE[1]), (0, LATE[2])]),
    ],
)
def test_an_exchange_and_a_fault(remove: int, fault: Fault) -> None:
    print(explored(LinkExchanges(remove, (PUBLISHES,), fault)))


@pytest.mark.parametrize("remove", [0, 1])
def test_both_ends_of_a_new_link_begin(remove: int) -> None:
    print(explored(LinkExchanges(remove, (), both=True)))


def hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "Hold", lambda but: steps.CancelTimer(()))


def turn_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.overlays.tree.routing.turn_tables", lambda *arguments: None)


def no_vote_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkReconfiguration, "_ask_for_decision", lambda *arguments: None)


def no_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeOverlay, "_greet", lambda *arguments: None)


@pytest.mark.parametrize(
    ("mutate", "fault"),
    [
        *((hold_nothing, ()), (turn_nothing, ())),
        *at_length([(no_vote_request, LINKS[2]), (no_greeting, LINKS[2])]),
    ],
)
def test_the_judges_notice_a_broken_exchange(
    mutate,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    mutate(monkeypatch)
    requests = (PUBLISHES,) if fault else (("B2", Subscribe(subscription("late"))), PUBLISHES)
    assert LinkExchanges(0, requests, fault).explore().problems


@pytest.mark.soak
@pytest.mark.parametrize("remove", [0, 1])
@pytest.mark.parametrize("fault", [*LINKS[:2], *BROKERS])
def test_an_exchange_and_a_broken_link_or_broker(remove: int, fault: Fault) -> None:
    print(explored(LinkExchanges(remove, (PUBLISHES,), fault)))


@pytest.mark.soak
@pytest.mark.parametrize("remove", [0, 1])
@pytest.mark.parametrize("fault", [*LINKS, *BROKERS])
def test_an_exchange_and_a_break_that_is_noticed_at_any_time(remove: int, fault: Fault) -> None:
    """Losses are not judged then."""
    print(explored(LinkExchanges(remove, (), fault, timely=False)))


class WithDisks(LinkExchanges):
    """A dead broker starts again with its own memory of the links; clients wait until it is
    ready.
    """

    has_disks = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # Of each life.
        self._ready: dict[int, bool] = {}
        super().__init__(*arguments, **options)

    def arrives(self, state: State, way: int, input: int) -> bool:
        source, target = list(self.ways)[way]
        if source in self.clients and not self._is_ready(state.lives[self.index[target]]):
            return False
        return super().arrives(state, way, input)

    def _is_ready(self, life: int) -> bool:
        if life != DEAD and life not in self._ready:
            self._ready[life] = self.lives.machine(life).broker.strategy.is_ready
        return self._ready.get(life, True)

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        is_end = True
        for each in super().steps(state):
            is_end = False
            yield each
        if is_end and not state.left.broken:
            # A client waits for a broker, and a broker may wait for its timer.
            yield from self.timeouts(state)


@pytest.mark.parametrize(
    ("fault", "remove"),
    [
        *((BROKERS[0], 0), (BROKERS[2], 1)),
        *at_length([(BROKERS[0], 1), (BROKERS[1], 0), (BROKERS[1], 1), (BROKERS[2], 0)]),
    ],
)
def test_an_exchange_and_a_broker_that_knows_its_own_links(fault: Fault, remove: int) -> None:
    print(explored(WithDisks(remove, (), fault, timely=False)))


@pytest.mark.soak
@pytest.mark.parametrize("remove", [0, 1, 2])
@pytest.mark.parametrize(
    "fault", [(), ("link", "B2", "B3"), ("link", "B1", "B4"), ("broker", "B1")]
)
def test_four_brokers(remove: int, fault: Fault) -> None:
    print(explored(LinkExchanges(remove, (PUBLISHES,), fault, brokers=4)))
