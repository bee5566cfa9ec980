"""Brokers of a product die under load, on real sockets: acknowledged publications have arrived."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Deliver
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.model import Publication
from shoal.overlays.octopia.oracle import problems
from shoal.overlays.octopia.parameters import UNORDERED, Dynamic, OctopiaParameters
from shoal.overlays.system import Picture
from tests.broker.transcript import advertisement, subscription
from tests.runtime.live import live, on_asyncio, until

ROWS = (("B1", "B2", "B3"), ("B4", "B5", "B6"), ("B7", "B8", "B9"))
NAMES = [name for row in ROWS for name in row]
# On a busy machine this process needs this time to reconnect and send its tables; also the timeout
# for lost brokers.
LIMITS = LinkLimits(give_up_us=1_500_000)
PATIENCE_US = 4_000_000
HOST = "B7"


class Subscriber:
    """A subscriber at a broker, with its deliveries."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def deliver(self, delivery: Deliver) -> None:
        self.got.append(delivery.routed.publication.sequence)

    def notify(self, message: object) -> None: ...


# The publisher's parent and its way up; its entry to another cluster; both, and a leaf elsewhere.
@pytest.mark.parametrize(
    ("dead", "dynamic"),
    [
        (["B1", "B8"], Dynamic.ORDERED),
        *(
            pytest.param(dead, dynamic, marks=pytest.mark.soak)
            for dead in (["B1"], ["B8"], ["B1", "B8"], ["B9", "B5"])
            for dynamic in Dynamic
        ),
    ],
)
@on_asyncio
async def test_acknowledged_publications_have_reached_all_living_subscribers(
    dead: list[str], dynamic: Dynamic
) -> None:
    parameters = OctopiaParameters(
        rows=ROWS,
        dynamic=dynamic,
        retry_us=200_000,
        patience_us=PATIENCE_US,
        threshold=2,
        window_us=20_000,
    )
    links = parameters.product().links
    async with live(links, system="octopia", parameters=parameters, limits=LIMITS) as network:
        await until(lambda: all(node.is_ready for node in network.nodes.values()))
        here: dict[str, Subscriber] = {}

        def subscribe(name: str) -> None:
            here[name] = Subscriber()
            node = network.nodes[name]
            node.attach(f"S{name}", here[name])
            wanted = Subscribe(subscription(f"s{name}", client=f"S{name}"))
            node.request(f"S{name}", wanted, ack_tracker=AckTracker(partial(granted.append, name)))

        granted: list[str] = []
        for name in NAMES:
            subscribe(name)
        # Publications may miss a subscriber before its SUBACK.
        await until(lambda: len(granted) == len(NAMES))
        host = network.nodes[HOST]
        host.request("P", Advertise(advertisement("p")))
        row = host.machine.strategy.hosted
        await until(lambda: "p" in row.rows and row.bits(row.rows["p"]) == 0b110)
        settled: list[int] = []
        lacking: list[tuple[int, str]] = []

        def has_settled(number: int) -> None:
            settled.append(number)
            lacking.extend(
                (number, name)
                for name in NAMES
                if name not in dead and number not in here[name].got
            )

        async def publish(first: int, count: int) -> None:
            for number in range(first, first + count):
                publication = Publication(
                    publisher="P",
                    sequence=number,
                    published_us=0,
                    attributes={"x": number, "text": "x" * 200},
                    assured=True,
                )
                ack_tracker = AckTracker(partial(has_settled, number))
                host.request("P", Publish((publication,)), ack_tracker=ack_tracker)
                if number % 5 == 0:
                    await asyncio.sleep(0.002)

        await publish(0, 100)
        for name in dead:
            await network.kill(name)
        await publish(100, 300)
        await until(lambda: len(settled) == 400)
        assert lacking == []
        for name in NAMES:
            if name not in dead:
                assert sorted(set(here[name].got)) == list(range(400)), name
                once = list(dict.fromkeys(here[name].got))
                assert dynamic in UNORDERED or once == sorted(once), name
        for name in dead:
            await network.start(name)
        await network.connected()
        for name in dead:
            subscribe(name)
        interests = [(subscription(f"s{name}", client=f"S{name}"), name) for name in NAMES]
        picture = Picture(links, [(advertisement("p"), HOST)], interests)

        def found() -> list[str]:
            return problems(
                picture, {name: node.machine.strategy for name, node in network.nodes.items()}
            )

        await until(lambda: not found())
        await publish(400, 10)
        await until(lambda: len(settled) == 410)
        assert all(set(range(400, 410)) <= set(here[name].got) for name in NAMES)
        assert lacking == []
