"""A front end's publishers as transcripts: requests to brokers, wherever they publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from shoal.broker.effects import Record
from shoal.broker.messages import Advertise, Message, Pong, Publish, Unadvertise
from shoal.clients.forwarding_channel_messages import ClientRequest
from shoal.clients.messages import PingRequest, Relocate, Resume
from shoal.clients.publisher import MOVE_TIMEOUT_US, Publisher
from shoal.clients.records import MigrationRecord
from shoal.model import MessageId
from shoal.mqtt.front_end.deduplication import OrderedDeduplication
from shoal.mqtt.front_end.publishers import (
    MAX_HELD_BACK,
    AskBroker,
    FrontEndEffect,
    FrontEndPublishers,
)
from tests.broker.transcript import advertisement, publish

Happens = Callable[[FrontEndPublishers, str, Sequence[ClientRequest], int], list[FrontEndEffect]]

START_US = 1_000
PATH = ("B1", "B2", "B3")
A = advertisement("a")


def attached() -> FrontEndPublishers:
    publishers = FrontEndPublishers("B1")
    publishers.request("P", Advertise(A), START_US)
    return publishers


def moved() -> FrontEndPublishers:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    publishers.notified("B3", "P", Resume(START_US + 1, True), 3_000)
    return publishers


def requests_of(effects: list[FrontEndEffect]) -> list[tuple[str, str]]:
    return [
        (each.broker, type(each.request).__name__)
        for each in effects
        if isinstance(each, AskBroker)
    ]


def published(effects: list[FrontEndEffect]) -> list[tuple[str, int]]:
    return [
        (each.broker, publication.sequence)
        for each in effects
        if isinstance(each, AskBroker) and isinstance(each.request, Publish)
        for publication in each.request.publications
    ]


def ask(
    publishers: FrontEndPublishers, request: Message, now_us: int = 5_000
) -> list[FrontEndEffect]:
    return publishers.request("P", request, now_us)


def test_a_client_is_a_publisher_while_it_advertises() -> None:
    publishers = FrontEndPublishers("B1")
    assert requests_of(ask(publishers, Advertise(A))) == [("B1", "Advertise")]
    assert requests_of(ask(publishers, Advertise(advertisement("b")))) == [("B1", "Advertise")]
    assert published(ask(publishers, publish(1))) == [("B1", 1)]
    assert requests_of(ask(publishers, Unadvertise("a"))) == [("B1", "Unadvertise")]
    assert requests_of(ask(publishers, Unadvertise("b"))) == [("B1", "Goodbye")]
    assert "P" not in publishers
    assert publishers.notified("B1", "P", Relocate(PATH), 6_000) == []


def test_it_publishes_where_it_was_moved_and_leaves_there() -> None:
    publishers = attached()
    to_target = publishers.notified("B1", "P", Relocate(PATH), 2_000)
    assert requests_of(to_target) == [("B1", "Paused"), ("B3", "MigrationAdvertisement")]
    assert publishers.uses("B1")
    assert publishers.uses("B3")
    assert ask(publishers, publish(1)) == []
    assert ask(publishers, publish(2)) == []
    effects = publishers.notified("B3", "P", Resume(START_US + 1, True), 3_000)
    assert published(effects) == [("B3", 1), ("B3", 2)]
    (row,) = [each.record for each in effects if isinstance(each, Record)]
    assert isinstance(row, MigrationRecord)
    assert not publishers.uses("B1")
    assert requests_of(ask(publishers, Unadvertise("a"))) == [("B3", "Goodbye")]


def test_pings_go_to_each_broker_and_the_times_where_it_publishes() -> None:
    publishers = moved()
    session = MessageId("B3", "P", 7)
    effects = publishers.notified("B3", "P", PingRequest(session, ("B1", "B2")), 4_000)
    assert requests_of(effects) == [("B1", "Ping"), ("B2", "Ping")]
    publishers.notified("B1", "P", Pong(session), 4_010)
    effects = publishers.notified("B2", "P", Pong(session), 4_700)
    (asked,) = effects
    assert isinstance(asked, AskBroker)
    assert asked.broker == "B3"
    assert asked.request.round_trip_us == {"B1": 10, "B2": 700}  # type: ignore[attr-defined]


def test_a_publisher_on_its_way_to_a_lost_broker_turns_back() -> None:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    ask(publishers, publish(1))
    assert requests_of(publishers.lost("B2", 2_500)) == []
    back = publishers.lost("B3", 3_000)
    assert requests_of(back) == [("B3", "Paused"), ("B1", "MigrationAdvertisement")]
    resumed = publishers.notified("B1", "P", Resume(START_US + 2, False), 4_000)
    assert published(resumed) == [("B1", 1)]


def test_a_move_that_takes_too_long_turns_back() -> None:
    publishers = attached()
    assert publishers.deadline_us is None
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    deadline_us = publishers.deadline_us
    assert deadline_us == 2_000 + MOVE_TIMEOUT_US
    assert publishers.advance(deadline_us - 1) == []
    effects = publishers.advance(deadline_us)
    assert requests_of(effects) == [("B3", "Paused"), ("B1", "MigrationAdvertisement")]


def test_a_client_that_leaves_while_its_publisher_moves_leaves_nothing_behind() -> None:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    ask(publishers, publish(1))
    assert ask(publishers, Unadvertise("a")) == []
    effects = publishers.notified("B3", "P", Resume(START_US + 1, True), 3_000)
    assert requests_of(effects) == [("B3", "Publish"), ("B3", "Goodbye")]
    assert "P" not in publishers


def test_a_client_that_returns_before_its_publisher_moved_continues() -> None:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    ask(publishers, Unadvertise("a"))
    ask(publishers, Advertise(A))
    effects = publishers.notified("B3", "P", Resume(START_US + 1, True), 3_000)
    assert requests_of(effects) == [("B3", "Advertise")]
    assert "P" in publishers


def test_a_publisher_at_a_restarted_broker_comes_home() -> None:
    publishers = moved()
    missing = (ClientRequest("P", publish(5)), ClientRequest("Q", publish(9)))
    effects = publishers.forgotten("B3", missing, 6_000)
    assert requests_of(effects) == [("B1", "Advertise"), ("B1", "Publish")]
    assert published(effects) == [("B1", 5)]


def test_a_publisher_on_its_way_to_a_restarted_broker_turns_back() -> None:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    effects = publishers.forgotten("B3", (), 3_000)
    assert requests_of(effects) == [("B3", "Paused"), ("B1", "MigrationAdvertisement")]


def test_a_stranded_publisher_comes_home_with_its_unhandled_requests() -> None:
    publishers = moved()
    missing = (ClientRequest("P", publish(5)), ClientRequest("P", publish(6)))
    effects = publishers.stranded("B3", missing, 6_000)
    assert requests_of(effects)[0] == ("B1", "Advertise")
    assert published(effects) == [("B1", 5), ("B1", 6)]
    (advertised,) = [
        each.request
        for each in effects
        if isinstance(each, AskBroker) and isinstance(each.request, Advertise)
    ]
    assert advertised.moves > START_US + 1
    assert published(ask(publishers, publish(7))) == [("B1", 7)]
    assert publishers.stranded("B2", (), 7_000) == []


def test_a_publisher_on_its_way_to_a_stranded_broker_continues_at_home() -> None:
    publishers = attached()
    publishers.notified("B1", "P", Relocate(PATH), 2_000)
    ask(publishers, publish(1))
    publishers.lost("B3", 3_000)
    effects = publishers.stranded("B3", (), 9_000)
    assert requests_of(effects) == [("B1", "Advertise"), ("B1", "Publish")]


def test_a_publisher_between_other_brokers_comes_home_when_one_strands() -> None:
    publishers = moved()
    publishers.notified("B3", "P", Relocate(("B3", "B4")), 4_000)
    ask(publishers, publish(8))
    publishers.lost("B4", 4_500)
    effects = publishers.stranded("B4", (), 5_000)
    assert requests_of(effects) == [("B1", "Advertise"), ("B1", "Publish")]
    assert publishers.notified("B3", "P", Resume(START_US + 3, False), 6_000) == []


def test_unhandled_requests_precede_held_ones() -> None:
    publishers = moved()
    publishers.notified("B3", "P", Relocate(("B3", "B4")), 4_000)
    ask(publishers, publish(8))
    missing = (ClientRequest("P", publish(7)),)
    assert published(publishers.stranded("B3", missing, 5_000)) == [("B1", 7), ("B1", 8)]


def test_a_publisher_elsewhere_repeats_a_stranded_brokers_unhandled_requests() -> None:
    publishers = moved()
    publishers.notified("B3", "P", Relocate(("B3", "B4")), 4_000)
    publishers.lost("B3", 4_500)
    publishers.notified("B4", "P", Resume(START_US + 2, False), 4_600)
    missing = (ClientRequest("P", publish(7)),)
    assert published(publishers.stranded("B3", missing, 5_000)) == [("B4", 7)]


def test_a_client_waits_while_too_much_is_held_or_the_channel_is_full() -> None:
    publishers = moved()
    assert not publishers.must_wait("P")
    publishers.filled("B3", True)
    assert publishers.must_wait("P")
    assert not publishers.must_wait("Q")
    publishers.filled("B3", False)
    assert not publishers.must_wait("P")
    publishers.notified("B3", "P", Relocate(("B3", "B1")), 4_000)
    for number in range(MAX_HELD_BACK):
        assert not publishers.must_wait("P")
        ask(publishers, publish(number))
    assert publishers.must_wait("P")
    publishers.notified("B1", "P", Resume(START_US + 2, True), 5_000)
    assert not publishers.must_wait("P")


def test_only_repeated_requests_can_be_duplicates() -> None:
    publishers = moved()
    missing = (ClientRequest("P", publish(5)), ClientRequest("P", publish(6)))
    again = [
        publication
        for each in publishers.stranded("B3", missing, 6_000)
        if isinstance(each, AskBroker) and isinstance(each.request, Publish)
        for publication in each.request.publications
    ]
    (fifth,) = publish(5).publications
    repeats = OrderedDeduplication({})
    assert repeats.take(fifth)
    assert repeats.take(fifth)  # without the mark nothing is looked up
    assert [repeats.take(publication) for publication in again] == [False, True]


class Requests(list[ClientRequest]):
    """Counts iterations."""

    looked = 0

    def __iter__(self) -> Iterator[ClientRequest]:
        self.looked += 1
        return super().__iter__()


@pytest.mark.parametrize("happens", [FrontEndPublishers.stranded, FrontEndPublishers.forgotten])
def test_a_brokers_requests_are_searched_once(happens: Happens) -> None:
    """A search for each of 10,000 publishers in 1,000 requests would take 0.25 s."""
    publishers = moved()
    for number in range(10):
        publishers.request(f"c{number}", Advertise(A), START_US)
    requests = Requests(ClientRequest(f"c{number % 10}", publish(number)) for number in range(20))
    requests.append(ClientRequest("P", publish(20)))
    effects = happens(publishers, "B3", requests, 6_000)
    assert requests.looked == 1
    assert sorted(published(effects)) == [("B1", number) for number in range(21)]
    by_client = [
        [publication.sequence for publication in each.request.publications]
        for each in effects
        if isinstance(each, AskBroker) and each.client == "c3" and isinstance(each.request, Publish)
    ]
    assert by_client == [[3], [13]]


def test_only_a_lost_brokers_publishers_are_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    publishers = moved()
    for number in range(10):
        publishers.request(f"c{number}", Advertise(A), START_US)
    heard: list[str] = []
    lost = Publisher.lost
    monkeypatch.setattr(
        Publisher, "lost", lambda self, *about: [heard.append(self.client), *lost(self, *about)][1:]
    )
    publishers.lost("B3", 7_000)
    assert heard == ["P"]


def test_publishers_places_are_right_after_random_events() -> None:
    random = Random(1)
    publishers = FrontEndPublishers("B1")
    brokers = ("B1", "B2", "B3", "B4")
    seen_moving = 0
    for now_us in range(1, 3_000):
        client, broker = f"c{random.randrange(6)}", random.choice(brokers)
        of = {each.client: each for each in publishers}.get(client)
        match random.randrange(8):
            case 0 | 1:
                publishers.request(client, Advertise(A), now_us)
            case 2:
                publishers.request(client, Unadvertise("a"), now_us)
            case 3 if of is not None and broker != of.broker:
                publishers.notified(of.broker, client, Relocate((of.broker, broker)), now_us)
            case 4 if of is not None:
                resume = Resume(of._moves, random.random() < 0.7)
                publishers.notified(of.brokers[-1], client, resume, now_us)
            case 5:
                publishers.lost(broker, now_us)
            case 6:
                happens = random.choice((publishers.forgotten, publishers.stranded))
                happens(broker, (ClientRequest(client, publish(now_us)),), now_us)
            case _:
                publishers.advance(now_us + random.choice((0, 2 * MOVE_TIMEOUT_US)))
        seen_moving += any(each.moving for each in publishers)
        for name in brokers:
            there = {each.client for each in publishers if name in each.brokers}
            assert set(publishers.those_at(name)) == there
            assert publishers.uses(name) == bool(there)
    assert seen_moving > 100
