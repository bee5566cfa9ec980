"""Several messages as one: the same messages in the same order, fewer on links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from shoal.broker.effects import Effect, LinkReady, Received, Requested, Send
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Publish,
    Subscribe,
    Together,
    Unsubscribe,
)
from shoal.broker.together import MOST_TOGETHER, enough, joined
from shoal.broker.wire import COMMON, HEAD_BYTES, Codec, WireError
from shoal.model import And, Filter, Operator, Subscription, predicate
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.messages import SubscriptionsSaid
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription
from tests.examples import one_in

SEEDS = range(40)
# A hundred brokers, each with four below it.
HUNDRED = tuple((f"B{(number - 1) // 4}", f"B{number}") for number in range(1, 100))


def apart(effects: Iterable[Effect]) -> list[Effect]:
    """Each message by itself."""
    found: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Together):
            found += [Send(effect.neighbour, each) for each in effect.message.messages]
        else:
            found.append(effect)
    return found


def seen_by(effects: Iterable[Effect], neighbour: str) -> list[Effect]:
    """Messages for this neighbour, and those for none."""
    return [each for each in effects if not isinstance(each, Send) or each.neighbour == neighbour]


@pytest.mark.parametrize("seed", one_in(3, SEEDS))
def test_each_neighbour_gets_the_same_in_the_same_order(seed: int) -> None:
    chance = Random(seed)
    effects: list[Effect] = []
    for number in range(chance.choice([3, 30, 3 * MOST_TOGETHER])):
        neighbour = chance.choice(["B2", "B3"])
        kinds: list[Effect] = [
            LinkReady(neighbour),
            Send(neighbour, SubscriptionsSaid()),
            *[Send(neighbour, Unsubscribe(f"{number}"))] * 8,
        ]
        effects.append(chance.choice(kinds))
    found = joined(effects)
    for neighbour in ("B2", "B3"):
        assert seen_by(apart(found), neighbour) == seen_by(effects, neighbour)
    for each in found:
        if isinstance(each, Send) and isinstance(each.message, Together):
            assert 2 <= len(each.message.messages) <= MOST_TOGETHER


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("seed", one_in(3, SEEDS[:15]))
def test_combined_messages_have_the_same_effects(seed: int, covering: bool) -> None:
    """A subscriber that is answered gets publications from then on."""
    chance = Random(seed)
    links = [(f"B{chance.randrange(at)}", f"B{at}") for at in range(1, 7)]
    parameters = TreeParameters(covering=covering)
    stages = [Stage(links, parameters=parameters, joins=joins) for joins in (False, True)]
    wanted: dict[str, dict[str, str]] = {f"B{at}": {} for at in range(7)}
    number = 0
    for _ in range(30):
        broker = f"B{chance.randrange(7)}"
        match chance.choice(["many", "many", "all", "advertise", "publish", "break"]):
            case "many":
                mine, words = wanted[broker], list[Message]()
                for _ in range(chance.randrange(1, 12)):
                    number += 1
                    if mine and chance.random() < 0.5:
                        words.append(Unsubscribe(mine.pop(chance.choice(list(mine)))))
                        continue
                    low, name = chance.randrange(10), f"s{number}"
                    mine[name] = name
                    words.append(Subscribe(subscription(name, f"x >= {low}", client=broker)))
                for stage in stages:
                    stage.handle(broker, Requested(broker, Together(tuple(words))))
            case "all":
                wanted[broker].clear()
                for stage in stages:
                    stage.ask(broker, broker, Goodbye())
            case "advertise":
                promise = advertisement(f"a/{broker}", "x >= 0", publisher=f"P/{broker}")
                for stage in stages:
                    stage.ask(broker, promise.publisher, Advertise(promise))
            case "break":
                left, right = chance.choice(links)
                for stage in stages:
                    stage.break_link(left, right)
                    stage.mend_link(left, right)
            case "publish":
                for stage in stages:
                    stage.settle(Random(number))
                    stage.ask("B0", "P", Advertise(advertisement("p")), publish(number))
                    stage.settle()
    for stage in stages:
        stage.settle()
        stage.ask("B0", "P", Advertise(advertisement("p")))
        stage.settle()
        number += 1
        for x in range(10):
            stage.ask("B0", "P", Publish((publication(1_000 + x, x=x),)))
        stage.settle()
    plain, together = stages
    assert together.refusals() == plain.refusals()
    assert Counter(together.delivered()) == Counter(plain.delivered())
    assert len(together.everything_sent) < len(plain.everything_sent)
    names = [
        [set(broker.strategy.tables.subscriptions) for broker in stage.brokers.values()]
        for stage in stages
    ]
    assert covering or names[0] == names[1]


def test_the_end_of_a_covering_subscription_is_one_message_per_link() -> None:
    stage = Stage(HUNDRED, joins=True)
    for at in range(100):
        promise = advertisement(f"a{at}", publisher=f"P{at}")
        stage.ask(f"B{at}", promise.publisher, Advertise(promise))
    stage.settle()
    stage.ask("B7", "C", Subscribe(subscription("wide", "x >= 0")))
    stage.settle()
    stage.everything_sent.clear()
    under = tuple(Subscribe(subscription(f"s{x}", f"x = {x}")) for x in range(21))
    stage.handle("B7", Requested("C", Together(under)))
    stage.settle()
    assert len(stage.everything_sent) == 99
    stage.ask("B7", "C", Unsubscribe("wide"))
    stage.settle()
    assert len(stage.everything_sent) == 2 * 99
    stage.ask("B99", "P99", Publish((publication(1, "P99", x=3),)))
    stage.settle()
    ((broker, delivery),) = stage.deliveries
    assert (broker, delivery.subscriptions) == ("B7", ("s3",))


def test_a_returning_broker_gets_tables_in_few_messages() -> None:
    stage = Stage((("B1", "B2"), ("B2", "B3")), joins=True)
    stage.ask("B1", "P", Advertise(advertisement("a")))
    stage.settle()
    for number in range(100):
        stage.ask("B3", "C", Subscribe(subscription(f"s{number}", f"x = {number}")))
    stage.settle()
    stage.everything_sent.clear()
    stage.break_link("B1", "B2")
    stage.mend_link("B1", "B2")
    stage.settle()
    assert len(stage.everything_sent) < 20
    assert len(stage.brokers["B1"].strategy.tables.subscriptions) == 100


def test_one_invalid_message_does_not_affect_the_others() -> None:
    machine = Broker("B1", ("B2",), strategy_factory("tree"))
    good = Subscribe(subscription("good"))
    effects = machine.handle(Requested("C", Together((Unsubscribe("none"), good))), 0)
    assert [type(each).__name__ for each in effects] == ["Record", "Notify"]
    wrong = Unsubscribe("none")
    assert machine.handle(Received("B9", Together((wrong, good))), 1) != []
    assert set(machine.strategy.tables.subscriptions) == {"good"}


WORDS = (Subscribe(subscription("a")), Unsubscribe("b"))


def test_combined_messages_can_be_encoded() -> None:
    codec = Codec(COMMON)
    assert codec.decode(codec.encode(Together(WORDS))[HEAD_BYTES:]) == Together(WORDS)


@pytest.mark.parametrize(
    "messages",
    [(), (Goodbye(),), (publish(1),), (Together(WORDS),), (*WORDS, Goodbye())],
)
def test_other_messages_are_not_combined(messages: tuple[Message, ...]) -> None:
    codec = Codec(COMMON)
    with pytest.raises(WireError, match="joined"):
        codec.decode(codec.encode(Together(messages))[HEAD_BYTES:])


# --- large filters ------------------------------------------------------------------------------


def large(tests: int) -> Filter:
    return Filter(And(tuple(predicate("n", Operator.NE, number) for number in range(tests))))


@pytest.mark.parametrize(("tests", "most"), [(330, 6), (1_500, 1), (3_000, 1), (1, MOST_TOGETHER)])
def test_combined_filters_have_a_bounded_number_of_tests(tests: int, most: int) -> None:
    """100 filters that `#` had covered would take the neighbour 150 ms in one turn."""
    filter = large(tests)
    effects = [Send("B2", subscribe(f"s{number}", filter)) for number in range(40 * most)]
    found = joined(effects)
    assert apart(found) == effects
    messages = [each.message for each in found if isinstance(each, Send)]
    assert max(len(each.messages) if isinstance(each, Together) else 1 for each in messages) == most
    assert len(messages) == 40
    assert enough([each.message for each in effects], MOST_TOGETHER) == most
    assert enough([each.message for each in effects], 1) == 1


def subscribe(id: str, filter: Filter) -> Subscribe:
    return Subscribe(Subscription(id=id, client="c", filter=filter))
