"""Subscriptions sent to neighbours with covering: fewer, never too few, with bounded work."""

from __future__ import annotations

from collections import Counter

import pytest

from shoal.broker.effects import Effect, Requested, Send
from shoal.broker.messages import Advertise, Goodbye, Message, Publish, Subscribe, Unsubscribe
from shoal.language import parse
from shoal.matching.relations.decisions import prepare
from shoal.model import EVERYTHING, And, Filter, Operator, Subscription, predicate
from shoal.overlays.tree.routing_table import MOST_COVERED
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import LINE, Stage, advertisement, publication, subscription
from tests.calls import Calls
from tests.examples import at_length
from tests.matching.test_hostile_filters import PAIRS
from tests.mqtt.hostile import filters


def stage() -> Stage:
    """P has advertised x >= 0 at B1, the first of three in a line."""
    made = Stage(LINE, parameters=TreeParameters(covering=True))
    made.ask("B1", "P", Advertise(advertisement("a")))
    made.settle()
    made.take_transcript()
    return made


def messages_after(made: Stage, broker: str, *requests: Message) -> list[str]:
    """The messages caused by a client's requests there."""
    made.ask(broker, "C", *requests)
    made.settle()
    return made.take_transcript()


def test_a_covered_subscription_is_not_forwarded_and_served_at_once() -> None:
    here = stage()
    assert messages_after(here, "B3", Subscribe(subscription("wide", "x > 3"))) == [
        "B3 -> B2: Subscribe wide",
        "B2 -> B1: Subscribe wide",
    ]
    assert messages_after(here, "B3", Subscribe(subscription("narrow", "x > 5"))) == []
    assert messages_after(here, "B3", Subscribe(subscription("same", "x > 3"))) == []
    here.ask("B1", "P", Publish((publication(1, x=7),)))
    here.settle()
    ((broker, delivery),) = here.deliveries
    assert (broker, sorted(delivery.subscriptions)) == ("B3", ["narrow", "same", "wide"])


def test_a_neighbour_without_covering_gets_all_and_loses_nothing() -> None:
    """While its table turns it counts as one that has what was forwarded before."""
    here = stage()
    tree = here.brokers["B3"].strategy
    messages_after(here, "B3", Subscribe(subscription("wide", "x > 3")))
    tree.propagation.suspend_covering("B2")
    assert messages_after(here, "B3", Subscribe(subscription("same", "x > 3"))) == [
        "B3 -> B2: Subscribe same"
    ]
    assert messages_after(here, "B3", Subscribe(subscription("wider", "x > 1")))[:2] == [
        "B3 -> B2: Subscribe wider",
        "B2 -> B1: Subscribe wider",
    ]
    out: list[Effect] = []
    tree.keep_tables(out)
    sent = {each.message for each in out if isinstance(each, Send)}
    assert sent == {Unsubscribe("wide"), Unsubscribe("same")}


def test_a_replacement_is_sent_before_the_covering_one_is_withdrawn() -> None:
    here = stage()
    messages_after(
        here, "B3", *(Subscribe(subscription(f"s{low}", f"x > {low}")) for low in (3, 5, 9))
    )
    assert messages_after(here, "B3", Unsubscribe("s3")) == [
        "B3 -> B2: Subscribe s5",
        "B3 -> B2: Unsubscribe s3",
        "B2 -> B1: Subscribe s5",
        "B2 -> B1: Unsubscribe s3",
    ]
    assert messages_after(here, "B3", Unsubscribe("s9")) == []
    assert messages_after(here, "B3", Subscribe(subscription("s1", "x > 1")))[:2] == [
        "B3 -> B2: Subscribe s1",
        "B3 -> B2: Unsubscribe s5",
    ]


def test_a_leaving_clients_subscriptions_are_withdrawn_without_replacements() -> None:
    here = stage()
    mine = [subscription(f"s{low}", f"x > {low}") for low in (3, 5)]
    other = subscription("other", "x > 9", client="D")
    messages_after(here, "B3", *map(Subscribe, mine))
    here.ask("B3", "D", Subscribe(other))
    here.settle()
    effects = here.handle("B3", Requested("C", Goodbye()))
    assert effects == [Send("B2", Subscribe(other)), Send("B2", Unsubscribe("s3"))]


def test_a_neighbours_subscription_covers_none_that_it_needs() -> None:
    here = stage()
    here.ask("B3", "Q", Advertise(advertisement("b", publisher="Q")))
    here.settle()
    messages_after(here, "B3", Subscribe(subscription("wide", "x > 3")))
    assert messages_after(here, "B2", Subscribe(subscription("narrow", "x > 5"))) == [
        "B2 -> B3: Subscribe narrow"
    ]


def test_a_restored_link_is_sent_uncovered_subscriptions() -> None:
    here = stage()
    messages_after(
        here, "B3", *(Subscribe(subscription(f"s{low}", f"x > {low}")) for low in (3, 5, 9))
    )
    here.break_link("B2", "B3")
    here.mend_link("B2", "B3")
    here.settle()
    assert [line for line in here.take_transcript() if "Subscribe " in line] == [
        "B3 -> B2: Subscribe s3",
        "B2 -> B1: Subscribe s3",
    ]


def test_one_subscription_covers_a_bounded_number() -> None:
    """So a client that subscribes to everything and unsubscribes, repeatedly, costs little each
    time.
    """
    here = stage()
    everything = Subscription(id="all", client="C", filter=EVERYTHING)
    count = 3 * MOST_COVERED
    for number in range(count):
        here.ask("B3", "C", Subscribe(subscription(f"s{number}", f"x = {number}")))
    here.settle()
    here.take_transcript()
    for _ in range(3):
        told = Counter(
            words.split()[-2] for words in messages_after(here, "B3", Subscribe(everything))
        )
        assert told == {"Subscribe": 2, "Unsubscribe": 2 * MOST_COVERED}
        told = Counter(
            words.split()[-2] for words in messages_after(here, "B3", Unsubscribe("all"))
        )
        assert told == {"Subscribe": 2 * MOST_COVERED, "Unsubscribe": 2}


SLOW = ("900 patterns", "900 patterns that are not to be", "wildcards against each other",
        "many texts against patterns", "1,000 tests")  # fmt: skip


@pytest.mark.parametrize("pair", [*SLOW[1:], *at_length(SLOW[:1])])
def test_hostile_filters_take_bounded_work(pair: str) -> None:
    """Pairs that cannot be decided, beside filters they may cover and be covered by."""
    here = stage()
    for number in range(40):
        text = f"x > {number} AND a LIKE '%{number}%z'"
        here.ask("B3", "C", Subscribe(subscription(f"s{number}", text)))
    for number, filter in enumerate((*PAIRS[pair](), *PAIRS[pair]())):
        hostile = Subscription(id=f"h{number}", client="C", filter=filter)
        with Calls() as calls:
            here.brokers["B3"].strategy.propagation.add_subscription(hostile, None, [])
        assert calls.count < 2_500_000


# The bound of one input, as in `tests/mqtt/connection/test_hostile.py`: some 20 ms.
MOST_CALLS = 100_000


@pytest.mark.parametrize("name", ["alternatives", "tests", *at_length(["alternatives alike"])])
def test_many_filters_at_their_limits_take_bounded_work(name: str) -> None:
    """The search for filters that one may cover must not grow with their number."""
    here = stage()
    where = parse(dict(filters())[name]).expression
    topics = [
        predicate("topic", Operator.EQ, f"t{number}")
        if number % 3
        else predicate("z", Operator.GT, number)
        for number in range(40)
    ]
    asked = [
        Subscription(id=f"s{number}", client="C", filter=Filter(And((topic, where))))
        for number, topic in enumerate(topics)
    ]
    requests = [*map(Subscribe, asked), *(Unsubscribe(each.id) for each in asked)]
    for each in asked:
        prepare(each.filter)  # of which the front end counts the work
    for request in requests:
        with Calls() as calls:
            here.handle("B3", Requested("C", request))
        assert calls.count < MOST_CALLS
