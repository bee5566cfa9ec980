"""Shared subscriptions with members at several brokers: one member of each group gets a message."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation.controls import (
    Closed,
)
from shoal.mqtt.federation.conversions import shared_of
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.restoring import restore
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import remembered

BROKERS = ("B1", "B2", "B3")
JOBS = "$share/workers/jobs/+"


@pytest.fixture
def network() -> Network:
    return Network(*BROKERS)


def worker(network: Network, broker: str, name: str, **fields: Any) -> Client:
    client = network[broker].connect(name, **fields)
    client.subscribe(JOBS, qos=1)
    network.after(0.01)
    return client


def publish(network: Network, numbers: range) -> list[bytes]:
    """Publish these at all brokers in turn."""
    publishers = [network[broker].connect(f"p{broker}") for broker in BROKERS]
    payloads = [b"%d" % number for number in numbers]
    for number, payload in enumerate(payloads):
        publishers[number % 3].publish("jobs/1", payload, qos=1)
    return payloads


def test_4_8_2_each_message_goes_to_one_member_wherever_it_is(network: Network) -> None:
    workers = [worker(network, broker, f"w{broker}{n}") for broker in BROKERS for n in range(2)]
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("jobs/#", qos=1)
    sent = publish(network, range(120))
    got = [each.take_payloads() for each in workers]
    assert sorted(payload for each in got for payload in each) == sorted(sent)
    assert all(len(each) >= 8 for each in got)
    assert watcher.take_payloads() == sent


def test_groups_and_topics_are_independent(network: Network) -> None:
    first, second = (worker(network, broker, f"w{broker}") for broker in ("B1", "B3"))
    other = network["B2"].connect("other")
    other.subscribe("$share/audit/jobs/+", qos=1)
    network.after(0.01)
    sent = publish(network, range(20))
    assert other.take_payloads() == sent
    assert sorted(first.take_payloads() + second.take_payloads()) == sorted(sent)


def test_members_that_come_and_go_lose_and_double_nothing(network: Network) -> None:
    for seed in range(5):
        random = Random(seed)
        network = Network(*BROKERS)
        workers = [worker(network, "B2", "stays")]
        everyone = list(workers)
        sent: list[bytes] = []
        for step in range(60):
            match random.randrange(4):
                case 0:
                    one = worker(network, random.choice(BROKERS), f"w{step}")
                    workers.append(one)
                    everyone.append(one)
                case 1 if len(workers) > 1:
                    gone = workers.pop(random.randrange(1, len(workers)))
                    everyone.append(gone)
                    if random.random() < 0.5:
                        gone.unsubscribe(JOBS)
                    else:
                        gone.taken = gone.take_payloads()  # type: ignore[attr-defined]
                        gone.disconnect()
                case _:
                    sent += publish(network, range(len(sent), len(sent) + 5))
            network.after(random.choice([0.01, 0.3, 3]))
        got: Counter[bytes] = Counter()
        for one in dict.fromkeys(everyone):
            got.update(getattr(one, "taken", []))
            got.update(one.take_payloads() if not one.closed else [])
        assert got == Counter(sent), f"seed {seed}"


def test_connected_members_precede_disconnected_ones(network: Network) -> None:
    away = worker(network, "B1", "away", **KEPT)
    away.lose()
    here = worker(network, "B3", "here")
    network.after(3)
    sent = publish(network, range(20))
    assert here.take_payloads() == sent
    here.disconnect()
    network.after(3)
    sent = publish(network, range(20, 40))
    back = network["B1"].connect("away", **KEPT)
    assert back.take_payloads() == sent


def test_members_with_different_filters_are_different_groups(network: Network) -> None:
    members = {}
    for broker in ("B1", "B3"):
        for low in (5, 8):
            client = members[broker, low] = network[broker].connect(f"w{broker}{low}")
            client.subscribe(f"$share/g/a?x>{low}", qos=1)
    network.after(0.01)
    publisher = network["B2"].connect("p")
    for x in range(40):
        properties = Properties(user_properties=(("x", str(x % 10)),))
        publisher.publish("a", b"%d" % x, qos=1, properties=properties)
    for low in (5, 8):
        got = [int(each) for b in ("B1", "B3") for each in members[b, low].take_payloads()]
        assert sorted(got) == [x for x in range(40) if x % 10 > low]


def test_a_restarted_broker_without_members_answers_so(
    network: Network,
) -> None:
    here, lost = worker(network, "B1", "here"), worker(network, "B3", "lost")
    site = network["B3"]
    lost.closed = True
    site.clients = BrokerClients("B3", site.now_us, limits=site.clients.limits, networked=True)
    site.carry_out(site.clients.take_effects())
    network.after(3)
    sent = publish(network, range(20))
    assert sorted(here.take_payloads()) == sorted(sent)
    sharing = network["B1"].clients.federation.sharing
    ((_, counts),) = sharing.membership._counts.items()
    assert not counts["B3"].present
    here.disconnect()
    publish(network, range(1))
    assert not sharing.membership._counts


def one_that_is_dead(network: Network) -> tuple[Client, Any]:
    """A group of two whose one broker restarts, and that broker's answers."""
    here = worker(network, "B2", "here")
    dead = worker(network, "B3", "dead")
    network.after(3)
    site, waiting = network["B3"], []
    site.handle = waiting.append  # type: ignore[method-assign]

    def live_again() -> Client:
        del site.handle
        for input in waiting:
            site.handle(input)
        return dead

    return here, live_again


@pytest.mark.parametrize("is_settling", [False, True])
def test_a_qos_1_message_does_not_wait_for_a_silent_broker(
    network: Network, is_settling: bool
) -> None:
    """Whether it is on a disk on the way, or still in a link."""
    here, _ = one_that_is_dead(network)
    network.is_settling = is_settling
    publisher = network["B1"].connect("p")
    for number in range(20):
        publisher.send(Publish("jobs/1", b"%d" % number, 1, packet_id=number + 1))
    assert len(here.take_payloads()) < 20
    network.after(8)
    assert len(publisher.take()) == (20 if is_settling else 0)
    network.is_settling = True
    for site in network.sites.values():
        unsettled, site.unsettled = site.unsettled, []
        site.settle(unsettled)
    network.after(0.1)
    assert is_settling or len(publisher.take()) == 20


@pytest.mark.parametrize("settled_s", [0, 55])
def test_a_qos_2_message_waits_for_a_silent_broker_once(network: Network, settled_s: int) -> None:
    """It must not wait until the broker is given up, and as long again."""
    here, _ = one_that_is_dead(network)
    network.is_settling = not settled_s
    publisher = network["B1"].connect("p")
    for number in range(20):
        publisher.send(Publish("jobs/1", b"%d" % number, 2, packet_id=number + 1))
    first = here.take_payloads()
    network.after(settled_s)
    network.is_settling = True
    for site in network.sites.values():
        unsettled, site.unsettled = site.unsettled, []
        site.settle(unsettled)
    network.after(58 - settled_s)
    assert here.take_payloads() == []
    network.after(5)
    assert len({*first, *here.take_payloads()}) == 20
    assert len(publisher.take()) == 20


def test_a_qos_2_message_does_not_wait_for_a_broker_that_has_left(network: Network) -> None:
    here, _ = one_that_is_dead(network)
    publisher = network["B1"].connect("p")
    for number in range(20):
        publisher.send(Publish("jobs/1", b"%d" % number, 2, packet_id=number + 1))
    first = here.take_payloads()
    assert len(first) < 20
    for name in ("B1", "B2"):
        federation = network[name].clients.federation
        assert federation is not None
        federation.left("B3", network[name].now_us)
    network.after(6)
    assert len({*first, *here.take_payloads()}) == 20
    assert len(publisher.take()) == 20


def test_a_restarted_member_receives_a_qos_2_message_once(network: Network) -> None:
    here, live_again = one_that_is_dead(network)
    publisher = network["B1"].connect("p")
    for number in range(20):
        publisher.send(Publish("jobs/1", b"%d" % number, 2, packet_id=number + 1))
    network.after(30)
    dead = live_again()
    network.after(5)
    assert len(publisher.take()) == 20
    network.after(60)
    assert len(here.take_payloads()) + len(dead.take_payloads()) == 20


def test_empty_groups_are_dropped(network: Network) -> None:
    workers = [worker(network, broker, f"w{broker}") for broker in ("B1", "B3")]
    for each in workers:
        each.disconnect()
    network.after(0.01)
    network.after(30)
    for broker in BROKERS:
        assert not network[broker].clients.federation.sharing.membership._counts
        assert not list(network[broker].clients.front_end.asking)


def test_a_broker_without_connected_members_repeats_its_answer(network: Network) -> None:
    """It was asked twice while down; after its first answer another member has the message."""
    away = worker(network, "B3", "away", **KEPT)
    away.lose()
    site = network["B3"]
    sharing = site.clients.federation.sharing
    assert sharing is not None
    message = PublishedMessage("jobs/1", b"1", publisher="p", published_us=site.now_us, qos=2)
    message.key = ("p", 1)

    def ask(*, is_any: bool) -> None:
        question = shared_of(JOBS, "B1", message, site.now_us, is_any=is_any)
        sharing.on_control(question, site.now_us)
        site.carry_out(site.clients.take_effects())

    ask(is_any=False)
    back = site.connect("away", **KEPT)
    ask(is_any=False)
    assert back.take_payloads() == []
    ask(is_any=True)
    assert back.take_payloads() == [b"1"]


def begin_again(network: Network, broker: str, batches: list[bytes]) -> None:
    """Restart a broker of the network from its journal."""
    site = network[broker]
    site.clients = BrokerClients(broker, site.now_us, limits=site.clients.limits, networked=True)
    assert restore(site.clients, remembered(batches), site.now_us) == []
    site.carry_out(site.clients.take_effects())


class AskedBroker:
    """A broker with a connected or disconnected member, and another broker's questions to it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.site = network["B3"]
        begin_again(network, "B3", [])
        self.batches: list[bytes] = []
        self.member = self.site.connect("member", **KEPT)
        self.member.subscribe(JOBS, qos=2)

    def ask(
        self, number: int = 1, *, group: str = JOBS, is_any: bool = True, open_from: int = 0
    ) -> None:
        message = PublishedMessage("jobs/1", b"%d" % number, publisher="p", published_us=0, qos=2)
        message.key = ("p", number)
        question = shared_of(
            group, "B1", message, self.site.now_us, is_any=is_any, open_from=open_from
        )
        self.receive(question)

    def receive(self, control: Any) -> None:
        sharing = self.site.clients.federation.sharing
        assert sharing is not None
        sharing.on_control(control, self.site.now_us)
        self.site.carry_out(self.site.clients.take_effects())

    def is_killed(self, *, restated: bool = False) -> None:
        """Restart it from its journal; its client reconnects."""
        journal = self.site.clients.journal
        assert journal is not None
        if restated:
            journal.take()
            self.batches.clear()
            for _ in self.site.clients.restate():
                pass
        self.batches.append(journal.take())
        self.member.closed = True
        begin_again(self.network, "B3", self.batches)
        self.member = self.site.connect("member", **KEPT)

    @property
    def answers(self) -> int:
        return len(self.site.clients.federation.sharing.taking._answers)


@pytest.mark.parametrize("restated", [False, True])
def test_a_members_message_survives_a_kill(network: Network, restated: bool) -> None:
    """The broker that forwarded it may not have its answer, although the answer is on a disk."""
    asked = AskedBroker(network)
    asked.ask()
    assert asked.member.take_payloads() == [b"1"]
    for _ in range(2):
        asked.is_killed(restated=restated)
        asked.ask()
        assert asked.member.take_payloads() == []


@pytest.mark.parametrize("restated", [False, True])
def test_a_member_of_several_groups_gets_each_groups_copy_after_a_kill(
    network: Network, restated: bool
) -> None:
    """The copy for one group must not stand for the copies of the member's other groups."""
    others = "$share/others/jobs/+"
    asked = AskedBroker(network)
    asked.member.subscribe(others, qos=2)
    asked.member.take()
    asked.member.lose()
    asked.ask()
    asked.is_killed(restated=restated)
    asked.ask()
    asked.ask(group=others)
    assert asked.member.take_payloads() == [b"1"] * 2
    asked.is_killed(restated=restated)
    asked.ask()
    asked.ask(group=others)
    assert asked.member.take_payloads() == []


def test_a_message_refused_before_a_kill_is_refused_after_it(network: Network) -> None:
    """Another member has it by then; repeated questions are still on their way."""
    asked = AskedBroker(network)
    asked.member.lose()
    asked.ask(is_any=False)
    asked.is_killed()
    asked.ask(is_any=False)
    assert asked.member.take_payloads() == []
    asked.ask(2, is_any=False)
    assert asked.member.take_payloads() == [b"2"]


def test_answers_to_ended_questions_are_dropped(network: Network) -> None:
    asked = AskedBroker(network)
    for number in range(1, 6):
        asked.ask(number)
    assert len(asked.member.take_payloads()) == asked.answers == 5
    asked.ask(6, open_from=4)
    assert asked.answers == 3
    asked.receive(Closed("B1", 7))
    assert asked.answers == 0
    asked.ask(5)  # it was on its way
    assert asked.member.take_payloads() == [b"6"]
    asked.is_killed(restated=True)
    assert asked.answers == 0
    asked.ask(6)
    asked.ask(7, open_from=7)
    assert asked.member.take_payloads() == [b"7"]


def test_an_asking_broker_reports_when_nothing_is_open(network: Network) -> None:
    workers = [worker(network, broker, f"w{broker}") for broker in BROKERS]
    publisher = network["B1"].connect("p")
    for number in range(30):
        publisher.publish("jobs/1", b"%d" % number, qos=2)
    takings = [network[name].clients.federation.sharing.taking for name in BROKERS[1:]]
    assert sum(len(each.take_payloads()) for each in workers) == 30
    assert all(0 < len(taking._answers) <= 2 for taking in takings)
    network.after(3)
    assert not any(taking._answers for taking in takings)
