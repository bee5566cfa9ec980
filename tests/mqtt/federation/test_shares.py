"""Open messages for groups: when they are checked, and which member is next."""

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
from tests.examples import one_in
from tests.mqtt.network_broker_api import Network

GROUP = "$share/g/jobs"
OPEN = 100


def without_an_answer(qos: int) -> Network:
    """A group with a member at B2 only, which answers nothing."""
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
def test_messages_not_yet_late_are_not_read(qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of all open messages each second would take 0.1 s for 300,000."""
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
    assert len(looked) == (OPEN if qos == 1 else 0)  # there is no other member


def test_late_messages_are_checked_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_later_member_gets_unanswered_messages() -> None:
    network = without_an_answer(1)
    network.after(8)
    other = network["B1"].connect("other")
    other.send(Subscribe(1, (SubscriptionRequest(GROUP, qos=1),)))
    network.after(7)
    packets = other.take()
    assert len([each for each in packets if isinstance(each, Publish)]) == OPEN


def members(random: Random) -> tuple[FederationMembership, dict[str, tuple[int, int]]]:
    """Random numbers of a group's members at some brokers; lost and announced again at random."""
    network = Network("B1")
    federation = network["B1"].clients.federation
    assert federation is not None
    found, counts = federation.sharing.membership, {}
    for at_us in range(random.randrange(30)):
        broker = f"B{random.randrange(2, 12)}"
        if found.members_of(GROUP):
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


@pytest.mark.parametrize("seed", one_in(6, range(60)))
def test_members_take_turns_by_their_number_at_each_broker(seed: int) -> None:
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


def test_a_groups_brokers_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting for each message would take 0.2 ms at 1,000 brokers."""
    sorted_: list[int] = []

    class CountingBrokers(module._Turns):
        def __init__(self, counts: Any) -> None:
            sorted_.append(len(counts))
            super().__init__(counts)

    monkeypatch.setattr(module, "_Turns", CountingBrokers)
    network = without_an_answer(1)
    assert sorted_ == [1]
    network["B1"].connect("other").send(Subscribe(1, (SubscriptionRequest(GROUP, qos=1),)))
    network.after(0.1)
    network["B1"].connect("q").send(Publish("jobs", b"", 1, packet_id=1))
    network["B1"].connect("r").send(Publish("jobs", b"", 1, packet_id=1))
    assert sorted_ == [1, 2]


def test_nothing_is_kept_of_an_ended_group() -> None:
    found, _ = members(Random(1))
    assert found.choose("$share/none/a", 1, is_any=True) is None
    assert "$share/none/a" not in found._turns
    for broker in tuple(found.members_of(GROUP)):
        found.lose(broker, GROUP)
    assert not found._turns
