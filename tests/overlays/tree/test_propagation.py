"""Messages about changes of clients, and tables that equal the oracle's."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Effect, LinkChanged, LinkState, Send
from shoal.broker.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe
from shoal.broker.strategy import BrokerContext
from shoal.overlays.tree.messages import AdvertisementsSaid
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import Stage, advertisement, describe, publish, subscription
from tests.examples import one_in
from tests.overlays.tree.recorded_broker import RecordedBroker, received
from tests.overlays.tree.stages import TREE, busy_stage, stage_with_publisher


def test_advertisements_flood_the_tree_once_over_every_link() -> None:
    stage = Stage(TREE)
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    assert stage.take_transcript() == [
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
    stage.take_transcript()
    stage.ask("B3", "C", Subscribe(subscription("high", "x > 10")))
    stage.settle()
    assert stage.take_transcript() == [
        "B3 -> B1: Subscribe high",
        "B1 -> B2: Subscribe high",
        "B2 -> B4: Subscribe high",
    ]
    stage.ask("B3", "C", Subscribe(subscription("both", "x < 10")))
    stage.settle()
    assert stage.take_transcript()[2:] == ["B2 -> B4: Subscribe both", "B2 -> B5: Subscribe both"]
    stage.ask("B3", "C", Subscribe(subscription("other", "y = 1")))
    assert stage.take_transcript() == [
        "B3 -> B1: Subscribe other"
    ]  # a publication may have x and y
    stage.ask("B3", "C", Subscribe(subscription("none", "x = 'text'")))
    assert stage.take_transcript() == []


def test_an_advertisement_attracts_earlier_subscriptions() -> None:
    stage = Stage(TREE)
    stage.ask("B3", "C", Subscribe(subscription("s", "x > 10")))
    stage.ask("B1", "D", Subscribe(subscription("t", "x < -5", client="D")))
    assert stage.take_transcript() == []
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    said = stage.take_transcript()
    assert [line for line in said if "Subscribe" in line] == [
        "B3 -> B1: Subscribe s",
        "B1 -> B2: Subscribe s",
        "B2 -> B4: Subscribe s",
    ]


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


def test_unadvertise_retracts_only_subscriptions_unwanted_otherwise() -> None:
    stage = stage_with_publisher()
    stage.ask("B5", "Q", Advertise(advertisement("q", "x < 10", publisher="Q")))
    stage.ask("B3", "C", Subscribe(subscription("low", "x < 5")))
    stage.ask("B3", "C", Subscribe(subscription("high", "x > 20")))
    stage.settle()
    stage.take_transcript()
    stage.ask("B4", "P", Unadvertise("a"))
    stage.settle()
    assert [line for line in stage.take_transcript() if "Unsubscribe" in line] == [
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
    assert stage.delivered() == [(60, "C")]  # 1 is not advertised
    stage.take_transcript()
    stage.ask("B4", "P", Advertise(narrow))  # an equal advertisement: no messages
    assert stage.take_transcript() == []


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
    stage.take_transcript()
    stage.ask("B3", "C", Subscribe(wide))
    assert stage.take_transcript() == []


def test_a_client_that_subscribes_elsewhere_has_moved() -> None:
    stage = stage_with_publisher()
    interest = subscription("s")
    stage.ask("B3", "C", Subscribe(interest))
    stage.settle()
    stage.ask("B5", "C", Subscribe(interest))
    stage.settle()
    stage.ask("B4", "P", publish(1))
    stage.settle()
    assert [(broker, effect.client) for broker, effect in stage.deliveries] == [("B5", "C")]
    stage.ask("B3", "C", Unsubscribe("s"))  # too late to matter elsewhere
    stage.settle()
    assert not stage.problems([(advertisement("a"), "B4")], [(interest, "B5")])


def test_an_older_copy_of_an_advertisement_from_another_side_changes_nothing() -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    stage.tell("B5", "B2", Advertise(advertisement("a", "x > 7")))
    stage.tell("B1", "B2", Unadvertise("a"))
    assert (stage.take_transcript(), stage.rows()) == ([], before)


@pytest.mark.parametrize("edge", TREE)
def test_a_link_that_goes_and_comes_back_leaves_the_tables_as_they_were(
    edge: tuple[str, str],
) -> None:
    stage, advertised, interests = busy_stage()
    stage.break_link(*edge)
    stage.settle()
    remaining = tuple(other for other in TREE if other != edge)
    assert not stage.problems(advertised, interests, edges=remaining)
    stage.mend_link(*edge)
    stage.settle()
    assert not stage.problems(advertised, interests)


@pytest.mark.parametrize("covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("seed", one_in(3, range(15)))
def test_any_order_of_arrivals_ends_in_the_oracles_tables(seed: int, covering: bool) -> None:
    random = Random(seed)
    names = [f"B{number}" for number in range(7)]
    edges = [(names[random.randrange(n)], names[n]) for n in range(1, 7)]
    stage = Stage(edges, parameters=TreeParameters(covering=covering))
    advertised: dict[str, tuple] = {}
    interests: dict[str, tuple] = {}
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
                interest = subscription(f"s{step}", text, client=f"C{step}")
                interests[interest.id] = interest, broker
                stage.ask(broker, interest.client, Subscribe(interest))
            case 4 if advertised:
                promise, home = advertised.pop(random.choice(list(advertised)))
                stage.ask(home, promise.publisher, Unadvertise(promise.id))
            case 5 if interests:
                interest, home = interests.pop(random.choice(list(interests)))
                stage.ask(home, interest.client, Unsubscribe(interest.id))
        for _ in range(random.randrange(6)):
            if waiting := [way for way, messages in stage.links.items() if messages]:
                stage.carry(*random.choice(waiting))
    stage.settle(random)
    assert not stage.refusals()
    assert not stage.problems(advertised.values(), interests.values()), f"seed {seed}"


class TestSubscriptionFromTwoNeighbours:
    """B1 was cut off from the publisher beyond B2, and a new link to B3 leads there."""

    def _tree(self) -> TreeRouting:
        tree = TreeRouting(BrokerContext("B1", ("B2", "B4"), Random(1)))
        for neighbour in tree.propagation.neighbours:
            tree.link(neighbour, LinkState.UP, 0, [])
            self._hear(tree, neighbour, AdvertisementsSaid())
        self._hear(tree, "B2", Advertise(advertisement("a"), 1))
        self._hear(tree, "B4", Subscribe(subscription("s")))
        tree.link("B3", LinkState.UP, 0, [])
        return tree

    def _hear(self, tree: TreeRouting, neighbour: str, message: Message) -> list[str]:
        out: list[Effect] = []
        tree.receive(neighbour, message, 0, out)
        sent = (each for each in out if isinstance(each, Send))
        return [f"{each.neighbour}: {describe(each.message)}" for each in sent]

    def test_a_new_links_subscription_holds_when_the_old_ones_is_withdrawn(self) -> None:
        tree = self._tree()
        assert self._hear(tree, "B3", Advertise(advertisement("a"), 1)) == []
        self._hear(tree, "B3", AdvertisementsSaid())
        said = self._hear(tree, "B2", Unadvertise("a"))
        assert tree.tables.advertisements["a"].last_hop == "B3"
        assert sorted(said) == [
            "B2: Advertise a",
            "B2: Unsubscribe s",
            "B3: Subscribe s",
            "B3: Unadvertise a",
            "B4: Advertise a",
        ]

    @pytest.mark.parametrize("is_taken_back", [False, True])
    def test_an_outdated_alternate_is_dropped(self, is_taken_back: bool) -> None:
        tree = self._tree()
        self._hear(tree, "B3", Advertise(advertisement("a"), 1))
        if is_taken_back:
            self._hear(tree, "B3", Unadvertise("a"))
        else:
            tree.link("B3", LinkState.ENDED, 0, [])
            tree.link("B3", LinkState.UP, 0, [])
        self._hear(tree, "B2", Unadvertise("a"))
        assert "a" not in tree.tables.advertisements

    def test_an_old_copy_is_no_alternate(self) -> None:
        tree = self._tree()
        self._hear(tree, "B3", Advertise(advertisement("a"), 0))
        self._hear(tree, "B2", Unadvertise("a"))
        assert "a" not in tree.tables.advertisements


def test_a_dead_neighbour_is_sent_nothing() -> None:
    """A publisher had moved to a neighbour that left then; messages about it must end."""
    broker = RecordedBroker("B1", "B2", "B3")
    broker.handles(*received("B3", Advertise(advertisement("a"))))
    broker.handles(*received("B2", Advertise(advertisement("a"), moves=1)))
    broker.handles(LinkChanged("B2", LinkState.ENDED))
    assert broker.sent_to("B3") == [Unadvertise("a")]
    assert broker.sent_to("B2") == []
