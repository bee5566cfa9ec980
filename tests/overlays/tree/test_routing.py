"""Tree routing as transcripts: who tells whom what, and tables that equal the oracle's."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from shoal.broker.messages import (
    Advertise,
    Ping,
    Pong,
    PublicationBatch,
    Publish,
    Rejected,
    Resume,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.model import And, Filter, MessageId, Operator, Or, predicate
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription

#      B1
#     /  \
#   B2    B3
#  /  \
# B4  B5
TREE = (("B1", "B2"), ("B1", "B3"), ("B2", "B4"), ("B2", "B5"))
FIRST_ID = MessageId("B4", "P", 0)


def stage_with_publisher() -> Stage:
    """P has advertised a (x >= 0) at B4, and everybody knows."""
    stage = Stage(TREE)
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    stage.heard()
    return stage


def test_advertisements_flood_the_tree_once_over_every_link() -> None:
    stage = Stage(TREE)
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    assert stage.heard() == [
        "B4 -> B2: Advertise a",
        "B2 -> B1: Advertise a",
        "B2 -> B5: Advertise a",
        "B1 -> B3: Advertise a",
    ]
    rows = stage.rows()
    last_hops = {name: row.advertisements["a"] for name, row in rows.items()}
    assert last_hops == {"B1": "B2", "B2": "B4", "B3": "B1", "B4": None, "B5": "B2"}


def test_subscriptions_follow_overlapping_advertisements_only() -> None:
    stage = stage_with_publisher()
    stage.ask("B5", "Q", Advertise(advertisement("q", "x < 0", publisher="Q")))
    stage.settle()
    stage.heard()
    stage.ask("B3", "C", Subscribe(subscription("high", "x > 10")))
    stage.settle()
    assert stage.heard() == [
        "B3 -> B1: Subscribe high",
        "B1 -> B2: Subscribe high",
        "B2 -> B4: Subscribe high",
    ]
    stage.ask("B3", "C", Subscribe(subscription("both", "x < 10")))
    stage.settle()
    assert stage.heard()[2:] == ["B2 -> B4: Subscribe both", "B2 -> B5: Subscribe both"]
    stage.ask("B3", "C", Subscribe(subscription("other", "y = 1")))
    assert stage.heard() == ["B3 -> B1: Subscribe other"]  # a publication may have x and y
    stage.ask("B3", "C", Subscribe(subscription("none", "x = 'text'")))
    assert stage.heard() == []


def test_an_advertisement_draws_the_subscriptions_that_were_there_before() -> None:
    stage = Stage(TREE)
    stage.ask("B3", "C", Subscribe(subscription("s", "x > 10")))
    stage.ask("B1", "D", Subscribe(subscription("t", "x < -5", client="D")))
    assert stage.heard() == []
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    said = stage.heard()
    assert [line for line in said if "Subscribe" in line] == [
        "B3 -> B1: Subscribe s",
        "B1 -> B2: Subscribe s",
        "B2 -> B4: Subscribe s",
    ]


def test_publications_follow_matching_subscriptions() -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "C", Subscribe(subscription("s", "x > 1")))
    stage.ask("B5", "D", Subscribe(subscription("t", "x > 2", client="D")))
    stage.settle()
    stage.heard()
    stage.ask("B4", "P", publish(1, 2, 3))
    stage.settle()
    assert stage.heard() == [
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
    stage.heard()
    stage.ask("B4", "P", publish(5))
    stage.settle()
    (to_one,) = [effect for _, effect in stage.deliveries if effect.client == "C"]
    assert sorted(to_one.subscriptions) == ["s1", "s2"]
    assert sorted(effect.client for _, effect in stage.deliveries) == ["C", "D"]


def test_a_publisher_that_subscribes_hears_itself_once() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", Subscribe(subscription("mine", client="P")), publish(1))
    stage.settle()
    assert stage.delivered() == [(1, "P")]


def test_unadvertise_and_unsubscribe_undo_exactly_what_was_done() -> None:
    stage = Stage(TREE)
    base_s, base_a = subscription("base"), advertisement("kept", "x > 50", publisher="K")
    stage.ask("B5", "K", Advertise(base_a))
    stage.ask("B3", "C", Subscribe(base_s))
    stage.settle()
    before = stage.rows()

    stage.ask("B4", "P", Advertise(advertisement("a", "x < 10")), Advertise(advertisement("b")))
    stage.ask("B1", "D", Subscribe(subscription("s", "x BETWEEN 5 AND 60", client="D")))
    stage.settle()
    assert stage.rows() != before
    stage.ask("B4", "P", Unadvertise("a"))
    stage.settle()
    stage.ask("B1", "D", Unsubscribe("s"))
    stage.ask("B4", "P", Unadvertise("b"))
    stage.settle()
    assert stage.rows() == before
    assert not stage.problems([(base_a, "B5")], [(base_s, "B3")])


def test_unadvertise_takes_back_only_what_nothing_else_asks_for() -> None:
    stage = stage_with_publisher()
    stage.ask("B5", "Q", Advertise(advertisement("q", "x < 10", publisher="Q")))
    stage.ask("B3", "C", Subscribe(subscription("low", "x < 5")))
    stage.ask("B3", "C", Subscribe(subscription("high", "x > 20")))
    stage.settle()
    stage.heard()
    stage.ask("B4", "P", Unadvertise("a"))
    stage.settle()
    assert [line for line in stage.heard() if "Unsubscribe" in line] == [
        "B2 -> B4: Unsubscribe low",
        "B2 -> B4: Unsubscribe high",
        "B1 -> B2: Unsubscribe high",
        "B3 -> B1: Unsubscribe high",
    ]


def test_a_replaced_advertisement_moves_the_subscriptions() -> None:
    stage = stage_with_publisher()
    low, high = subscription("low", "x < 5"), subscription("high", "x > 50")
    stage.ask("B3", "C", Subscribe(low), Subscribe(high))
    stage.ask("B4", "P", Advertise(narrow := advertisement("a", "x > 40")))
    stage.settle()
    assert not stage.problems([(narrow, "B4")], [(low, "B3"), (high, "B3")])
    stage.ask("B4", "P", publish(1, 60))
    stage.settle()
    assert stage.delivered() == [(60, "C")]  # 1 is promised no more
    stage.heard()
    stage.ask("B4", "P", Advertise(narrow))  # the very same again: nothing to say
    assert stage.heard() == []


def test_a_replaced_subscription_counts_with_its_new_filter() -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "C", Subscribe(subscription("s", "x > 50")))
    stage.settle()
    stage.ask("B3", "C", Subscribe(wide := subscription("s", "x > 3")))
    stage.settle()
    assert not stage.problems([(advertisement("a"), "B4")], [(wide, "B3")])
    stage.ask("B4", "P", publish(2, 4, 60))
    stage.settle()
    assert stage.delivered() == [(4, "C"), (60, "C")]
    stage.heard()
    stage.ask("B3", "C", Subscribe(wide))
    assert stage.heard() == []


def test_a_client_that_subscribes_elsewhere_has_moved() -> None:
    stage = stage_with_publisher()
    wish = subscription("s")
    stage.ask("B3", "C", Subscribe(wish))
    stage.settle()
    stage.ask("B5", "C", Subscribe(wish))
    stage.settle()
    stage.ask("B4", "P", publish(1))
    stage.settle()
    assert [(broker, effect.client) for broker, effect in stage.deliveries] == [("B5", "C")]
    stage.ask("B3", "C", Unsubscribe("s"))  # too late to matter elsewhere
    stage.settle()
    assert not stage.problems([(advertisement("a"), "B4")], [(wish, "B5")])


def test_an_advertisement_known_from_elsewhere_is_refused_not_swallowed() -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "P", Advertise(advertisement("a")))
    assert stage.refusals() == ["advertisement a is known from B1 already"]
    stage.ask("B3", "P", publish(1))
    assert stage.refusals()[1:] == ["P has not advertised at B3"]


def test_an_older_copy_of_an_advertisement_from_another_side_changes_nothing() -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    stage.tell("B5", "B2", Advertise(advertisement("a", "x > 7")))
    stage.tell("B1", "B2", Unadvertise("a"))
    assert (stage.heard(), stage.rows()) == ([], before)


# --- links ------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", TREE)
def test_a_link_that_goes_and_comes_back_leaves_the_tables_as_they_were(
    edge: tuple[str, str],
) -> None:
    stage, advertised, wishes = busy_stage()
    stage.break_link(*edge)
    stage.settle()
    remaining = tuple(other for other in TREE if other != edge)
    assert not stage.problems(advertised, wishes, edges=remaining)
    stage.mend_link(*edge)
    stage.settle()
    assert not stage.problems(advertised, wishes)


def busy_stage() -> tuple[Stage, list, list]:
    """Publishers and subscribers all over the tree, with overlaps and without."""
    stage = Stage(TREE)
    advertised = [
        (advertisement("a", "x > 0"), "B4"),
        (advertisement("q", "x < 20", publisher="Q"), "B3"),
        (advertisement("r", "x = 5 OR x > 90", publisher="R"), "B2"),
    ]
    wishes = [
        (subscription(f"s{number}{broker}", text, client=f"C{broker}"), broker)
        for broker in ("B1", "B3", "B4", "B5")
        for number, text in enumerate(["x > 50", "x < 10", "x = 5", "x = 'no'"])
    ]
    for promise, broker in advertised:
        stage.ask(broker, promise.publisher, Advertise(promise))
    for wish, broker in wishes:
        stage.ask(broker, wish.client, Subscribe(wish))
    stage.settle()
    assert not stage.problems(advertised, wishes)
    return stage, advertised, wishes


def test_a_message_from_a_neighbour_whose_link_is_down_is_refused() -> None:
    stage, _, _ = busy_stage()
    stage.break_link("B1", "B3")
    stage.settle()
    before = stage.rows()
    for message in (Advertise(advertisement("z")), Subscribe(subscription("z")), Unsubscribe("z")):
        stage.tell("B3", "B1", message)
    assert stage.refusals() == ["B3 is not a neighbour of B1"] * 3
    assert stage.rows() == before


# --- what is refused --------------------------------------------------------------------------


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
def test_only_neighbours_are_listened_to(stranger: str, message: Advertise) -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s")))
    before = stage.rows()
    stage.tell(stranger, "B4", message)
    assert stage.refusals() == [f"{stranger} is not a neighbour of B4"]
    assert (stage.heard(), stage.rows()) == ([], before)


@pytest.mark.parametrize("message", [publish(1), Ping(FIRST_ID), Pong(FIRST_ID), Resume(1, True)])
def test_messages_that_make_no_sense_between_brokers(message: Publish) -> None:
    stage = stage_with_publisher()
    stage.tell("B2", "B4", message)
    assert stage.refusals() == [f"{type(message).__name__} is not expected from neighbour B2"]


@pytest.mark.parametrize("request_", [PublicationBatch((), 0), Resume(1, True), Rejected("no")])
def test_requests_that_make_no_sense_from_a_client(request_: PublicationBatch) -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", request_)
    reason = f"{type(request_).__name__} is not expected from client P"
    assert stage.refusals() == [reason]
    assert stage.heard() == [f"B4 => P: Rejected: {reason}"]


def test_publishing_needs_an_advertisement_here() -> None:
    stage = stage_with_publisher()
    stage.ask("B5", "P", publish(1))
    stage.ask("B4", "Q", publish(1, publisher="Q"))
    assert stage.heard() == [
        "B5 => P: Rejected: P has not advertised at B5",
        "B4 => Q: Rejected: Q has not advertised at B4",
    ]


def test_in_a_batch_only_what_does_not_conform_is_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s", "x < 100 OR y = 1")))
    stage.heard()
    foreign = publication(7, publisher="Q", x=7)
    rows = (publication(0), publication(1, x=-1), publication(2, y=1), foreign, publication(3))
    stage.ask("B4", "P", Publish(rows))
    assert stage.heard() == [
        "B4 => P: Rejected: publication 1 matches no advertisement of P",
        "B4 => P: Rejected: publication 2 matches no advertisement of P",
        "B4 => P: Rejected: publication 7 belongs to Q, not to P",
        "B4 : delivered P/0 to C (s)",
        "B4 : delivered P/3 to C (s)",
    ]
    numbers = [effect.routed.message_id.number for _, effect in stage.deliveries]
    assert numbers == [0, 1]  # message identifiers are consecutive (4.1)


def test_what_belongs_to_others_is_theirs() -> None:
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


def test_after_unadvertising_publications_are_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", Unadvertise("a"), publish(1), Unadvertise("a"))
    assert stage.refusals() == ["P has not advertised at B4", "P has no advertisement a here"]


def test_a_filter_too_large_to_route_by_is_refused() -> None:
    pairs = [
        Or((predicate(f"a{n}", Operator.EQ, 1), predicate(f"b{n}", Operator.EQ, 1)))
        for n in range(7)
    ]
    monster = Filter(And(tuple(pairs)))  # 128 conjunctions
    wish, promise = subscription("s"), advertisement("m")
    stage = stage_with_publisher()
    before = stage.rows()
    stage.ask("B4", "C", Subscribe(replace(wish, filter=monster)))
    stage.ask("B4", "P", Advertise(replace(promise, filter=monster)))
    stage.tell("B2", "B4", Subscribe(replace(wish, filter=monster)))
    stage.tell("B2", "B4", Advertise(replace(promise, filter=monster)))
    assert [reason.split(":")[0] for reason in stage.refusals()] == [
        "subscription s",
        "advertisement m",
        "subscription s",
        "advertisement m",
    ]
    assert stage.rows() == before


# --- at random --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_any_order_of_arrivals_ends_in_the_oracles_tables(seed: int) -> None:
    random = Random(seed)
    names = [f"B{number}" for number in range(7)]
    edges = [(names[random.randrange(n)], names[n]) for n in range(1, 7)]
    stage = Stage(edges)
    advertised: dict[str, tuple] = {}
    wished: dict[str, tuple] = {}
    for step in range(60):
        broker = random.choice(names)
        text = f"x {random.choice(['<', '>', '='])} {random.randrange(10)}"
        match random.randrange(6):
            case 0 | 1:
                client = f"P{step}"
                promise = advertisement(f"a{step}", text, publisher=client)
                advertised[promise.id] = promise, broker
                stage.ask(broker, client, Advertise(promise))
            case 2 | 3:
                wish = subscription(f"s{step}", text, client=f"C{step}")
                wished[wish.id] = wish, broker
                stage.ask(broker, wish.client, Subscribe(wish))
            case 4 if advertised:
                promise, home = advertised.pop(random.choice(list(advertised)))
                stage.ask(home, promise.publisher, Unadvertise(promise.id))
            case 5 if wished:
                wish, home = wished.pop(random.choice(list(wished)))
                stage.ask(home, wish.client, Unsubscribe(wish.id))
        for _ in range(random.randrange(6)):
            if waiting := [way for way, messages in stage.links.items() if messages]:
                stage.carry(*random.choice(waiting))
    stage.settle(random)
    assert not stage.refusals()
    assert not stage.problems(advertised.values(), wished.values()), f"seed {seed}"
