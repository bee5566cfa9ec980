"""Relocation with a tracer of the test, and with a system that may refuse a move."""

from __future__ import annotations

from collections.abc import Container

import pytest

from shoal.broker.effects import Effect, MeasuredDelays, TimerKey
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    RoutedPublication,
    Subscribe,
    Unadvertise,
)
from shoal.broker.strategy import BrokerContext, unexpected
from shoal.clients.messages import MigrationAdvertisement, Paused, PingTimes
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.migration import Migrations
from shoal.overlays.publisher_relocation.relocation import Relocation
from shoal.overlays.publisher_relocation.system import relocating
from shoal.overlays.publisher_relocation.tracer import SendAway
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import System
from shoal.overlays.tree.oracle import table_problems
from shoal.overlays.tree.routes import Route
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import LINE, Stage, advertisement, publish, subscription

PATH = ("B1", "B2", "B3")
A = advertisement("a")
SUBSCRIBED = [(subscription(f"sC{at}", client=f"C{at}"), f"B{at}") for at in (1, 3)]


class GuidingTracer:
    """Moves a publisher to B3 after its first publication at B1; records the calls."""

    held_bytes = 0

    def __init__(
        self, context: BrokerContext, parameters: TreeParameters, send_away: SendAway
    ) -> None:
        self.broker = context.broker
        self.calls: list[str] = []
        self._send_away = send_away

    def start(self, out: list[Effect]) -> None:
        self.calls.append("start")

    def mark(
        self, publisher: str, publications: tuple[RoutedPublication, ...], now_us: int
    ) -> tuple[RoutedPublication, ...]:
        first, *rest = publications
        return (RoutedPublication(first.publication, first.message_id, first.message_id), *rest)

    def note(
        self,
        routed: RoutedPublication,
        route: Route,
        upstream: str | None,
        now_us: int,
        out: list[Effect],
    ) -> None:
        ways = " ".join([*route.neighbours, *(name for name, _ in route.clients)])
        self.calls.append(f"from {upstream}: {ways}")

    def published(self, publisher: str, now_us: int, out: list[Effect]) -> None:
        if self.broker == "B1":
            self._send_away(publisher, PATH, now_us, out)

    def receive(self, neighbour: str, message: Message, now_us: int, out: list[Effect]) -> None:
        raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: str, request: Message, now_us: int, out: list[Effect]) -> None:
        raise unexpected(request, f"client {client}")

    def wants(self, client: str, out: list[Effect]) -> None:
        """Subscribers do not move."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        self.calls.append("timer")

    def measured(self, measured: MeasuredDelays) -> None:
        self.calls.append("measured")

    def link(
        self,
        neighbour: str,
        up: bool,
        publishers: Container[str],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self.calls.append(f"{neighbour} {'up' if up else 'down'}, {'P' in publishers}")

    def left(self, publisher: str, out: list[Effect]) -> None:
        self.calls.append(f"{publisher} left")

    def changed(self, publisher: str, out: list[Effect]) -> None:
        self.calls.append(f"{publisher} changed")

    def turned(self, publisher: str, out: list[Effect]) -> None:
        self.calls.append(f"{publisher} turned")

    def gone(self, publisher: str, out: list[Effect]) -> None:
        self.calls.append(f"{publisher} gone")


GUIDED = relocating(
    "guided", GuidingTracer, parameters=TreeParameters, messages=(), decides_after=""
)


def staged(monkeypatch: pytest.MonkeyPatch, system: System = GUIDED) -> Stage:
    """P at B1, a subscriber at B1 and B3."""
    monkeypatch.setitem(SYSTEMS, system.name, system)
    stage = Stage(LINE, system.name)
    stage.ask("B1", "P", Advertise(A))
    for row, broker in SUBSCRIBED:
        stage.ask(broker, row.client, Subscribe(row))
    stage.settle()
    return stage


def calls_at(stage: Stage, broker: str) -> list[str]:
    """The calls of a broker's tracer since the last question."""
    tracer = stage.brokers[broker].strategy.tracer  # type: ignore[attr-defined]
    heard, tracer.calls = tracer.calls, []
    return heard


def test_a_tracer_of_any_kind_moves_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)
    stage.ask("B1", "P", publish(1, 2))
    stage.settle()
    assert calls_at(stage, "B1") == ["from None: B2 C1"] * 2
    assert calls_at(stage, "B3") == ["from B2: C3"] * 2
    said = stage.take_transcript()
    assert "B1 => P: Relocate B1 B2 B3" in said
    assert "B2 -> B3: PublicationBatch P/1* P/2 hops 2" in said
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (A,), 1))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert stage.take_transcript()[-1] == "B3 => P: Resume"
    assert [calls_at(stage, name) for name in PATH] == [
        ["P left", "P turned"],
        ["from B1: B3", "from B1: B3", "P turned"],
        ["P turned"],
    ]
    stage.ask("B3", "P", publish(3))
    stage.settle()
    assert stage.delivered()[-2:] == [(3, "C3"), (3, "C1")]
    assert not stage.problems([(A, "B3")], SUBSCRIBED)


def test_a_tracer_learns_of_publishers_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)
    other = advertisement("b")
    stage.ask("B1", "P", Advertise(advertisement("a", "x > 1")), Advertise(other))
    stage.ask("B1", "P", Unadvertise("b"))
    stage.settle()
    assert (calls_at(stage, "B1"), calls_at(stage, "B2")) == (["P changed"], ["P gone"])
    stage.ask("B1", "P", Unadvertise("a"), Goodbye())
    stage.settle()
    assert (calls_at(stage, "B1"), calls_at(stage, "B3")) == (
        ["P changed", "P left"],
        ["P gone", "P gone"],
    )
    stage.break_link("B1", "B2")
    stage.mend_link("B1", "B2")
    assert calls_at(stage, "B1") == ["B2 down, False", "B2 up, False"]


def test_the_system_may_refuse_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a system does that changes links while a publisher may not move."""

    def frozen(context: BrokerContext, parameters: TreeParameters) -> Relocation:
        def refuse(publisher: str, path: object, now_us: int, out: list[Effect]) -> None:
            guide.left(publisher, out)

        tree = TreeRouting(context)
        guide = GuidingTracer(context, parameters, refuse)
        return Relocation(tree, Migrations(tree), guide)

    stage = staged(monkeypatch, System(name="frozen", strategy=frozen, oracle=table_problems))
    stage.ask("B1", "P", publish(1))
    stage.settle()
    assert stage.notified == []
    assert calls_at(stage, "B1") == ["from None: B2 C1", "P left"]
    assert stage.delivered() == [(1, "C1"), (1, "C3")]


def test_unknown_messages_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = staged(monkeypatch)
    stage.tell("B2", "B1", Goodbye())
    stage.ask("B1", "P", PingTimes(MessageId("B1", "P", 0), {}))
    assert stage.refusals() == [
        "Goodbye is not expected from neighbour B2",
        "PingTimes is not expected from client P",
    ]
