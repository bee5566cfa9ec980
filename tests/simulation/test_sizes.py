"""Control messages that cost by their size, in a world and at a link that loses."""

from __future__ import annotations

from shoal.broker.messages import Subscribe
from shoal.broker.wire import COMMON, Codec
from shoal.language import parse
from shoal.model import Advertisement, MessageId, Subscription
from shoal.overlays.publisher_relocation.pop.messages import TraceResult
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.faults import LinkFaults
from shoal.simulation.links.reliable import ReliableFrame
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.sizes import message_sizes
from shoal.simulation.world import World

POP = Codec(COMMON + tuple(SYSTEMS["pop"].messages))
RESULT = TraceResult(MessageId("B1", "P", 0), 2)


def test_sizes_are_shares_of_a_publication() -> None:
    sizes = message_sizes(POP, 100)
    assert sizes(RESULT) == len(POP.encode(RESULT)) / 100
    assert sizes(ReliableFrame(1, 0, RESULT)) == sizes(RESULT)
    assert message_sizes(Codec(COMMON), 100)(RESULT) == 1.0  # no message of these


def test_a_small_message_takes_less_of_a_broker() -> None:
    interest = Subscription(id="s", client="C", filter=parse("x > 1"))
    size = len(POP.encode(Subscribe(interest)))

    def at_the_publisher(publication_bytes: int, faults: LinkFaults) -> tuple[int, int]:
        """Times of input at B1 and of output at B2, which forwards one subscription."""
        sizes = message_sizes(POP, publication_bytes) if publication_bytes else None
        world = World(
            [("B1", "B2")],
            strategy_factory("tree"),
            ConstantUnderlay(1_000),
            costs=ServiceCosts(processing_us=10_000, transmission_us=1_000),
            link_faults=faults,
            sizes=sizes,
        )
        world.add_publisher("P", "B1", "B1")
        world.advertise(0, Advertisement(id="a", publisher="P", filter=parse("x > 0")))
        world.add_subscriber("C", "B2")
        world.subscribe(2_000_000, "B2", interest)
        world.run()
        rows = [row for row in world.load_rows() if row.window_start_us >= 1_000_000]
        at = {name: [row for row in rows if row.broker == name] for name in ("B1", "B2")}
        input_us = sum(row.input_busy_us for row in at["B1"])
        return input_us, sum(row.output_busy_us for row in at["B2"])

    assert at_the_publisher(0, LinkFaults()) == (10_000, 1_000)
    assert at_the_publisher(size, LinkFaults()) == (10_000, 1_000)
    assert at_the_publisher(10 * size, LinkFaults()) == (1_000, 100)
    # With acknowledgements of its own, which are smaller still.
    input_us, output_us = at_the_publisher(10 * size, LinkFaults(jitter_us=1))
    whole_us, _ = at_the_publisher(0, LinkFaults(jitter_us=1))
    assert 1_000 <= input_us < whole_us
    assert output_us >= 100
