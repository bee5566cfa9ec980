"""Merging sends neighbours fewer subscriptions and changes no deliveries, under any churn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import pytest

from shoal.broker.messages import Advertise, Goodbye, Message, Publish, Subscribe, Unsubscribe
from shoal.broker.records import RefusalRecord
from shoal.model import Subscription
from shoal.overlays.merging import NOBODY
from shoal.overlays.octopia.messages import HomeChange
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import Picture
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import Stage, advertisement, publication, subscription
from tests.examples import one_in

LINKS = [("B0", "B1"), ("B1", "B2"), ("B1", "B3"), ("B3", "B4"), ("B3", "B5")]
BROKERS = tuple(f"B{number}" for number in range(6))
MERGING = {"covering": True, "merging": True}


def stage(system: str, settings: Mapping[str, bool]) -> Stage:
    if system == "tree":
        return Stage(LINKS, "tree", TreeParameters(**settings))
    parameters = OctopiaParameters(clusters=2, **settings).for_brokers(BROKERS)
    return Stage(parameters.product().links, "octopia", parameters)


class MergedAndPlain:
    """The same requests to a network with these settings and to one without any."""

    def __init__(self, system: str, settings: Mapping[str, bool]) -> None:
        self.system = system
        self.stages = [stage(system, settings), stage(system, {})]
        self.subscriptions: dict[str, tuple[Subscription, str]] = {}
        self.promises = [(advertisement(f"a{at}", publisher=f"P{at}"), at) for at in BROKERS]
        for promise, home in self.promises:
            self.ask(home, promise.publisher, Advertise(promise))

    def ask(self, broker: str, client: str, request: Message) -> None:
        for each in self.stages:
            each.ask(broker, client, request)
            each.settle()

    def problems(self) -> list[str]:
        found: list[str] = []
        oracle = SYSTEMS[self.system].oracle
        assert oracle is not None
        for each in self.stages:
            picture = Picture(each.edges, self.promises, list(self.subscriptions.values()))
            brokers = {name: broker.strategy for name, broker in each.brokers.items()}
            found += oracle(picture, brokers)
            assert not any(isinstance(row, RefusalRecord) for row in each.records)
        return found


def sent_subscriptions(made: Stage) -> Iterator[Subscription]:
    """All subscriptions that brokers have sent each other."""
    for _, _, message in made.everything_sent:
        match message:
            case Subscribe(each):
                yield each
            case HomeChange(added=added):
                yield from added


def random_subscription(chance: Random, name: str, client: str) -> Subscription:
    low, symbol = chance.randint(0, 40), chance.choice("AB")
    text = chance.choice((f"x > {low} AND x <= {low + 8}", f"x >= {low}", f"x < {low}"))
    return subscription(name, f"{text} AND symbol = '{symbol}'", client)


@pytest.mark.parametrize("seed", one_in(3, [1, 2, 3]))
@pytest.mark.parametrize("system", ["tree", "octopia"])
def test_merging_changes_no_delivery_through_churn(system: str, seed: int) -> None:
    chance = Random(f"{system}/{seed}")
    both = MergedAndPlain(system, MERGING)
    covering = stage(system, {"covering": True})
    both.stages.append(covering)
    for promise, home in both.promises:
        covering.ask(home, promise.publisher, Advertise(promise))
        covering.settle()
    for step in range(100):
        home, client = chance.choice(BROKERS), f"C{chance.randrange(3)}"
        client = f"{client}@{home}"
        mine = [id for id, (each, _) in both.subscriptions.items() if each.client == client]
        drawn = chance.random()
        if drawn < 0.05:
            both.ask(home, client, Goodbye())
            for id in mine:
                del both.subscriptions[id]
        elif mine and drawn < 0.35:
            id = chance.choice(mine)
            both.ask(home, client, Unsubscribe(id))
            del both.subscriptions[id]
        else:
            id = chance.choice(mine) if mine and drawn < 0.45 else f"s{step}"
            asked = random_subscription(chance, id, client)
            both.ask(home, client, Subscribe(asked))
            both.subscriptions[id] = asked, home
        values = {"x": chance.randint(-1, 50), "symbol": chance.choice("AB")}
        event = publication(step, publisher=f"P{home}", **values)
        both.ask(home, event.publisher, Publish((event,)))
        got = [
            sorted((at, each.client, *sorted(each.subscriptions)) for at, each in stage.deliveries)
            for stage in both.stages
        ]
        assert got[0] == got[1] == got[2]
        if not step % 9:
            assert both.problems() == []
    assert any(each.client == NOBODY for each in sent_subscriptions(both.stages[0]))


@pytest.mark.parametrize("system", ["tree", "octopia"])
def test_adjoining_filters_are_sent_as_one(system: str) -> None:
    both = MergedAndPlain(system, MERGING)
    for low in range(0, 40, 2):
        asked = subscription(f"s{low}", f"x >= {low} AND x <= {low + 2}", "C")
        both.ask("B0", "C", Subscribe(asked))
        both.subscriptions[asked.id] = asked, "B0"
    assert both.problems() == []
    rows = [each.brokers["B4"].strategy.description["subscriptions"] for each in both.stages]
    assert rows == [1, 20]


def test_a_restored_link_keeps_the_unions_identifier() -> None:
    here = stage("tree", MERGING)
    here.ask("B0", "P", Advertise(advertisement("a")))
    here.settle()
    for low in (3, 5):
        here.ask("B5", "C", Subscribe(subscription(f"s{low}", f"x > {low} AND x < {low + 4}")))
        here.settle()
    (union,) = (id for id in here.rows()["B0"].subscriptions)
    here.break_link("B1", "B3")
    here.mend_link("B1", "B3")
    here.settle()
    assert list(here.rows()["B0"].subscriptions) == [union]
    here.ask("B5", "C", Unsubscribe("s3"))
    here.settle()
    assert list(here.rows()["B0"].subscriptions) == ["s5"]


def test_merging_without_covering_is_refused() -> None:
    for parameters in (TreeParameters, OctopiaParameters):
        with pytest.raises(ValueError, match="it needs covering = true"):
            parameters(merging=True)
