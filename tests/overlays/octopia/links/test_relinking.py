"""A broker returns to its former parent: nothing overtakes publications on the repair link."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from shoal.broker.effects import LinkChanged, LinkState, Returned
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.links.relinking import QUARTERS, TIMER
from shoal.overlays.octopia.messages import HomeChange, Notification, Sweep, Swept
from shoal.overlays.octopia.parameters import Dynamic
from shoal.overlays.octopia.routing import RETRY
from shoal.overlays.octopia.ways.keeping import TIMER as KEPT
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import one_in
from tests.overlays.octopia.order.crowded import break_and_return, carry_all_but, got
from tests.overlays.octopia.stages import ProductStage

# Of the path a, b, c: the link that replaces b0-c0; the publisher's and the subscriber's brokers.
REPAIR = ("a0", "c0")
DOWN = [("a0", "c0"), ("b0", "c0"), ("a1", "c0")]
WAYS = [*DOWN, ("c0", "a0"), ("c0", "b0"), ("c1", "a0")]


def repaired(home: str, subscriber: str) -> ProductStage:
    """P and S at their edge brokers; c0 is linked to a0 meanwhile, and not to b0."""
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=2)
    here.ask(subscriber, "S", Subscribe(subscription("s", client="S")))
    here.ask(home, "P", Advertise(advertisement("p")))
    here.settle()
    here.break_link("b0", "c0")
    link(here, "a0", "c0")
    here.settle()
    return here


def link(here: ProductStage, left: str, right: str) -> None:
    for way in ((left, right), (right, left)):
        here.links.setdefault(way, deque())
    here.mend_link(left, right)


@pytest.mark.parametrize("slow", [("a0", "c0"), ("c0", "a0")])
@pytest.mark.parametrize(("home", "subscriber"), WAYS)
def test_nothing_overtakes_what_is_on_the_repair_link(
    home: str, subscriber: str, slow: tuple[str, str]
) -> None:
    here = repaired(home, subscriber)
    here.ask(home, "P", publish(1))
    carry_all_but(here, slow)
    here.mend_link("b0", "c0")
    for number in range(2, 6):
        carry_all_but(here, slow)
        here.ask(home, "P", publish(number))
    carry_all_but(here, slow)
    here.settle()
    assert list(dict.fromkeys(got(here, "S"))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", one_in(6, range(30)))
@pytest.mark.parametrize(("home", "subscriber"), WAYS)
def test_nothing_overtakes_whatever_link_is_slow(home: str, subscriber: str, seed: int) -> None:
    random = Random(f"relinking/{home}/{subscriber}/{seed}")
    here = repaired(home, subscriber)
    numbers = iter(range(40))
    here.ask(home, "P", publish(next(numbers)))
    here.mend_link("b0", "c0")
    for number in numbers:
        for _ in range(random.randint(0, 6)):
            if waiting := [way for way, messages in here.links.items() if messages]:
                here.carry(*random.choice(waiting))
        here.ask(home, "P", publish(number))
    here.settle(random)
    assert list(dict.fromkeys(got(here, "S"))) == list(range(40))
    up = here.brokers["c0"].strategy.tables.own.up
    assert here.product.broker(up, 0) == "b0"


def leaving(home: str, subscriber: str) -> ProductStage:
    """P and S at their edge brokers; c0 sweeps its link to a0, which carries 1, and keeps 2."""
    here = repaired(home, subscriber)
    here.ask(home, "P", publish(1))
    carry_all_but(here, REPAIR, REPAIR[::-1])
    here.mend_link("b0", "c0")
    carry_all_but(here, REPAIR, REPAIR[::-1])
    here.ask(home, "P", publish(2))
    return here


def between() -> ProductStage:
    """P at a0, S at c0, which holds 3 from b0 until its sweep is back from a0, behind 2."""
    here = leaving("a0", "c0")
    here.carry("c0", "a0", len(here.links["c0", "a0"]))
    carry_all_but(here, REPAIR)
    while any(isinstance(each, Swept) for each in here.links[REPAIR]):
        here.carry(*REPAIR)
    here.ask("a0", "P", publish(3))
    carry_all_but(here, REPAIR)
    here.ask("a0", "P", publish(4))
    carry_all_but(here, REPAIR)
    assert got(here, "S") == [1, 2]
    assert described(here, "held") == 1
    return here


def described(here: ProductStage, what: str) -> int:
    return here.brokers["c0"].strategy.description[what]


def test_publications_kept_during_a_sweep_outlast_the_timeout() -> None:
    here = leaving("c0", "a0")
    for _ in range(2 * QUARTERS):
        here.fire("c0", KEPT)
        assert described(here, "kept") == 1
    here.settle()
    assert got(here, "S") == [1, 2]
    again = [each.routed.publication.again for _, each in here.deliveries]
    assert again == [False, False]


@pytest.mark.parametrize("lost", ["a0", "b0"])
def test_a_broker_lost_before_is_not_waited_for(lost: str) -> None:
    here = leaving("c0", "a0")
    break_and_return(here, "c0", lost)
    here.fire("c0", RETRY)
    here.settle()
    assert got(here, "S") == [1, 2]
    assert described(here, "kept") == 0


def test_publications_held_from_a_lost_broker_return_to_it() -> None:
    here = between()
    last = [each for _, target, each in here.sent(Notification) if target == "c0"][-1]
    break_and_return(here, "b0", "c0")
    assert described(here, "held") == 0
    here.handle("b0", Returned("c0", last))
    here.fire("b0", RETRY)
    here.settle()
    assert got(here, "S") == [1, 2, 3, 4]


def test_held_publications_go_on_after_those_of_the_lost_former_link() -> None:
    here = between()
    break_and_return(here, "a0", "c0")
    here.fire("a0", RETRY)
    here.settle()
    assert got(here, "S") == [1, 2, 3, 4]
    assert described(here, "held") == 0


def test_held_publications_wait_a_bounded_time_for_a_sweep() -> None:
    here = between()
    for _ in range(QUARTERS + 1):
        assert got(here, "S") == [1, 2]
        here.fire("c0", TIMER)
    assert got(here, "S") == [1, 2, 4]


@pytest.mark.parametrize("source", ["b0", "c1"])
def test_a_sweep_follows_waiting_publications_and_needs_none_behind_it(source: str) -> None:
    here = between() if source == "b0" else leaving("c0", "a0")
    here.tell(source, "c0", Sweep("x", 1))
    carry_all_but(here, REPAIR)
    answer = ("c0", source, Swept("x", 1))
    assert answer not in here.everything_sent
    here.settle()
    assert answer in here.everything_sent


@pytest.mark.parametrize("seed", one_in(8, range(40)))
def test_nothing_overtakes_when_all_children_return_at_once(seed: int) -> None:
    """a above b above c and d, and e below d: b disconnects and returns while all publish."""
    random = Random(f"relinking/all/{seed}")
    here = ProductStage("abcde", (0, 1, 1, 3), clusters=2, dynamic=Dynamic.ORDERED)
    homes = [f"{region}0" for region in "abcde"]
    for home in homes:
        here.ask(home, f"S{home}", Subscribe(subscription(home, client=f"S{home}")))
        promise = advertisement(home, publisher=f"P{home}")
        here.ask(home, f"P{home}", Advertise(promise))
    here.settle(random)
    for child in ("c0", "d0"):
        here.break_link("b0", child)
        link(here, "a0", child)
    here.settle(random)

    def publish_all(number: int) -> None:
        for home in homes:
            here.ask(home, f"P{home}", publish(number, publisher=f"P{home}"))

    publish_all(0)
    moments = {"c0": random.randrange(1, 20), "d0": random.randrange(1, 20)}
    for number in range(1, 30):
        for child in [each for each, moment in moments.items() if moment == number]:
            here.mend_link("b0", child)
        for _ in range(random.randint(0, 30)):
            if waiting := [way for way, messages in here.links.items() if messages]:
                here.carry(*random.choice(waiting))
        publish_all(number)
    here.settle(random)
    came: dict[tuple[str, str], dict[int, None]] = {}
    for _, each in here.deliveries:
        publisher, number = each.routed.publication.key
        came.setdefault((publisher, each.client), {})[number] = None
    assert len(came) == len(homes) ** 2
    for name, numbers in came.items():
        assert [*numbers] == [*range(30)], name
    assert [here.brokers[each].strategy.tables.own.up for each in ("c0", "d0")] == [1, 1]


def test_news_of_a_broker_that_links_up_elsewhere_use_the_tree_only() -> None:
    """Over c0, which is linked to both, it would be at a0 before publications from b0 for d0."""
    here = ProductStage("abcde", (0, 1, 1, 3), clusters=1, dynamic=Dynamic.ORDERED)
    for child in ("c0", "d0"):
        here.break_link("b0", child)
        link(here, "a0", child)
    here.settle()
    here.everything_sent.clear()
    for child in ("c0", "d0"):
        here.mend_link("b0", child)
    # So the sweep of c0 is not over yet.
    carry_all_but(here, ("e0", "d0"))

    def told(source: str, target: str) -> bool:
        return any(
            (sender, receiver, each.region, each.up) == (source, target, 3, 1)
            for sender, receiver, each in here.sent(HomeChange)
            if isinstance(each, HomeChange)
        )

    assert told("b0", "c0")
    assert not told("c0", "a0")
    here.settle()
    tables = [each.strategy.tables for each in here.brokers.values()]
    assert {tuple(home.up for home in each.homes.values()) for each in tables} == {
        (None, 0, 1, 1, 3)
    }
    assert {each.homes[3].version for each in tables} == {tables[3].own.version}


@pytest.mark.parametrize("seed", one_in(8, range(40)))
@pytest.mark.parametrize(("home", "subscriber"), DOWN)
def test_nothing_overtakes_publications_returned_from_a_link_given_up(
    home: str, subscriber: str, seed: int
) -> None:
    """Both ends of b0-c0 live and give it up at different times.

    An upward publication is unsettled at c0 until it has arrived, and is retransmitted first.
    """
    random = Random(f"given up/{home}/{subscriber}/{seed}")
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=2)
    here.ask(subscriber, "S", Subscribe(subscription("s", client="S")))
    here.ask(home, "P", Advertise(advertisement("p")))
    here.settle()
    cut, gives_up = random.randrange(5), dict.fromkeys(("b0", "c0"), 0)
    for end in gives_up:
        gives_up[end] = cut + random.randrange(15)
    links_up = gives_up["c0"] + random.randrange(5)
    for number in range(30):
        for end, other in (("b0", "c0"), ("c0", "b0")):
            if gives_up[end] == number:
                give_up(here, end, other)
        if links_up == number:
            link(here, "a0", "c0")
        for _ in range(random.randint(0, 8)):
            held = set(CUT) if number >= cut else set()
            if waiting := [way for way, queue in here.links.items() if queue and way not in held]:
                here.carry(*random.choice(waiting))
        here.ask(home, "P", publish(number))
    here.settle(random)
    assert list(dict.fromkeys(got(here, "S"))) == list(range(30))
    assert described(here, "held") == 0


@pytest.mark.parametrize("seed", one_in(6, range(30)))
@pytest.mark.parametrize(("home", "subscriber"), DOWN)
def test_nothing_overtakes_publications_returned_from_the_repair_link(
    home: str, subscriber: str, seed: int
) -> None:
    """The link is given up while c0 returns to b0, at one end later than at the other."""
    random = Random(f"former given up/{home}/{subscriber}/{seed}")
    here = repaired(home, subscriber)
    here.ask(home, "P", publish(0))
    here.mend_link("b0", "c0")
    gives_up = {end: random.randrange(1, 12) for end in REPAIR}
    for number in range(1, 30):
        for end, other in (REPAIR, REPAIR[::-1]):
            if gives_up[end] == number:
                give_up(here, end, other)
        for _ in range(random.randint(0, 4)):
            cut = {*REPAIR} if number >= min(gives_up.values()) else set()
            if waiting := [way for way, queue in here.links.items() if queue and not cut >= {*way}]:
                here.carry(*random.choice(waiting))
        here.ask(home, "P", publish(number))
    here.settle(random)
    assert list(dict.fromkeys(got(here, "S"))) == list(range(30))
    assert described(here, "held") == 0


CUT = (("b0", "c0"), ("c0", "b0"))


def give_up(here: ProductStage, end: str, other: str) -> None:
    """One end loses a link; its publications that have not arrived are returned."""
    lost = [*here.links[end, other]]
    here.links[end, other].clear()
    here.handle(end, LinkChanged(other, LinkState.FAILED))
    for message in lost:
        if isinstance(message, Notification):
            here.handle(end, Returned(other, message))
    here.fire(end, RETRY)
