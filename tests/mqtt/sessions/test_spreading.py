"""What is for many is handed out in turns, as if it had been at once."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
    Will,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions.spreading import MOST_AT_ONCE
from tests.examples import at_length, examples
from tests.mqtt import network_house
from tests.mqtt.house import KEPT, Client, House
from tests.mqtt.network_house import Network, Site
from tests.mqtt.remembering import RememberingHouse
from tests.mqtt.sessions.test_fan_out import play
from tests.mqtt.sessions.turns import finish, go_on, payloads, small, turn

MANY = MOST_AT_ONCE + 1_000
FEW = 5


def crowd(house: House, count: int, topic: str = "a", qos: int = 0, **how: object) -> list[Client]:
    clients = [house.connect(f"c{number}", **how) for number in range(count)]
    for client in clients:
        client.subscribe(topic, qos=qos)
    return clients


# --- one turn is bounded ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qos", "topic"),
    [
        (0, "a"),
        (0, "$share/g/a"),
        (1, "a?x>0"),
        *at_length([(1, "a"), (1, "$share/g/a"), (0, "a?x>0")]),
    ],
)
def test_a_turn_hands_it_to_no_more_than_it_allows(qos: int, topic: str) -> None:
    """Whoever pings meanwhile is answered in the next turn."""
    house = House()
    # A group has one member each.
    topics = [topic.replace("/g/", f"/g{number}/") for number in range(MANY)]
    clients = [house.connect(f"c{number}") for number in range(MANY)]
    for client, each in zip(clients, topics, strict=True):
        client.subscribe(each, qos=qos)
    writer = house.connect("w")
    said = Properties(user_properties=(("x", "1"),))
    writer.send(Publish("a", b"x", qos, packet_id=qos, properties=said))
    got = [payloads(client) for client in clients]
    assert sum(map(len, got)) <= MOST_AT_ONCE
    turns = 0
    while house.clients.spreading.is_on:
        writer.send(Pingreq())
        assert writer.take() == [Pingresp()]
        turn(house)
        more = [payloads(client) for client in clients]
        assert sum(map(len, more)) <= MOST_AT_ONCE
        got = [before + after for before, after in zip(got, more, strict=True)]
        turns += 1
    assert turns >= 2
    assert got == [[b"x"]] * MANY
    assert [type(each) for each in writer.take()] == [Puback] * qos


def test_many_together() -> None:
    """Of one read: each client gets them in their order."""
    house = House()
    clients = crowd(house, MANY)
    writer = house.connect("w")
    writer.send(Publish("a", b"1"), Publish("a", b"2"))
    assert sum(len(payloads(client)) for client in clients[MOST_AT_ONCE:]) == 0
    writer.send(Publish("a", b"3"), Subscribe(1, (SubscriptionRequest("a"),)), Publish("a", b"4"))
    finish(house, writer)
    assert [payloads(each) for each in clients[MOST_AT_ONCE:]] == [[b"1", b"2", b"3", b"4"]] * 1_000
    assert payloads(writer) == [b"4"]


# --- as if it had been at once ------------------------------------------------------------------


class InTurns(House):
    """Hands out in turns, between which clients go on; no time passes."""

    chance = Random(0)
    turns = 0

    def after(self, seconds: float) -> None:
        self.clients.spreading.most = self.chance.choice((1, 1, 2, 3))
        some = self.chance.randrange(4) if seconds == 0 else 1_000
        while some and self.clients.spreading.is_on:
            some -= 1
            self.turns += 1
            turn(self)
            for client in list(self._ends.values()):
                go_on(client)
        if not self.clients.spreading.is_on:
            super().after(seconds)


def bit_by_bit(house: House, seed: int) -> None:
    """Whom a message is for takes turns to find out, too; in some, any topic filter is many."""
    subscriptions = house.clients.subscriptions
    if seed % 3:
        subscriptions.quick = 0
    if seed % 3 == 1:
        subscriptions.most_filters = 0


def same(house: House, at_once: list[bytes]) -> bool:
    """Whether readers were written the same.  Who publishes hears so when all have it: of what it
    wants itself the order counts, and of its answers.  Whether anybody wants it they do not say
    where that was not known yet.
    """
    is_known = house.clients.subscriptions.quick > 0

    def of(written: bytes) -> list[list[object]]:
        packets = Decoder(MQTT_5).feed(written)
        if not is_known:
            packets = [
                Puback(each.packet_id) if isinstance(each, Puback) else each for each in packets
            ]
        are_own = [isinstance(each, Publish) for each in packets]
        return [[each for each, is_own in zip(packets, are_own, strict=True) if is_own is kind]
                for kind in (True, False)]  # fmt: skip

    written = [client.written for client in house._ends.values()]
    writers = zip(written[6:], at_once[6:], strict=True)
    return written[:6] == at_once[:6] and all(of(one) == of(other) for one, other in writers)


class SiteInTurns(InTurns, Site):
    """The same in a network."""


@pytest.mark.parametrize("seed", range(examples(40)))
def test_in_turns_or_at_once(seed: int) -> None:
    """Random subscriptions and options, clients that are slow or away, groups."""
    at_once = play(House(), seed, together=False)
    house = InTurns()
    house.chance, house.clients.spreading.most = Random(seed), 1
    bit_by_bit(house, seed)
    play(house, seed, together=bool(seed % 2))
    house.after(1)
    assert house.turns > 20
    assert same(house, at_once)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_in_turns_or_at_once_in_a_network(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine delivers behind it waits."""
    at_once = play(Network("B1", "B2")["B1"], seed, together=False)
    monkeypatch.setattr(network_house, "Site", SiteInTurns)
    site = Network("B1", "B2")["B1"]
    assert isinstance(site, SiteInTurns)
    site.chance, site.clients.spreading.most = Random(seed), 1
    bit_by_bit(site, seed)
    play(site, seed, together=bool(seed % 2))
    site.after(1)
    assert site.turns > 20
    assert same(site, at_once)


# --- who comes and goes meanwhile ---------------------------------------------------------------


def test_who_unsubscribes_subscribes_or_publishes_meanwhile_does_it_behind() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW, qos=1)
    writer, late = house.connect("w"), house.connect("late")
    writer.send(Publish("a", b"1", 1, packet_id=1))
    late.send(Subscribe(1, (SubscriptionRequest("a"),)))
    clients[3].send(Publish("a", b"2"))
    finish(house, *clients, late)
    assert [payloads(each) for each in clients] == [[b"1", b"2"]] * FEW
    assert payloads(late) in ([b"2"], [])


def test_whose_session_ends_meanwhile_gets_nothing_and_keeps_nothing() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW, qos=1)
    writer = house.connect("w")
    writer.send(Publish("a", b"1", 1, packet_id=1))
    turn(house)
    clients[3].lose()
    again = house.open()
    again.send(Connect("c4"))
    finish(house)
    assert clients[4].closed
    assert payloads(clients[2]) == [b"1"]
    assert payloads(again) == []
    for client in clients[:3]:
        client.send(Puback(1))
    assert house.clients.backlog.bytes == 0


def test_who_loses_its_connection_meanwhile_finds_it() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW, qos=1, **KEPT)
    house.connect("w").send(Publish("a", b"1", 1, packet_id=1))
    turn(house)
    clients[3].lose()
    turn(house)
    finish(house)
    assert payloads(house.connect("c3", **KEPT)) == [b"1"]


def test_a_group_whose_member_goes_meanwhile_has_others() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW, qos=1)
    members = [house.connect(f"m{number}") for number in range(2)]
    for member in members:
        member.subscribe("$share/g/a", qos=1)
    house.connect("w").send(Publish("a", b"1", 1, packet_id=1))
    members[0].lose()
    finish(house)
    assert payloads(members[1]) == [b"1"]
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


def test_a_will_comes_behind() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW, qos=1)
    writer = house.connect("w", will=Will("a", b"2", 1))
    writer.send(Publish("a", b"1", 1, packet_id=1))
    turn(house)
    writer.lose()
    finish(house)
    assert [payloads(each) for each in clients] == [[b"1", b"2"]] * FEW


def test_a_broker_that_shuts_down_hands_it_out_first() -> None:
    house = small(House(), 1)
    clients = crowd(house, FEW)
    house.connect("w").send(Publish("a", b"1"))
    house.carry_out(house.clients.shut_down(house.now_us))
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


def test_the_answer_comes_when_all_have_it() -> None:
    house = small(House(), 2)
    clients = crowd(house, FEW, qos=2)
    writer = house.connect("w")
    writer.send(Publish("a", b"1", 2, packet_id=7))
    while not writer.take():
        assert house.clients.spreading.is_on
        turn(house)
    assert [payloads(each) for each in clients] == [[b"1"]] * FEW


# --- a broker that is killed --------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(FEW + 2))
@pytest.mark.parametrize("acknowledged", [False, True])
def test_who_had_it_before_a_kill_does_not_get_it_again(turns: int, acknowledged: bool) -> None:
    """And who had not gets it, whether or not the publisher sends it again."""
    house = RememberingHouse([])
    small(house, 1)
    clients = crowd(house, FEW, qos=2, **KEPT)
    member = house.connect("m", **KEPT)
    member.subscribe("$share/g/a", qos=2)
    member.subscribe("$share/h/a", qos=2)
    writer = house.connect("w", **KEPT)
    writer.send(Publish("a", b"1", 2, packet_id=7))
    got: dict[str, list[bytes]] = defaultdict(list)

    def take(name: str, client: Client) -> None:
        found = [each for each in client.take() if isinstance(each, Publish)]
        got[name] += [each.payload for each in found if not each.duplicate]
        if acknowledged:
            for each in found:
                client.send(Pubrec(each.packet_id), Pubrel(each.packet_id))

    for _ in range(turns):
        if house.clients.spreading.is_on:
            turn(house)
        for number, client in enumerate(clients):
            take(f"c{number}", client)
        take("m", member)
    house = house.killed()
    small(house, 1)
    if house.clients.spreading.is_on:
        turn(house)
        house = house.killed()
    house.after(1)
    again = house.connect("w", **KEPT)
    again.send(Publish("a", b"1", 2, True, packet_id=7))
    finish(house, again)
    for number in range(FEW):
        client = house.connect(f"c{number}", **KEPT)
        take(f"c{number}", client)
    take("m", house.connect("m", **KEPT))
    assert got == {**{f"c{number}": [b"1"] for number in range(FEW)}, "m": [b"1", b"1"]}


def test_it_is_written_once_and_forgotten_when_it_is_through() -> None:
    house = RememberingHouse([])
    small(house, 1)
    crowd(house, FEW, qos=1, properties=Properties(session_expiry_interval_s=100))
    house.connect("w").send(Publish("a", b"1", 1, packet_id=7))
    finish(house)
    assert not house.killed().clients.spreading.is_on
