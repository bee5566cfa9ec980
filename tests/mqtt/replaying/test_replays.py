"""Late subscribers of a network with logs: the past of all brokers, and then live."""

from __future__ import annotations

from random import Random

from shoal.mqtt.codec.packets import Connect, Publish
from shoal.mqtt.codec.properties import Properties
from tests.seeds.pasts.random_pasts import LateSubscriber
from tests.seeds.sessions.random_sessions import Publisher
from tests.seeds.sessions.session_network import Network


def network(brokers: int = 3) -> Network:
    made = Network(Random(1), brokers)
    made.settle(3)
    return made


def publishers_of(network: Network) -> list[Publisher]:
    """A publisher at each broker."""
    publishers = {name: Publisher(network, f"p-{name}", name) for name in network.names}
    for publisher in publishers.values():
        publisher.go_to(publisher.home)
    network.settle(1)
    for publisher in publishers.values():
        publisher.look()
    return list(publishers.values())


def publish(network: Network, publishers: list[Publisher], times: int) -> list[bytes]:
    sent = []
    for number in range(times):
        publisher = publishers[number % len(publishers)]
        publisher.publish(1)
        sent.append(publisher.sent[publisher.count][0])
        network.settle(0.1)
        for each in publishers:
            each.look()
    return sent


def settle(network: Network, late: LateSubscriber, seconds: float) -> None:
    for _ in range(round(seconds / 0.1)):
        network.settle(0.1)
        late.look()


def test_the_past_of_all_brokers_comes_in_order_and_then_live() -> None:
    made = network()
    publishers = publishers_of(made)
    sent = publish(made, publishers, 30)
    late = LateSubscriber(made, "late")
    late.go_to("B1")
    settle(made, late, 5)
    assert [payload for payload, _ in late.taken] == sent
    assert not list(made.sites["B1"].clients.replays)
    sent += publish(made, publishers, 9)
    settle(made, late, 1)
    assert [payload for payload, _ in late.taken] == sent


def test_publications_during_the_past_come_once_and_in_order() -> None:
    made = network()
    publishers = publishers_of(made)
    sent = publish(made, publishers, 60)
    late = LateSubscriber(made, "late")
    late.go_to("B1")
    for _ in range(30):
        sent += publish(made, publishers, 3)
        late.look()
    settle(made, late, 3)
    assert [payload for payload, _ in late.taken] == sent
    assert not list(made.sites["B1"].clients.replays)


def test_content_is_chosen_at_the_brokers_of_the_logs() -> None:
    made = network()
    publishers_of(made)
    home = made.sites["B0"].open()
    home.send(Connect("p"))
    made.settle(1)
    for number in range(10):
        properties = Properties(user_properties=(("x", str(number)),))
        home.send(Publish("a", b"%d" % number, 1, packet_id=1 + number, properties=properties))
    made.settle(1)
    late = LateSubscriber(made, "late", "a?x>6")
    late.go_to("B1")
    settle(made, late, 5)
    assert late.taken == [(b"7", 1), (b"8", 1), (b"9", 1)]


def test_the_session_takes_its_past_to_another_broker() -> None:
    """The client moves in the middle of the past, by a window of two messages, several times."""
    made = network()
    publishers = publishers_of(made)
    sent = publish(made, publishers, 60)
    late = LateSubscriber(made, "late", receive_maximum=2)
    for turn in range(12):
        late.go_to(made.names[turn % 3])
        settle(made, late, 2)
        sent += publish(made, publishers, 1)
    settle(made, late, 30)
    assert [payload for payload, _ in late.taken] == sent


def test_a_broker_that_is_away_is_waited_for() -> None:
    made = network()
    publishers = publishers_of(made)
    sent = publish(made, publishers, 30)
    made.kill("B2")
    late = LateSubscriber(made, "late")
    late.go_to("B1")
    settle(made, late, 30)
    (status,) = made.sites["B1"].clients.replays.status
    assert status["waits_for"] == ["B2"]
    made.start("B2")
    settle(made, late, 10)
    assert [payload for payload, _ in late.taken] == sent
    assert late.gaps == []


def test_a_broker_that_stays_away_is_given_up_and_named() -> None:
    made = network()
    publishers = publishers_of(made)
    publish(made, publishers, 30)
    made.kill("B2")
    late = LateSubscriber(made, "late")
    late.go_to("B1")
    settle(made, late, 70)
    found = [payload for payload, _ in late.taken]
    assert found == [payload for payload in found if not payload.startswith(b"p-B2")]
    assert len(found) == 20
    (gap,) = late.gaps
    assert gap.startswith("B2: its publications since ")
    assert "it has not answered for 60 s" in gap
    # What it publishes when it is back is live.
    made.start("B2")
    made.settle(15)
    late.look()
    publishers[2].go_to("B2")
    made.settle(2)
    publishers[2].look()
    last = publish(made, [publishers[2]], 1)
    settle(made, late, 15)
    assert [payload for payload, _ in late.taken] == [*found, *last]


def test_a_broker_without_a_log_is_live_from_the_begin() -> None:
    made = network()
    for site in made.sites.values():
        site.clients.replays.brokers = lambda: ["B0", "B1"]
    publishers = publishers_of(made)
    sent = publish(made, publishers, 30)
    late = LateSubscriber(made, "late")
    late.go_to("B1")
    settle(made, late, 5)
    sent = [payload for payload in sent if not payload.startswith(b"p-B2")]
    sent += publish(made, publishers, 6)
    settle(made, late, 2)
    assert [payload for payload, _ in late.taken] == sent
