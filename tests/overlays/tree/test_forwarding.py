"""A batch goes where its publications would go one by one, and nothing goes back."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.model import MessageId
from shoal.overlays.tree.forwarding import Forwarding
from shoal.overlays.tree.routing_table import RoutingTable
from tests.broker.transcript import publication, subscription

HOPS = 3


def table_of(random: Random) -> RoutingTable:
    table = RoutingTable()
    for number in range(12):
        row = subscription(f"s{number}", f"x > {random.randrange(8)}", client=f"C{number % 4}")
        table.add_subscription(row, random.choice((None, "B1", "B2", "B3")))
    return table


def routed(number: int, x: int) -> RoutedPublication:
    return RoutedPublication(publication(number, x=x), MessageId("B", "P", number))


def gone(effects: list[Effect]) -> tuple[dict[str, list[RoutedPublication]], list[Deliver]]:
    """By neighbour what was sent, and what was delivered."""
    sent: dict[str, list[RoutedPublication]] = {}
    for effect in effects:
        if isinstance(effect, Send):
            assert isinstance(effect.message, PublicationBatch)
            assert effect.message.hops == HOPS + 1
            sent.setdefault(effect.neighbour, []).extend(effect.message.publications)
    return sent, [effect for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_goes_as_its_publications_would(seed: int) -> None:
    random = Random(seed)
    table = table_of(random)
    forward = Forwarding(table.routes).forward
    batch = tuple(routed(number, random.randrange(10)) for number in range(5))
    hop = random.choice((None, "B1", "B2"))
    together: list[Effect] = []
    one_by_one: list[Effect] = []
    forwarded = forward(batch, HOPS, hop, together)
    alone = [pair for each in batch for pair in forward((each,), HOPS, hop, one_by_one)]
    assert list(forwarded) == alone
    assert alone == [(each, table.routes.of(each.publication.attributes)) for each in batch]
    assert gone(together) == gone(one_by_one)
    sent, _ = gone(together)
    assert hop not in sent
    for neighbour in ("B1", "B2", "B3"):
        expected = [each for each, route in forwarded if neighbour in route.neighbours]
        assert sent.get(neighbour, []) == ([] if neighbour == hop else expected)


def test_what_goes_one_way_as_a_whole_is_sent_as_it_came() -> None:
    table = RoutingTable()
    for neighbour in ("B1", "B2"):
        table.add_subscription(subscription(neighbour, "x > 0"), neighbour)
    batch = tuple(routed(number, 1) for number in range(3))
    out: list[Effect] = []
    Forwarding(table.routes).forward(batch, HOPS, None, out)
    whole = PublicationBatch(batch, HOPS + 1)
    assert out == [Send("B1", whole), Send("B2", whole)]
