"""A subscription covered by another of its broker's is granted at once, without messages."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from shoal.broker.messages import Subscribe as Ask
from shoal.broker.messages import Unsubscribe as TakeBack
from shoal.language import parse
from shoal.matching.topics.filters import topic_matches
from shoal.model import EVERYTHING
from shoal.mqtt.codec.packets import Publish, Suback, Unsubscribe
from shoal.mqtt.federation.federation import UNCOVERING_PAUSE_US
from shoal.mqtt.front_end import covering
from shoal.mqtt.front_end.covering import MOST_AT_ONCE, SubscriptionCovering
from tests.calls import Calls
from tests.examples import at_length
from tests.mqtt.broker_api import Client
from tests.mqtt.federation.test_granting import ask, ids, settle
from tests.mqtt.network_broker_api import Network


def of_three() -> Network:
    network = Network("B1", "B2", "B3")
    network.after(15)
    return network


@pytest.mark.parametrize(
    ("coverer", "covered"),
    [
        ("#", "a/b"),
        ("#", "a/#"),
        ("+/#", "a"),
        ("a/#", "a"),
        ("a/#", "a/+/c"),
        ("a/+", "a/b"),
        ("a/+/c/#", "a/b/c"),
        ("a", "a?x > 1"),
        ("a/#?x > 1", "a/b?x > 1"),
        ("$own/#", "$own/a"),
    ],
)
def test_a_covered_subscription_costs_no_messages(coverer: str, covered: str) -> None:
    network = of_three()
    site = network["B1"]
    site.connect("wide").subscribe(coverer)
    client = site.connect("c")
    network.carried = 0
    network.is_settling = False
    ask(client, 1, covered)
    assert ids(client) == [1]
    assert network.carried == 0
    topic = covered.partition("?")[0].replace("+", "b").replace("/#", "")
    network["B3"].connect("p").send(Publish(topic, b'{"x": 2}', 1, packet_id=1))
    assert client.take_payloads() == [b'{"x": 2}']


@pytest.mark.parametrize(
    ("other", "asked"),
    [
        ("a/+", "a"),
        ("a/+", "a/#"),
        ("a/#", "ab"),
        ("a/+", "+/+"),
        ("#", "$own/a"),
        ("+/a", "$own/a"),
        ("a/b", "a/+"),
        ("a?x > 1", "a"),
        ("a?x > 1", "a?x > 0"),
        ("$share/g/#", "a"),
    ],
)
def test_an_uncovered_subscription_is_sent(other: str, asked: str) -> None:
    network = of_three()
    site = network["B1"]
    site.connect("other").subscribe(other)
    client = site.connect("c")
    network.is_settling = False
    ask(client, 1, asked)
    assert ids(client) == []
    settle(network)
    assert ids(client) == [1]


def test_only_subscriptions_known_everywhere_cover() -> None:
    network = of_three()
    site = network["B1"]
    wide, client = site.connect("wide"), site.connect("c")
    network.is_settling = False
    ask(wide, 1, "#")
    ask(client, 1, "a")
    network.after(2.1)  # and then no client waits any longer
    assert ids(wide) == [1]
    ask(client, 2, "b")
    assert [each for each, *_ in site.clients.front_end.asking] == ["#", "a", "b"]
    settle(network)
    network.after(2.1)
    settle(network)
    assert ids(client) == [1, 2]
    ask(client, 3, "d")
    settle(network)
    assert ids(client) == [3]
    network.carried = 0
    ask(client, 4, "e")
    assert network.carried == 0
    assert ids(client) == [4]


def test_after_a_join_or_link_up_nothing_covers_until_known() -> None:
    for is_link in (False, True):
        network = of_three()
        site, last = network["B1"], network["B3"]
        site.connect("wide").subscribe("#")
        if is_link:
            site.clients.linked("B2", True, site.now_us)
        else:
            assert last.clients.federation is not None
            last.clients.federation.joining.join(last.now_us)
        network.after(1)
        network.is_settling = False
        client = site.connect("c")
        ask(client, 1, "a")
        assert ids(client) == []
        settle(network)
        assert ids(client) == [1]


def requests(asking: SubscriptionCovering, said: list[str]) -> list[str]:
    taken, said[:] = list(said), []
    return taken


def asking_and_said() -> tuple[SubscriptionCovering, list[str]]:
    said: list[str] = []

    def ask_for(topics: str, content: object, pace: object) -> int:
        said.append(f"+{topics}")
        return 1

    asking = SubscriptionCovering(ask_for, lambda topics, *_: said.append(f"-{topics}"))
    asking.at_leaving = lambda: said.append("later")
    return asking, said


def test_a_covering_subscription_stays_until_its_replacements_are_known() -> None:
    network = of_three()
    site = network["B1"]
    wide, client = site.connect("wide"), site.connect("c")
    wide.subscribe("#")
    client.subscribe("a")
    network.is_settling = network.is_storing = False
    wide.send(Unsubscribe(2, ("#",)))
    network.after(0.1)
    rows = network["B3"].machine.strategy.tables.subscriptions.values()

    def known() -> set[str]:
        own = [row.subscription for row in rows if row.subscription.client == "$mqtt/B1"]
        return {str(each.filter) for each in own if "'$to'" not in str(each.filter)}

    assert len(known()) == 2
    settle(network)
    assert len(known()) == 2  # it is not stored
    for each in site.unstored:
        site.store(each)
    assert len(known()) == 1
    network["B3"].connect("p").send(Publish("a", b"1", 1, packet_id=1))
    assert client.take_payloads() == [b"1"]


def test_a_covering_subscription_wanted_again_stays_and_old_marks_are_ignored() -> None:
    asking, said = asking_and_said()
    asking.added("#", EVERYTHING)
    asking.known = 1
    asking.added("a", EVERYTHING)
    asking.removed("#", EVERYTHING)
    assert requests(asking, said) == ["+#", "later"]
    first = asking.release_covering()
    assert requests(asking, said) == ["+a"]
    asking.added("#", EVERYTHING)
    asking.added("b", EVERYTHING)
    asking.removed("#", EVERYTHING)
    second = asking.release_covering()
    assert requests(asking, said) == ["later", "+b"]
    assert first is not None
    assert second is not None
    asking.left(first)
    assert requests(asking, said) == []
    asking.left(second)
    asking.left(second)
    assert requests(asking, said) == ["-#"]


def test_an_unwanted_subscription_covers_nothing_new_and_may_be_replaced() -> None:
    asking, said = asking_and_said()
    asking.added("a/#", EVERYTHING)
    asking.added("+/b", parse("x > 1"))
    asking.known = 1
    asking.added("a/b", parse("x > 1"))
    asking.removed("a/#", EVERYTHING)
    asking.added("a/c", EVERYTHING)
    assert requests(asking, said) == ["+a/#", "++/b", "later", "+a/c"]
    leaving = asking.release_covering()
    assert leaving is not None
    asking.left(leaving)
    assert requests(asking, said) == ["-a/#"]
    asking.removed("a/b", parse("x > 1"))
    asking.removed("+/b", parse("x > 1"))
    assert requests(asking, said) == ["-+/b"]


def test_many_replacements_are_sent_in_slices() -> None:
    network = of_three()
    site = network["B1"]
    wide, client = site.connect("wide"), site.connect("c")
    wide.subscribe("#")
    for number in range(3 * MOST_AT_ONCE):
        client.subscribe(f"t/{number}")
    before = network["B1"].clients.front_end.asked
    wide.lose()
    asked = []
    while ("#", EVERYTHING, None) in site.clients.front_end.asking:
        asked.append(site.clients.front_end.asked - before)
        network.after(UNCOVERING_PAUSE_US / 1_000_000)
    steps = {later - earlier for earlier, later in pairwise(asked)}
    assert steps <= {0, MOST_AT_ONCE, 2 * MOST_AT_ONCE}
    assert asked[0] <= 2 * MOST_AT_ONCE
    assert site.clients.front_end.asked - before == 3 * MOST_AT_ONCE


def test_every_subscription_is_sent_where_the_system_counts_them() -> None:
    asking, said = asking_and_said()
    asking.added("#", EVERYTHING)
    asking.known = 1
    asking.added("a", EVERYTHING)
    asking.ask_for_all()
    asking.added("b", EVERYTHING)
    assert requests(asking, said) == ["+#", "+a", "+b"]


FILTERS = ("#", "a/#", "+/b", "a/b", "a/+", "b", "+", "a/b/#", "a/c", "a/b?x > 1", "a/#?x > 1")
TOPICS = ("a", "a/b", "a/c", "b", "c/b", "a/b/c")


@pytest.mark.parametrize("seed", [*range(10), *at_length(range(10, 60))])
def test_granted_subscriptions_receive_under_any_churn(seed: int) -> None:
    """A mark is settled, and a subscription stored, when all messages before it have arrived."""
    chance = Random(seed)
    network = Network("B1", "B2", "B3", tree=[("B1", "B2"), ("B2", "B3")])
    network.after(15)
    clients = [network[f"B{1 + number % 3}"].connect(f"c{number}") for number in range(6)]
    publishers = [network[name].connect(f"p{name}") for name in ("B1", "B2", "B3")]
    granted: dict[Client, set[str]] = {each: set() for each in clients}
    pending: dict[Client, dict[int, str]] = {each: {} for each in clients}
    # The filters of each client by which it must receive publications.
    expected: dict[Client, dict[bytes, set[str]]] = {each: {} for each in clients}
    taken: dict[Client, list[bytes]] = {each: [] for each in clients}
    network.is_slow, network.is_settling, network.is_storing = True, False, False

    def look() -> None:
        for client in clients:
            for packet in client.take():
                if isinstance(packet, Suback):
                    text = pending[client].pop(packet.packet_id, None)
                    if text is not None:
                        granted[client].add(text)
                elif isinstance(packet, Publish):
                    taken[client].append(packet.payload)

    for number in range(1, 200):
        client = chance.choice(clients)
        match chance.choice(("ask", "ask", "leave", "publish", "publish", "step", "settle")):
            case "ask":
                text = chance.choice(FILTERS)
                if text not in pending[client].values():
                    pending[client][number] = text
                    ask(client, number, text)
            case "leave":
                text = chance.choice(FILTERS)
                pending[client] = {n: t for n, t in pending[client].items() if t != text}
                granted[client].discard(text)
                for payload, filters in expected[client].items():
                    if payload not in taken[client]:
                        filters.discard(text)
                client.send(Unsubscribe(number, (text,)))
            case "publish":
                look()
                topic, payload = chance.choice(TOPICS), b'{"x": 2, "n": %d}' % number
                for each in clients:
                    expected[each][payload] = {
                        text
                        for text in granted[each]
                        if topic_matches(text.partition("?")[0], topic)
                    }
                chance.choice(publishers).send(Publish(topic, payload, 0))
            case "step":
                for _ in range(chance.randrange(6)):
                    network.step(chance)
            case "settle":
                network.after(0.02)
                network.settle()
                has_come = []
                for site in network.sites.values():
                    unstored, site.unstored = site.unstored, []
                    publications, site.unsettled = site.unsettled, []
                    has_come.append((site, unstored, publications))
                for site, unstored, publications in has_come:
                    for each in unstored:
                        site.store(each)
                    site.settle(publications)
        look()
    network.settle()
    look()
    for client in clients:
        wanted = [payload for payload, filters in expected[client].items() if filters]
        lost = [each for each in wanted if each not in taken[client]]
        assert not lost, f"{client} lost {lost}"


@pytest.mark.parametrize("most", [1, 3, MOST_AT_ONCE])
@pytest.mark.parametrize("seed", [*range(2), *at_length(range(2, 10))])
def test_clients_filters_are_covered_at_every_moment(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front end's subscriptions cover its clients' filters at every moment."""
    monkeypatch.setattr(covering, "MOST_AT_ONCE", most)
    chance = Random(seed)
    network = of_three()
    front_end = network["B1"].clients.front_end
    held: set[str] = set()
    for request in front_end.take():
        assert not isinstance(request.request, Ask | TakeBack)
    wanted: list[str] = []
    plain = [each for each in FILTERS if "?" not in each]
    for _ in range(2_000):
        text = chance.choice(plain)
        match chance.choice(("add", "remove", "know", "leave")):
            case "add":
                front_end.added(text, EVERYTHING)
                wanted.append(text)
            case "remove" if text in wanted:
                front_end.removed(text, EVERYTHING)
                wanted.remove(text)
            case "know":
                front_end.is_known(front_end.asked)
            case "leave":
                leaving = front_end.asking.release_covering()
                if leaving and chance.random() < 0.5:
                    front_end.asking.left(leaving)
        for request in front_end.take():
            if isinstance(request.request, Ask):
                held.add(request.request.subscription.id)
            elif isinstance(request.request, TakeBack):
                held.remove(request.request.subscription_id)
        by_id = {front_end.asked_for(each, EVERYTHING): each for each in plain}
        there = [by_id[each] for each in held if each in by_id]
        for topic in TOPICS:
            if any(topic_matches(each, topic) for each in wanted):
                assert any(topic_matches(each, topic) for each in there), (topic, wanted, there)
    for text in wanted:
        front_end.removed(text, EVERYTHING)
    while (leaving := front_end.asking.release_covering()) != 0:
        if leaving is not None:
            front_end.asking.left(leaving)
    assert not list(front_end.asking)


def test_many_covered_subscriptions_are_withdrawn_in_slices() -> None:
    """50,000 in one slice would take 0.2 s, with a search of all that were done."""
    asking, said = asking_and_said()
    count = 20 * MOST_AT_ONCE
    for number in range(count):
        asking.added(f"a/{number}/+", EVERYTHING)
    asking.known = 1
    for number in range(count):
        asking.added(f"a/{number}/b", EVERYTHING)
    for number in range(count):
        asking.removed(f"a/{number}/+", EVERYTHING)
    requests(asking, said)
    calls = []
    while True:
        with Calls() as made:
            leaving = asking.release_covering()
        calls.append(made.count)
        assert len(requests(asking, said)) <= MOST_AT_ONCE
        if leaving is not None:
            break
    assert calls[-2] < 1.2 * calls[0]
    asking.added("a/0/+", EVERYTHING)
    asking.removed("a/0/+", EVERYTHING)  # and covers nothing from here on
    assert requests(asking, said) == ["-a/0/+"]
    asking.left(leaving)
    taken = requests(asking, said)
    assert taken.pop() == "later"
    while len(taken) < count - 1:
        before = len(taken)
        asking.release_covering()
        taken += requests(asking, said)
        assert len(taken) - before <= MOST_AT_ONCE
    assert taken == [f"-a/{number}/+" for number in range(1, count)]
    assert asking.release_covering() == 0
