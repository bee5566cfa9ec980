"""A stage where a cluster is entered in order while the shortest way there is congested."""

from __future__ import annotations

from shoal.broker.effects import Returned
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.order.sequencer import TIMER
from shoal.overlays.octopia.parameters import Dynamic
from tests.broker.transcript import advertisement, subscription
from tests.overlays.octopia.stages import ProductStage

CROWDED = ("b2", "b0", 40)


def stage(*more: tuple[str, str], clusters: int = 3) -> ProductStage:
    """P at b2; S1 in cluster 0, S2 in cluster 1, both beyond region c; `more` at their edge
    brokers.
    """
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=clusters)
    for client, home in (("S1", "c0"), ("S2", "c1"), *more):
        here.ask(home, client, Subscribe(subscription(client, client=client)))
    here.ask("b2", "P", Advertise(advertisement("p")))
    here.settle()
    return here


def got(here: ProductStage, client: str) -> list[int]:
    return [number for number, name in here.delivered() if name == client]


def held(here: ProductStage) -> dict[str, int]:
    counts = {
        name: len(each.strategy.routing.sequencer.lines) for name, each in here.brokers.items()
    }
    return {name: count for name, count in counts.items() if count}


def carry_all_but(here: ProductStage, *ends: tuple[str, str]) -> None:
    """Deliver everything except the content of these links."""
    while busy := [pair for pair, queue in here.links.items() if queue and pair not in ends]:
        here.carry(*busy[0])


def wait_in_vain(here: ProductStage, gate: str) -> None:
    """Let time pass until nothing is held there."""
    while (gate, TIMER) in here.timers:
        here.fire(gate, TIMER)


def break_and_return(here: ProductStage, left: str, right: str) -> None:
    """Lose a link; its content is returned."""
    ways = [(left, right), (right, left)]
    lost = [(source, target, [*here.links[source, target]]) for source, target in ways]
    here.break_link(left, right)
    for source, target, messages in lost:
        for message in messages:
            if isinstance(message, Notification):
                here.handle(source, Returned(target, message))
