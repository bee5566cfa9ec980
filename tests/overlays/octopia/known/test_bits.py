"""Sharp bits: filters that a host knows of other clusters, against all subscriptions."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.messages import Advertise, Publish, Subscribe, Unadvertise, Unsubscribe
from shoal.matching import covering_set, covers, matches, overlaps
from shoal.model import Advertisement, Filter, Subscription
from shoal.overlays.octopia.known import bits
from shoal.overlays.octopia.messages import BitCleared, BitSet, Notification
from shoal.overlays.octopia.parameters import Dynamic, OctopiaParameters
from tests.broker.transcript import advertisement, publish, subscription
from tests.examples import examples
from tests.overlays.octopia.stages import ProductStage


class SharpStage(ProductStage):
    """A product whose bits come with filters, and the set of brokers that were sent some."""

    def __init__(self, most: int, dynamic: Dynamic = Dynamic.FREE) -> None:
        super().__init__("abc", (0, 1), 3, dynamic, sharp_bits=most)
        self.most = most
        self.subscribed: dict[str, tuple[Subscription, str]] = {}
        self.advertised: dict[str, tuple[Advertisement, str]] = {}

    def promise(self, home: str, text: str, name: str = "p") -> None:
        promised = advertisement(name, text, publisher=f"P {name}")
        self.advertised[name] = promised, home
        self.ask(home, promised.publisher, Advertise(promised))

    def subscribe(self, home: str, text: str, name: str) -> None:
        wanted = subscription(name, text, client=f"S {name}")
        self.subscribed[name] = wanted, home
        self.ask(home, wanted.client, Subscribe(wanted))

    def unsubscribe(self, name: str) -> None:
        wanted, home = self.subscribed.pop(name)
        self.ask(home, wanted.client, Unsubscribe(name))

    def narrow(self) -> None:
        """Let everything arrive, and send narrower filters where less is wanted."""
        self.settle()
        while due := [broker for broker, key in self.timers if key == bits.TIMER]:
            for broker in due:
                self.fire(broker, bits.TIMER)
            self.settle()

    def filters(self, name: str = "p") -> list[Filter | None]:
        """The filters of an advertisement's bits, by set cluster bits; None: a plain bit."""
        promised, home = self.advertised[name]
        hosted = self.brokers[home].strategy.hosted
        row = hosted.rows[promised.id]
        found = [hosted.wanted(cluster, row) for cluster in range(3) if cluster != int(home[1])]
        return [None if each is None else list(each) for each in found if each is None or each]

    # --- the naive twin -----------------------------------------------------------------------

    def wanted(self, name: str, cluster: int) -> list[Filter]:
        promised, _ = self.advertised[name]
        there = [each.filter for each, home in self.subscribed.values() if home[1] == str(cluster)]
        return [each for each in there if overlaps(each, promised.filter)]

    def owed(self, name: str, x: int) -> set[int]:
        """The clusters that a host sends a publication to."""
        promised, home = self.advertised[name]
        found = self.brokers[home].strategy.hosted.owed(promised.publisher, {"x": x})
        return {cluster for cluster in range(3) if found >> cluster & 1}

    def least(self, name: str, x: int) -> set[int]:
        """The clusters with a matching subscription."""
        others = {0, 1, 2} - {int(self.advertised[name][1][1])}
        return {
            cluster
            for cluster in others
            if any(matches(each, {"x": x}) for each in self.wanted(name, cluster))
        }

    def is_few(self, name: str, cluster: int) -> bool:
        """Whether filters can describe everything that a cluster wants of an advertisement."""
        wanted = covering_set(self.wanted(name, cluster))
        everything = self.advertised[name][0].filter
        return len(wanted) <= self.most and not any(covers(each, everything) for each in wanted)


def _draw(random: Random) -> str:
    low = random.randrange(12)
    ranges = f"x BETWEEN {low} AND {low + random.choice([0, 2, 5, 12])}"
    return random.choice([ranges, ranges, f"x = {low}", f"x IN ({low}, {low + 4})"])


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_host_sends_at_least_what_clusters_want(seed: int) -> None:
    """For every order of arrivals; at rest no more is sent, where filters can describe it."""
    random = Random(seed)
    here = SharpStage(random.choice([1, 2, 3, 8]))
    homes = sorted(here.brokers)
    for step in range(60):
        act, name = random.random(), f"s{random.randrange(12)}"
        if act < 0.12:
            here.promise(random.choice(homes[:3]), "x >= 2", f"p{random.randrange(2)}")
            here.advertised = {
                key: each for key, each in here.advertised.items() if _is_there(here, key)
            }
        elif act < 0.17 and here.advertised:
            promise = random.choice(sorted(here.advertised))
            promised, home = here.advertised.pop(promise)
            here.ask(home, promised.publisher, Unadvertise(promise))
        elif name in here.subscribed and act < 0.6:
            here.unsubscribe(name)
        elif name in here.subscribed:
            _, home = here.subscribed[name]
            here.subscribe(home, _draw(random), name)
        else:
            here.subscribe(random.choice(homes), _draw(random), name)
        if random.random() < 0.3:
            due = [each for each in here.timers if each[1] == bits.TIMER]
            if due:
                here.fire(*random.choice(due))
        if random.random() < 0.4:
            here.settle(random)
            _judge(here, f"step {step}")
    here.narrow()
    for promise in here.advertised:
        for x in range(26):
            owed, least = here.owed(promise, x), here.least(promise, x) if x >= 2 else set()
            assert owed >= least, (promise, x)
            assert not [each for each in owed - least if here.is_few(promise, each)], (promise, x)


def _is_there(here: SharpStage, name: str) -> bool:
    _, home = here.advertised[name]
    return name in here.brokers[home].strategy.hosted.rows


def _judge(here: SharpStage, where: str) -> None:
    for promise in here.advertised:
        for x in range(2, 26):
            assert here.owed(promise, x) >= here.least(promise, x), (where, promise, x)


def test_only_wanted_publications_go_to_another_cluster() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "low")
    here.subscribe("c2", "x > 90", "high")
    here.settle()
    for x in (3, 50, 95):
        here.ask("b0", "P p", publish(x, publisher="P p"))
        here.settle()
    sent = [
        (source, target, message.publications[0].publication.sequence)
        for source, target, message in here.sent(Notification)
    ]
    assert sent == [("b0", "b1", 3), ("b1", "a1", 3), ("b0", "b2", 95), ("b2", "c2", 95)]


def test_covered_subscriptions_cost_no_messages() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "first")
    here.settle()
    here.subscribe("c1", "x < 3", "within")
    here.subscribe("a1", "x < 5", "same")
    here.unsubscribe("first")
    here.narrow()
    words = [message for _, _, message in here.everything_sent if type(message) is BitSet]
    assert len(words) == 1
    assert [len(each or ()) for each in here.filters()] == [1]


def test_too_many_filters_are_a_plain_bit_until_they_are_few() -> None:
    here = SharpStage(2)
    here.promise("b0", "x >= 0")
    for number in range(3):
        here.subscribe("a1", f"x = {number}", f"s{number}")
        here.settle()
        assert (
            here.filters() == [None] if number == 2 else len(here.filters()[0] or ()) == number + 1
        )
    here.narrow()
    assert here.filters() == [None]
    here.unsubscribe("s1")
    here.settle()
    assert here.filters() == [None]
    here.narrow()
    assert [len(each or ()) for each in here.filters()] == [2]
    here.unsubscribe("s0")
    here.unsubscribe("s2")
    here.settle()
    assert here.filters() == []


def test_a_filter_that_covered_too_many_stays_until_they_are_few() -> None:
    here = SharpStage(2)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 9", "wide")
    here.settle()
    for number in range(4):
        here.subscribe("a1", f"x = {number}", f"s{number}")
    here.unsubscribe("wide")
    here.narrow()
    assert [here.owed("p", x) for x in (3, 8, 9)] == [{1}, {1}, set()]
    here.unsubscribe("s3")
    here.unsubscribe("s2")
    here.narrow()
    assert [here.owed("p", x) for x in (1, 2, 8)] == [{1}, set(), set()]


def test_filters_too_costly_to_compare_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "MOST_PAIRS", 0)
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 9", "first")
    here.settle()
    here.subscribe("a1", "x < 5", "covered")
    here.subscribe("a1", "x = 11", "apart")
    here.settle()
    assert [len(each or ()) for each in here.filters()] == [3]
    assert here.owed("p", 11) == {1}


def test_a_subscription_to_everything_sets_a_plain_bit() -> None:
    here = SharpStage(4)
    here.promise("b0", "x BETWEEN 0 AND 9")
    here.subscribe("a1", "x < 5", "some")
    here.subscribe("c1", "x < 20", "all")
    here.narrow()
    assert here.filters() == [None]
    here.unsubscribe("all")
    here.narrow()
    assert [len(each or ()) for each in here.filters()] == [1]


def test_a_changed_subscription_leaves_no_gap() -> None:
    """Otherwise publications between the clearing and the setting of its bit would be lost."""
    here = SharpStage(0)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    here.subscribe("a1", "x < 9", "s")
    here.settle()
    assert not list(here.sent(BitCleared))
    assert here.owed("p", 3) == {1}


def test_without_the_option_bits_are_the_papers() -> None:
    here = SharpStage(0)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.narrow()
    assert [message for *_, message in here.sent(BitSet)] == [BitSet("p")]
    assert here.owed("p", 7) == {1}


def test_bits_of_an_older_broker_are_plain() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.settle()
    here.tell("b1", "b0", BitSet("p"))
    assert here.owed("p", 7) == {1}


def test_bits_are_plain_from_link_up_until_tables_are_sent() -> None:
    """Messages may be lost with the link, so what was known before it is incomplete."""
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    here.break_link("b0", "b1")
    here.subscribe("a1", "x = 7", "new")
    here.mend_link("b0", "b1")
    assert here.owed("p", 7) >= {1}
    here.settle()
    here.narrow()
    assert here.owed("p", 7) == {1}
    assert here.owed("p", 6) == set()


def test_bits_are_plain_after_messages_lost_with_a_link() -> None:
    """The other end returns at once, and its loss is not noticed."""
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    here.subscribe("a1", "x = 7", "new")
    here.carry("a1", "b1")
    here.links["b1", "b0"].clear()
    here.mend_link("b0", "b1")
    assert here.owed("p", 7) == {1}
    here.settle()
    assert [here.owed("p", x) for x in (6, 7)] == [set(), {1}]


def test_a_new_advertisement_is_not_narrowed_by_a_former_one() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 2")
    here.subscribe("a1", "x < 5", "s")
    here.subscribe("a1", "x = 7", "gone")
    here.settle()
    here.unsubscribe("gone")
    here.settle()
    here.promise("b0", "x >= 0")
    here.settle()
    here.subscribe("a1", "x = 9", "new")
    here.narrow()
    assert [here.owed("p", x) for x in (4, 7, 9)] == [{1}, set(), {1}]


def test_nothing_is_kept_for_a_withdrawn_advertisement() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    assert here.owed("p", 1) == {1}
    here.ask("b0", "P p", Unadvertise("p"))
    assert not len(here.brokers["b0"].strategy.hosted.asking)


@pytest.mark.parametrize("most", [-1, 257])
def test_the_number_of_filters_is_bounded(most: int) -> None:
    with pytest.raises(ValueError, match="sharp_bits"):
        OctopiaParameters(sharp_bits=most)


def test_publications_of_one_route_still_travel_in_one_message() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "low")
    here.settle()
    here.ask("b0", "P p", Publish(publish(1, 2, 70, 3, publisher="P p").publications))
    here.settle()
    sizes = [len(message.publications) for source, _, message in here.sent(Notification)]
    assert sizes == [2, 1, 2, 1]
