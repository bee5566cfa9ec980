"""Well-formed controls of a broker with impossible content.

Extreme numbers, unknown clients and transfers, contradictions: nothing is raised, no message takes
long, and clients are served as before.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from shoal.log.slices import LogPlace, LogSlice
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation import controls as said
from shoal.mqtt.federation.controls import Control, encode_control
from tests.calls import Calls
from tests.mqtt.network_broker_api import Network

KEPT = Properties(session_expiry_interval_s=1_000)
HUGE, LOW = 2**62, -(2**62)
# One client of c that others may know, and an unknown one.
TRANSFERS = (("c", HUGE), ("c", 0), ("c", LOW), ("nobody", 5))


def words() -> list[Control]:
    """Several examples of each kind."""
    found: list[Control] = []
    for transfer in TRANSFERS:
        client_id, at_us = transfer
        for broker in ("B1", "B2", "B9", ""):
            found += [
                said.Entered(client_id, broker, at_us, True, asked, "u", LOW)
                for asked in (None, "B1", "B9")
            ]
            found += [
                said.Entered(client_id, broker, at_us, False, None, registered=True),
                said.Register(said.Entered(client_id, broker, at_us, False, None)),
                said.OwnersKnown((said.Entered(client_id, broker, at_us, True, "B1"),), (broker,)),
                said.OwnersSought((broker,), "B2"),
                said.Ended(client_id, broker),
                said.Sought((client_id,) * 1_000, broker),
                said.EarlierSettled(transfer, broker, False),
                said.Offer(transfer, broker),
                said.TransferInquiry(transfer, broker),
                said.TransferDeclined(transfer, broker),
                said.SessionDeparted(transfer, broker),
                said.Vacated(client_id, broker, at_us, "u", LOW, HUGE, None),
                said.Coming(client_id, broker, at_us, "u", (HUGE, LOW) * 100),
                said.FederationWelcome(client_id, broker),
            ]
        found += [
            said.ClientNotOwner(transfer),
            said.SessionAdopted(transfer),
            said.TransferComplete(transfer),
            said.SessionState(transfer, True, HUGE, HUGE, (0, 70_000, -1), "u", LOW, HUGE),
            said.SessionState(transfer, True, -1, -1, had={"": LOW}, heard={"x": HUGE}),
            said.SessionState(transfer, False, 1, 0),
            said.SessionPart(transfer, (), (("p", HUGE), ("", LOW)) * 100),
            said.Item(
                transfer, b"no packet", LOW, LOW, ("p", HUGE), 2, True, (), 65_535, True, HUGE
            ),
            said.SessionTakeOver("c", HUGE, "B9", "", 2**60),
            said.SessionTakeOver("c", LOW, "B1", "another"),
            said.SessionTakeOver("c", HUGE, "B9", "", 0, HUGE),
            said.AskedThere(transfer, "B9"),
            said.TakenOver(transfer),
            said.Item(transfer, b"", HUGE, HUGE, None, 0, False, (), 0, True),
        ]
    for broker in ("B1", "B2", "B9", ""):
        found += [
            said.Several((said.Ended("c", broker),) * 256, broker, 2**60, 2**60),
            said.Several((), broker, 0, 2**60),
            said.Several((), broker, 5, 1),
            said.FederationHello(broker),
            said.Rejoined(broker),
            said.Here(broker, HUGE),
            said.Here(broker, -1),
            said.Tell(broker),
            said.AllTold(broker),
            said.Mark(broker),
            said.Full(broker, True),
            said.FederationMembers(broker, "$share/g/a", HUGE, 2**60, 2**60, ()),
            said.FederationMembers(broker, "no group", LOW, 1, 0, ()),
            said.Shared("$share/g/a", broker, b"no packet", LOW, LOW, ("p", 1), True, HUGE),
            said.Shared("", broker, b"", HUGE, None, None, False, LOW),
            said.Closed(broker, HUGE),
            said.Took(broker, "$share/g/a", ("p", HUGE), True, False),
            said.LogAsked(broker, HUGE, LogPlace(LOW, HUGE), LOW, "#", ""),
            said.LogAsked(broker, 0, None, HUGE, "no/#/filter", ()),
            said.LogTold(broker, HUGE, None, HUGE, "why"),
            said.LogTold(broker, 1, LogSlice(b"no records", LOW, HUGE, LOW, False, HUGE), LOW),
        ]
    return [*found, said.RetainedState(b"no packet", LOW, LOW), said.RetainedState(b"", HUGE, None)]


@pytest.mark.parametrize("seed", range(6))
def test_clients_are_served_whatever_another_broker_sends(seed: int) -> None:
    network = Network("B1", "B2", "B3")
    network.after(20)
    site = network["B1"]
    kept = site.connect("c", properties=KEPT)
    kept.subscribe("$share/g/a", qos=1)
    kept.subscribe("b", qos=1)
    network["B3"].connect("d", properties=KEPT).subscribe("$share/g/a", qos=1)
    network.after(1)
    federation = site.clients.federation
    assert federation is not None
    chance = Random(seed)
    said_of_all = words()
    chance.shuffle(said_of_all)
    for word in said_of_all:
        body = encode_control(word)
        with Calls() as calls:
            federation.on_control(body, site.now_us)
        assert calls.count < 20_000, word
        site.carry_out(site.clients.take_effects())
        if chance.random() < 0.2:
            network.after(chance.choice([0.001, 1, 30]))
    # Waiting clients whose brokers do not answer are given up.
    federation.on_control(encode_control(said.Full("B2", False)), site.now_us)
    for broker in ("B1", "B9", ""):
        federation.on_control(encode_control(said.Full(broker, False)), site.now_us)
    network.after(700)
    subscriber, publisher = site.connect("s"), network["B3"].connect("p")
    subscriber.subscribe("z", qos=1)
    publisher.publish("z", b"x", qos=1)
    network.after(5)
    assert subscriber.take_payloads() == [b"x"]


def test_a_question_does_not_circulate_for_ever() -> None:
    """Two brokers that believe the session at the other must not forward the question for ever."""
    network = Network("B1", "B2", "B3")
    network.after(20)
    for name, other in (("B1", "B2"), ("B2", "B1")):
        federation = network[name].clients.federation
        assert federation is not None
        word = said.Entered("c", other, 5, True, None)
        federation.on_control(encode_control(word), network[name].now_us)
    network.is_slow = True
    federation = network["B1"].clients.federation
    assert federation is not None
    question = said.Entered("c", "B3", 10_000, True, "B1")
    federation.on_control(encode_control(question), network["B1"].now_us)
    network["B1"].carry_out(network["B1"].clients.take_effects())
    chance = Random(1)
    steps = 0
    while network.step(chance):
        steps += 1
        assert steps < 200


@pytest.mark.parametrize("extra", [0, 1])
def test_a_control_about_too_many_clients_is_dropped(extra: int) -> None:
    """200,000 clients in one message of 6 MB would occupy a broker for 0.6 s."""
    count = said.MOST_AT_ONCE + extra
    for control in (
        said.Several((said.Ended("c", "B2"),) * count),
        said.Sought(("c",) * count, "B2"),
        said.OwnersSought(("B1",) * count, "B2"),
    ):
        assert said.decode_control(encode_control(control)) == (None if extra else control)


def test_every_kind_of_control_has_an_example() -> None:
    kinds = {each.__struct_config__.tag for each in words()}
    assert kinds == {kind.__struct_config__.tag for kind in said.Control.__args__}
    assert all(isinstance(each, msgspec.Struct) for each in words())
