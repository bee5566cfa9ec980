"""Sharp bits: what a host is told that clusters want, against everybody's subscriptions."""

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
    """A product whose bits come with filters, and everybody who was told something."""

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
        """Let everything arrive, and be told again where less is wanted."""
        self.settle()
        while due := [broker for broker, key in self.timers if key == bits.TIMER]:
            for broker in due:
                self.fire(broker, bits.TIMER)
            self.settle()

    def filters(self, name: str = "p") -> list[Filter | None]:
        """What goes with the bits of a promise, by the clusters that are on; None: nothing."""
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
        """Those with a subscription that it matches."""
        others = {0, 1, 2} - {int(self.advertised[name][1][1])}
        return {
            cluster
            for cluster in others
            if any(matches(each, {"x": x}) for each in self.wanted(name, cluster))
        }

    def is_few(self, name: str, cluster: int) -> bool:
        """Whether all that a cluster wants of a promise can be said."""
        wanted = covering_set(self.wanted(name, cluster))
        everything = self.advertised[name][0].filter
        return len(wanted) <= self.most and not any(covers(each, everything) for each in wanted)


def _draw(random: Random) -> str:
    low = random.randrange(12)
    ranges = f"x BETWEEN {low} AND {low + random.choice([0, 2, 5, 12])}"
    return random.choice([ranges, ranges, f"x = {low}", f"x IN ({low}, {low + 4})"])


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_host_sends_what_is_wanted_and_no_less(seed: int) -> None:
    """Whatever comes and goes, in any order of arrival; at rest no more, where that can be said."""
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


def test_only_what_somebody_there_wants_goes_to_another_cluster() -> None:
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


def test_what_is_covered_costs_no_word() -> None:
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


def test_too_many_are_a_plain_bit_until_they_are_few_again() -> None:
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


def test_what_covered_too_many_stays_until_they_are_few() -> None:
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


def test_what_is_too_much_to_compare_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_who_wants_everything_gets_a_plain_bit() -> None:
    here = SharpStage(4)
    here.promise("b0", "x BETWEEN 0 AND 9")
    here.subscribe("a1", "x < 5", "some")
    here.subscribe("c1", "x < 20", "all")
    here.narrow()
    assert here.filters() == [None]
    here.unsubscribe("all")
    here.narrow()
    assert [len(each or ()) for each in here.filters()] == [1]


def test_a_subscription_that_changes_leaves_no_gap() -> None:
    """Its bit was cleared and set again: what was published between went nowhere."""
    here = SharpStage(0)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    here.subscribe("a1", "x < 9", "s")
    here.settle()
    assert not list(here.sent(BitCleared))
    assert here.owed("p", 3) == {1}


def test_without_the_option_bits_say_what_the_paper_says() -> None:
    here = SharpStage(0)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.narrow()
    assert [message for *_, message in here.sent(BitSet)] == [BitSet("p")]
    assert here.owed("p", 7) == {1}


def test_an_older_broker_says_that_it_wants_everything() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.settle()
    here.tell("b1", "b0", BitSet("p"))
    assert here.owed("p", 7) == {1}


def test_a_link_that_comes_up_makes_bits_plain_until_all_is_said() -> None:
    """Words may be lost with the link: what was said before it is not all that is wanted."""
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


def test_words_that_are_lost_with_a_link_make_bits_plain_until_all_is_said() -> None:
    """As when the other end comes back at once, and nobody has seen it go."""
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


def test_what_is_promised_anew_is_not_told_less_for_the_sake_of_what_was() -> None:
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


def test_nothing_is_kept_for_what_is_not_promised_any_more() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "s")
    here.settle()
    assert here.owed("p", 1) == {1}
    here.ask("b0", "P p", Unadvertise("p"))
    assert not len(here.brokers["b0"].strategy.hosted.asking)


@pytest.mark.parametrize("most", [-1, 257])
def test_how_many_there_may_be(most: int) -> None:
    with pytest.raises(ValueError, match="sharp_bits"):
        OctopiaParameters(sharp_bits=most)


def test_publications_still_travel_in_one_message_where_they_go_alike() -> None:
    here = SharpStage(4)
    here.promise("b0", "x >= 0")
    here.subscribe("a1", "x < 5", "low")
    here.settle()
    here.ask("b0", "P p", Publish(publish(1, 2, 70, 3, publisher="P p").publications))
    here.settle()
    sizes = [len(message.publications) for source, _, message in here.sent(Notification)]
    assert sizes == [2, 1, 2, 1]
