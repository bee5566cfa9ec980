"""Tree routing as transcripts: the routes of publications, and refusals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal.broker.messages import (
    Advertise,
    Ping,
    Pong,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.clients.messages import Resume
from shoal.model import And, Filter, MessageId, Operator, Or, predicate
from tests.broker.transcript import advertisement, publication, publish, subscription
from tests.overlays.tree.stages import busy_stage, stage_with_publisher

FIRST_ID = MessageId("B4", "P", 0)


def test_publications_follow_matching_subscriptions() -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "C", Subscribe(subscription("s", "x > 1")))
    stage.ask("B5", "D", Subscribe(subscription("t", "x > 2", client="D")))
    stage.settle()
    stage.take_transcript()
    stage.ask("B4", "P", publish(1, 2, 3))
    stage.settle()
    assert stage.take_transcript() == [
        "B4 -> B2: PublicationBatch P/2 P/3 hops 1",
        "B2 -> B1: PublicationBatch P/2 P/3 hops 2",
        "B2 -> B5: PublicationBatch P/3 hops 2",
        "B1 -> B3: PublicationBatch P/2 P/3 hops 3",
        "B3 : delivered P/2 to C (s)",
        "B3 : delivered P/3 to C (s)",
        "B5 : delivered P/3 to D (t)",
    ]
    assert [effect.hops for _, effect in stage.deliveries] == [3, 3, 2]


def test_one_delivery_names_all_matching_subscriptions_of_the_client() -> None:
    stage = stage_with_publisher()
    for name, text in (("s1", "x > 1"), ("s2", "x > 2"), ("s3", "x > 9")):
        stage.ask("B2", "C", Subscribe(subscription(name, text)))
    stage.ask("B2", "D", Subscribe(subscription("t", client="D")))
    stage.settle()
    stage.take_transcript()
    stage.ask("B4", "P", publish(5))
    stage.settle()
    (to_one,) = [effect for _, effect in stage.deliveries if effect.client == "C"]
    assert sorted(to_one.subscriptions) == ["s1", "s2"]
    assert sorted(effect.client for _, effect in stage.deliveries) == ["C", "D"]


def test_a_publisher_that_subscribes_receives_its_own_publication_once() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", Subscribe(subscription("mine", client="P")), publish(1))
    stage.settle()
    assert stage.delivered() == [(1, "P")]


# --- what is refused --------------------------------------------------------------------------


def test_an_advertisement_known_from_elsewhere_is_refused_explicitly() -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "P", Advertise(advertisement("a")))
    assert stage.refusals() == ["advertisement a is known from B1 already"]
    stage.ask("B3", "P", publish(1))
    assert stage.refusals()[1:] == ["P has not advertised at B3"]


def test_a_message_from_a_neighbour_whose_link_is_down_is_refused() -> None:
    stage, _, _ = busy_stage()
    stage.break_link("B1", "B3")
    stage.settle()
    before = stage.rows()
    for message in (Advertise(advertisement("z")), Subscribe(subscription("z")), Unsubscribe("z")):
        stage.tell("B3", "B1", message)
    assert stage.refusals() == ["B3 is not a neighbour of B1"] * 3
    assert stage.rows() == before


@pytest.mark.parametrize("stranger", ["B3", "nobody", "B4"])
@pytest.mark.parametrize(
    "message",
    [
        Advertise(advertisement("z")),
        Unadvertise("a"),
        Subscribe(subscription("z")),
        Unsubscribe("z"),
        PublicationBatch((RoutedPublication(publication(1), FIRST_ID),), 1),
    ],
)
def test_messages_of_strangers_are_refused(stranger: str, message: Advertise) -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s")))
    before = stage.rows()
    stage.tell(stranger, "B4", message)
    assert stage.refusals() == [f"{stranger} is not a neighbour of B4"]
    assert (stage.take_transcript(), stage.rows()) == ([], before)


@pytest.mark.parametrize("message", [publish(1), Ping(FIRST_ID), Pong(FIRST_ID), Resume(1, True)])
def test_invalid_messages_between_brokers_are_refused(message: Publish) -> None:
    stage = stage_with_publisher()
    stage.tell("B2", "B4", message)
    assert stage.refusals() == [f"{type(message).__name__} is not expected from neighbour B2"]


@pytest.mark.parametrize("request_", [PublicationBatch((), 0), Resume(1, True), Rejected("no")])
def test_invalid_requests_of_a_client_are_refused(request_: PublicationBatch) -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", request_)
    reason = f"{type(request_).__name__} is not expected from client P"
    assert stage.refusals() == [reason]
    assert stage.take_transcript() == [f"B4 => P: Rejected: {reason}"]


def test_changing_others_subscriptions_is_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s")))
    before = stage.rows()
    stage.ask("B4", "Q", Advertise(advertisement("z")), Subscribe(subscription("z")))
    stage.ask("B4", "Q", Unadvertise("a"), Unsubscribe("s"), Unsubscribe("unknown"))
    stage.ask("B4", "Q", Advertise(advertisement("a", publisher="Q")))
    stage.ask("B4", "Q", Subscribe(subscription("s", "x = 1", client="Q")))
    assert stage.refusals() == [
        "advertisement z belongs to P, not to Q",
        "subscription z belongs to C, not to Q",
        "Q has no advertisement a here",
        "Q has no subscription s here",
        "Q has no subscription unknown here",
        "advertisement a belongs to P, not to Q",
        "subscription s belongs to C, not to Q",
    ]
    assert stage.rows() == before
    stage.ask("B3", "C", Unsubscribe("s"))
    assert stage.refusals()[-1] == "C has no subscription s here"


def test_a_filter_too_large_to_route_by_is_refused() -> None:
    pairs = [
        Or((predicate(f"a{n}", Operator.EQ, 1), predicate(f"b{n}", Operator.EQ, 1)))
        for n in range(7)
    ]
    monster = Filter(And(tuple(pairs)))  # 128 conjunctions
    interest, promise = subscription("s"), advertisement("m")
    stage = stage_with_publisher()
    before = stage.rows()
    stage.ask("B4", "C", Subscribe(replace(interest, filter=monster)))
    stage.ask("B4", "P", Advertise(replace(promise, filter=monster)))
    stage.tell("B2", "B4", Subscribe(replace(interest, filter=monster)))
    stage.tell("B2", "B4", Advertise(replace(promise, filter=monster)))
    assert [reason.split(":")[0] for reason in stage.refusals()] == [
        "subscription s",
        "advertisement m",
        "subscription s",
        "advertisement m",
    ]
    assert stage.rows() == before
