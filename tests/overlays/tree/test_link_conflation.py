"""A first broker holds publications for links behind which all subscriptions have a pace."""

from __future__ import annotations

import sys
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.broker.effects import LinkChanged, LinkState, Received, Requested, Send, TimerFired
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, PublicationBatch, Publish, Subscribe, Unsubscribe
from shoal.language import parse, parse_value
from shoal.matching import matches
from shoal.model import EVERYTHING, Advertisement, Filter, Pace, Publication, Subscription
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree import link_conflation
from shoal.overlays.tree.link_conflation import MOST_AT_ONCE, MOST_OF_KEY, TIMER
from shoal.overlays.tree.routing import TreeRouting

SECOND = 1_000_000


class FirstBroker:
    """The publisher's broker, with one link; notes what passes it, and when."""

    def __init__(self, system: str = "tree") -> None:
        self.broker = Broker("B1", ("B2",), strategy_factory(system))
        self.now_us = 0
        self.timer_us: int | None = None
        self.passed: list[tuple[float, int]] = []
        self.count = 0
        advertisement = Advertisement(id="a", publisher="P", filter=EVERYTHING)
        self.handle(Requested("P", Advertise(advertisement)))

    def handle(self, input: Any) -> None:
        for effect in self.broker.handle(input, self.now_us):
            if type(effect).__name__ == "SetTimer" and effect.key == TIMER:
                self.timer_us = effect.at_us
            elif isinstance(effect, Send) and isinstance(effect.message, PublicationBatch):
                for routed in effect.message.publications:
                    x = routed.publication.attributes["x"]
                    self.passed.append((self.now_us / SECOND, x))  # type: ignore[arg-type]

    def until(self, at_s: float) -> None:
        end_us = round(at_s * SECOND)
        while self.timer_us is not None and self.timer_us <= end_us:
            self.now_us, self.timer_us = max(self.now_us, self.timer_us), None
            self.handle(TimerFired(TIMER))
        self.now_us = end_us

    def subscribe(
        self, id: str, text: str, every_s: float | None, by: tuple[str, ...] = ()
    ) -> None:
        pace = None if every_s is None else Pace(round(every_s * SECOND), by)
        filter = parse(text) if text else Filter(EVERYTHING.expression)
        asked = Subscription(id=id, client="C", filter=filter, pace=pace)
        self.handle(Received("B2", Subscribe(asked)))

    def publish(self, at_s: float, *numbers: int, **fields: Any) -> None:
        self.until(at_s)
        publications = []
        for x in numbers:
            attributes = {"$topic": "t", "x": x, "odd": x % 2 == 1}
            each = Publication(
                publisher="P", sequence=self.count, published_us=self.now_us, attributes=attributes
            )
            publications.append(replace(each, **fields))
            self.count += 1
        self.handle(Requested("P", Publish(tuple(publications))))


def test_the_documented_example() -> None:
    first = FirstBroker()
    first.subscribe("P", "x > 20", 10)
    first.subscribe("Q", "x > 30", 30)
    for at_s, x in ((0, 35), (2, 25), (4, 36), (6, 22)):
        first.publish(at_s, x)
    first.until(40)
    assert first.passed == [(0, 35), (5, 36), (10, 22)]


def test_one_that_a_newer_does_not_replace_for_all_goes_before_it() -> None:
    first = FirstBroker()
    first.subscribe("P", "x > 20", 10)
    first.subscribe("Q", "x > 30", 30)
    for at_s, x in ((0, 35), (1, 36), (2, 25), (3, 26)):
        first.publish(at_s, x)
    first.until(20)
    assert first.passed == [(0, 35), (5, 36), (5, 26)]


def test_a_subscription_without_a_pace_gets_all_at_once() -> None:
    first = FirstBroker()
    first.subscribe("P", "", 10)
    first.subscribe("Q", "x > 30", None)
    for at_s, x in ((0, 1), (1, 2), (2, 40), (3, 41), (4, 3)):
        first.publish(at_s, x)
    first.until(20)
    assert first.passed == [(0, 1), (2, 2), (2, 40), (3, 41), (5, 3)]


@pytest.mark.parametrize("fields", [{"assured": True}, {"traced": True}])
def test_assured_and_traced_publications_pass_after_held_ones(fields: dict[str, Any]) -> None:
    first = FirstBroker()
    first.subscribe("P", "", 10)
    first.publish(0, 1)
    first.publish(1, 2)
    first.publish(2, 3, **fields)
    assert first.passed == [(0, 1), (2, 2), (2, 3)]


def test_by_values_are_keys_and_batches_are_split() -> None:
    first = FirstBroker()
    first.subscribe("P", "", 10, ("odd",))
    first.publish(0, 1, 2, 3, 4, 5)
    first.until(20)
    assert first.passed == [(0, 1), (0, 2), (5, 5), (5, 4)]


def test_no_more_than_so_many_are_held_of_a_key() -> None:
    first = FirstBroker()
    for number in range(20):
        first.subscribe(f"S{number}", f"x = {number}", 10)
    first.publish(0, *range(20))
    first.until(1)
    assert len(first.passed) == 20 - MOST_OF_KEY
    first.until(6)
    assert [x for _, x in first.passed] == list(range(20))


def test_held_ones_are_sent_when_links_change() -> None:
    first = FirstBroker()
    first.subscribe("P", "", 10)
    first.publish(0, 1)
    first.publish(1, 2)
    first.handle(LinkChanged("B3", LinkState.UP))
    assert first.passed == [(0, 1), (1, 2)]


@pytest.mark.parametrize("system", ["grape", "pop", "self_organising"])
def test_systems_on_a_tree_hold_publications_too(system: str) -> None:
    first = FirstBroker(system)
    first.subscribe("P", "", 10)
    for number in range(200):
        first.publish(number / 10, number)
    first.until(40)
    passed = [x for _, x in first.passed]
    assert passed == sorted(passed)
    assert passed[0] == 0
    assert passed[-1] == 199
    assert len(passed) < 150  # those that the system traces pass at once


def test_covering_passes_no_pace_on() -> None:
    broker = Broker("B1", ("B2",), lambda context: TreeRouting(context, covering=True))
    broker.handle(
        Received("B2", Advertise(Advertisement(id="a", publisher="P", filter=EVERYTHING))), 0
    )
    asked = Subscription(id="s", client="C", filter=EVERYTHING, pace=Pace(SECOND))
    effects = broker.handle(Requested("C", Subscribe(asked)), 1)
    sent = [effect.message.subscription.pace for effect in effects if isinstance(effect, Send)]  # type: ignore[attr-defined]
    assert sent == [None]


def test_a_pace_that_cannot_be_read_holds_nothing() -> None:
    first = FirstBroker()
    first.subscribe("P", "", 10, ("(",))
    first.publish(0, 1)
    first.publish(1, 2)
    assert first.passed == [(0, 1), (1, 2)]


@pytest.mark.parametrize("seed", range(20))
def test_each_subscription_gets_its_newest_within_half_its_interval(seed: int) -> None:
    """And nothing of a subscription is out of order, or passes that nobody asked for."""
    random = Random(seed)
    first = FirstBroker()
    asked = {}
    for name in "PQR"[: random.randint(1, 3)]:
        asked[name] = (f"x % 100 > {random.randrange(60)}", random.choice((1, 2, 4)))
        first.subscribe(name, *asked[name])
    published: list[tuple[float, int]] = []
    at_s = 0.0
    for number in range(80):
        at_s += random.choice((0.05, 0.2, 0.9))
        x = number * 100 + random.randrange(100)
        first.publish(at_s, x)
        published.append((at_s, x))
        if random.random() < 0.03 and len(asked) > 1:
            name = random.choice(list(asked))
            del asked[name]
            first.handle(Received("B2", Unsubscribe(name)))
    first.until(at_s + 10)
    times = {x: at_s for at_s, x in first.passed}
    assert len(times) == len(first.passed) < len(published)
    for text, every_s in asked.values():
        filter = parse(text)
        wanted = [each for each in published if matches(filter, {"x": each[1]})]
        got = [(times[x], x) for _, x in wanted if x in times]
        assert all(one <= other for one, other in pairwise(got))
        for (sent_s, x), later in zip(wanted, [*wanted[1:], (at_s + 10, -1)], strict=True):
            if later[0] - sent_s > every_s / 2 + 1e-6:
                assert times[x] - sent_s <= every_s / 2 + 1e-6


def test_a_batch_follows_what_is_held_when_no_subscription_has_a_pace() -> None:
    first = FirstBroker()
    first.subscribe("s", "", 10)
    first.publish(0, 0)
    first.publish(1, 1)
    first.handle(Received("B2", Unsubscribe("s")))
    first.subscribe("s", "", None)
    first.publish(2, 2, 3)
    first.until(20)
    assert [x for _, x in first.passed] == [0, 1, 2, 3]


def test_values_that_cost_too_much_together_hold_nothing() -> None:
    first = FirstBroker()
    costly = "+".join(f"x * {number}" for number in range(1, 200))
    by = tuple(f"{costly} + {number}" for number in range(10))
    first.subscribe("s", "", 10, by)
    first.publish(0, 1, 1, 1)
    assert len(first.passed) == 3


def test_a_publication_costs_no_more_for_keys_that_hold_nothing() -> None:
    first = FirstBroker()
    first.subscribe("s", "", 1_000, ("x",))
    first.publish(0, *range(2_000))
    calls = 0

    def count(_frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        first.publish(1, 1, assured=True)
    finally:
        sys.setprofile(None)
    assert calls < 1_000


def test_very_many_periods_end_in_several_turns() -> None:
    first = FirstBroker()
    first.subscribe("s", "", 10, ("x",))
    count = MOST_AT_ONCE * 2 + 1
    first.publish(0, *range(count))
    first.publish(1, *range(count))
    first.now_us, first.timer_us = 5 * SECOND, None
    first.handle(TimerFired(TIMER))
    assert len(first.passed) == count + MOST_AT_ONCE
    assert first.timer_us == 5 * SECOND + 1
    first.until(6)
    assert [x for _, x in first.passed[count:]] == [*range(count)]


def test_the_values_of_a_pace_are_parsed_once_for_all_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []

    def parse_noted(text: str) -> Any:
        parsed.append(text)
        return parse_value(text)

    monkeypatch.setattr(link_conflation, "parse_value", parse_noted)
    first = FirstBroker()
    text = "x + 4711 * 0"
    for bound in range(5):
        first.subscribe(f"s{bound}", f"x >= {bound}", 10, (text,))
    for x in range(5):
        first.publish(x, x)
    assert parsed == [text]
