"""Control messages that cost by their size, in a world and at a link that loses."""

from __future__ import annotations

from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.broker.wire import COMMON, Codec
from shoal.language import parse
from shoal.model import Advertisement, MessageId, Subscription
from shoal.overlays.bluedove.messages import MatchRequest
from shoal.overlays.publisher_relocation.pop.messages import TraceResult
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.trace_rows import ControlRow
from shoal.simulation.faults import LinkFaults
from shoal.simulation.links.reliable import ReliableFrame
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import Meter, ServiceCosts
from shoal.simulation.sizes import message_sizes
from shoal.simulation.world import World

POP = Codec(COMMON + tuple(SYSTEMS["pop"].messages))
RESULT = TraceResult(MessageId("B1", "P", 0), 2)


def test_a_size_is_that_of_the_frame() -> None:
    sizes = message_sizes(POP)
    assert sizes(RESULT) == len(POP.encode(RESULT)) == sizes(ReliableFrame(1, 0, RESULT))
    assert message_sizes(Codec(COMMON))(RESULT) == 0  # no message of these


def test_control_messages_are_counted_by_type_and_window() -> None:
    meter = Meter("B1", ServiceCosts(), 1_000)
    for message, size in ((RESULT, 9), (ReliableFrame(1, 0, RESULT), 9), (Unsubscribe("s"), 20)):
        meter.count_control(message, size)
    meter.roll(1_500)
    meter.count_control(RESULT, 9)
    meter.roll(2_000)
    assert meter.control_rows == [
        ControlRow("B1", 0, "TraceResult", 2, 18),
        ControlRow("B1", 0, "Unsubscribe", 1, 20),
        ControlRow("B1", 1_000, "TraceResult", 1, 9),
    ]
    meter.count_control(MatchRequest(0, ("p", "q")), 50)  # type: ignore[arg-type]
    meter.count_control(ReliableFrame(1, 0, MatchRequest(0, ("r",))), 30)  # type: ignore[arg-type]
    meter.roll(3_000)
    assert meter.control_rows[3:] == [ControlRow("B1", 2_000, "MatchRequest", 2, 80, 3)]
    assert [row.control_out for row in meter.rows] == [3, 1, 2]


def test_a_small_message_takes_less_of_a_broker() -> None:
    interest = Subscription(id="s", client="C", filter=parse("x > 1"))
    size = len(POP.encode(Subscribe(interest)))

    def at_the_publisher(publication_bytes: int, faults: LinkFaults) -> tuple[int, int]:
        """Times of input at B1 and of output at B2, which forwards one subscription."""
        world = World(
            [("B1", "B2")],
            strategy_factory("tree"),
            ConstantUnderlay(1_000),
            costs=ServiceCosts(
                processing_us=10_000,
                transmission_us=1_000,
                publication_bytes=publication_bytes,
            ),
            link_faults=faults,
            sizes=message_sizes(POP),
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
