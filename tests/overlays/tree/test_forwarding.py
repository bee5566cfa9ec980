"""A batch is routed as its publications would be one by one, and nothing goes back."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import MessageId
from shoal.overlays.tree.forwarding import TreeForwarding
from shoal.overlays.tree.routes import Route
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
    """Messages by neighbour, and deliveries."""
    sent: dict[str, list[RoutedPublication]] = {}
    for effect in effects:
        if isinstance(effect, Send):
            assert isinstance(effect.message, PublicationBatch)
            assert effect.message.hops == HOPS + 1
            sent.setdefault(effect.neighbour, []).extend(effect.message.publications)
    return sent, [effect for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_is_routed_as_its_publications_one_by_one(seed: int) -> None:
    random = Random(seed)
    table = table_of(random)
    forwarding = TreeForwarding("B", ["B1", "B2", "B3"], table.routes)
    noted: list[tuple[RoutedPublication, Route]] = []
    forwarding.note = lambda routed, route, *_: noted.append((routed, route))
    batch = tuple(routed(number, random.randrange(10)) for number in range(5))
    hop = random.choice((None, "B1", "B2"))
    together: list[Effect] = []
    one_by_one: list[Effect] = []
    forwarding.forward(hop, PublicationBatch(batch, HOPS), 0, together)
    for each in batch:
        forwarding.forward(hop, PublicationBatch((each,), HOPS), 0, one_by_one)
    went = [(each, table.routes.of(each.publication.attributes)) for each in batch]
    assert noted == [*went, *went]
    assert gone(together) == gone(one_by_one)
    sent, _ = gone(together)
    assert hop not in sent
    for neighbour in ("B1", "B2", "B3"):
        expected = [each for each, route in went if neighbour in route.neighbours]
        assert sent.get(neighbour, []) == ([] if neighbour == hop else expected)


def test_a_batch_with_one_route_is_forwarded_whole() -> None:
    table = RoutingTable()
    for neighbour in ("B1", "B2"):
        table.add_subscription(subscription(neighbour, "x > 0"), neighbour)
    batch = tuple(routed(number, 1) for number in range(3))
    out: list[Effect] = []
    TreeForwarding("B", [], table.routes).forward(None, PublicationBatch(batch, HOPS), 0, out)
    whole = PublicationBatch(batch, HOPS + 1)
    assert out == [Send("B1", whole), Send("B2", whole)]


def test_only_present_and_former_neighbours_send_publications() -> None:
    table, out = RoutingTable(), list[Effect]()
    table.add_subscription(subscription("B1", "x > 0"), "B1")
    forwarding = TreeForwarding("B", ["B1", "B2"], table.routes)
    batch = PublicationBatch((routed(0, 1),), HOPS)
    with pytest.raises(ProtocolError, match=r"^B3 is not a neighbour of B$"):
        forwarding.forward("B3", batch, 0, out)
    assert out == []
    for hop in ("B2", None):
        forwarding.forward(hop, batch, 0, out)
    forwarding.forward_all("B3", batch, out)
    assert out == [Send("B1", PublicationBatch(batch.publications, HOPS + 1))] * 3
