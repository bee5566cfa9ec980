"""Which messages for groups are looked at, and how it is found out whose turn it is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shoal.mqtt.codec.packets import Publish, Subscribe, SubscriptionRequest
from shoal.mqtt.federation import membership as module
from shoal.mqtt.federation.controls import FederationMembers
from shoal.mqtt.federation.membership import FederationMembership
from shoal.mqtt.federation.sharing import LOOKED_PER_WORK, Sharing
from shoal.mqtt.limits import MICROSECONDS
from tests.mqtt.network_broker_api import Network

GROUP = "$share/g/jobs"
OPEN = 100


def without_an_answer(qos: int) -> Network:
    """A group has a member at B2 only, and nothing more comes there."""
    network = Network("B1", "B2")
    network["B2"].connect("w").subscribe(GROUP, qos=qos)
    network.after(20)
    network.is_slow, network.is_settling = True, False
    publisher = network["B1"].connect("p")
    for number in range(OPEN):
        publisher.send(Publish("jobs", b"%d" % number, qos, packet_id=number + 1))
    return network


def sharing_of(network: Network) -> Sharing:
    federation = network["B1"].clients.federation
    assert federation is not None
    return federation.sharing


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_not_late_is_not_looked_at(qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was open was looked at each second: 0.1 s for 300,000."""
    network = without_an_answer(qos)
    sharing = sharing_of(network)
    looked: list[int] = []
    is_too_late = Sharing._is_too_late

    def count(self: Sharing, share: Any, now_us: int) -> bool:
        looked.append(now_us)
        return is_too_late(self, share, now_us)

    monkeypatch.setattr(Sharing, "_is_too_late", count)
    network.after(4)
    assert len(sharing._open) == OPEN
    assert not looked
    network.after(5)
    assert len(looked) == (OPEN if qos == 1 else 0)  # nobody else is there


def test_what_is_late_is_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    network = without_an_answer(1)
    monkeypatch.setattr("shoal.mqtt.federation.time_slices.MOST_AT_ONCE", 1)
    site, sharing = network["B1"], sharing_of(network)
    looked = [0]
    has_others = Sharing._has_others

    def count(self: Sharing, share: Any) -> bool:
        looked[0] += 1
        return has_others(self, share)

    monkeypatch.setattr(Sharing, "_has_others", count)
    end_us = site.now_us + 8 * MICROSECONDS
    while (deadline_us := site.clients.deadline_us) is not None and deadline_us <= end_us:
        before, site.now_us = looked[0], max(site.now_us, deadline_us)
        site.carry_out(site.clients.advance(site.now_us))
        assert looked[0] - before <= LOOKED_PER_WORK
    assert looked[0] == OPEN
    assert len(sharing._open) == OPEN


def test_who_comes_later_gets_what_nobody_answers_for() -> None:
    network = without_an_answer(1)
    network.after(8)
    other = network["B1"].connect("other")
    other.send(Subscribe(1, (SubscriptionRequest(GROUP, qos=1),)))
    network.after(7)
    packets = other.take()
    assert len([each for each in packets if isinstance(each, Publish)]) == OPEN


def members(random: Random) -> tuple[FederationMembership, dict[str, tuple[int, int]]]:
    """Random numbers of a group's members, at some brokers; lost and told again at random."""
    network = Network("B1")
    federation = network["B1"].clients.federation
    assert federation is not None
    found, counts = federation.sharing.membership, {}
    for at_us in range(random.randrange(30)):
        broker = f"B{random.randrange(2, 12)}"
        if found.of(GROUP):
            found.choose(GROUP, 7, is_any=True)
        match random.randrange(6):
            case 0:
                found.lose(broker, GROUP)
                counts.pop(broker, None)
            case 1:
                found.lose_present(broker, GROUP)
                if broker in counts:
                    counts[broker] = (0, counts[broker][1])
            case _:
                present = random.randrange(3)
                counts[broker] = present, present + random.randrange(1, 3)
                found.learn(FederationMembers(broker, GROUP, at_us, *counts[broker], ""))
    return found, counts


@pytest.mark.parametrize("seed", range(60))
def test_turns_go_round_by_how_many_members_each_broker_has(seed: int) -> None:
    random = Random(seed)
    found, counts = members(random)
    tried = {(broker, random.random() < 0.5) for broker in counts if random.random() < 0.3}
    for is_any in (False, True):
        turns = [
            broker
            for broker, count in sorted(counts.items())
            if (broker, is_any) not in tried
            for _ in range(count[is_any])
        ]
        for number in range(40):
            expected = turns[number % len(turns)] if turns else None
            assert found.choose(GROUP, number, tried, is_any=is_any) == expected


def test_the_brokers_of_a_group_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each message they were: 0.2 ms at 1,000 brokers."""
    sorted_: list[int] = []

    class Counting(module._Turns):
        def __init__(self, counts: Any) -> None:
            sorted_.append(len(counts))
            super().__init__(counts)

    monkeypatch.setattr(module, "_Turns", Counting)
    network = without_an_answer(1)
    assert sorted_ == [1]
    network["B1"].connect("other").send(Subscribe(1, (SubscriptionRequest(GROUP, qos=1),)))
    network.after(0.1)
    network["B1"].connect("q").send(Publish("jobs", b"", 1, packet_id=1))
    network["B1"].connect("r").send(Publish("jobs", b"", 1, packet_id=1))
    assert sorted_ == [1, 2]


def test_of_a_group_that_is_not_there_nothing_is_kept() -> None:
    found, _ = members(Random(1))
    assert found.choose("$share/none/a", 1, is_any=True) is None
    assert "$share/none/a" not in found._turns
    for broker in tuple(found.of(GROUP)):
        found.lose(broker, GROUP)
    assert not found._turns
