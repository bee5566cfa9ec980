"""Links over connections that come and go: once, in order, bounded; a fresh link is reported."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import CONTROLS, Acknowledge, Heartbeat, Hello, RefuseConnection
from shoal.broker.links.inbox import MOST_SPANS, LinkInbox
from shoal.broker.links.outbox import LinkLimits, LinkOutbox
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import PublicationBatch, RoutedPublication, Unsubscribe
from shoal.broker.wire import COMMON, HEAD_BYTES, Codec, WireError, framed
from shoal.model import MessageId, Publication
from shoal.overlays.registry import SYSTEMS
from tests.broker.links.wire import CODEC, SMALL, Wire, changes, end
from tests.examples import at_length, examples, one_in

UP, DOWN = True, False


@pytest.mark.parametrize("system", SYSTEMS)
def test_link_controls_differ_from_every_systems_messages(system: str) -> None:
    codec = Codec(COMMON + CONTROLS + SYSTEMS[system].messages)
    assert codec.decode(codec.encode(Heartbeat(1))[HEAD_BYTES:]) == Heartbeat(1)


@pytest.mark.parametrize("seed", one_in(3, range(examples(150))))
def test_messages_arrive_once_and_in_order_over_any_connections(seed: int) -> None:
    random, wire = Random(seed), Wire()
    for _ in range(random.randint(10, 300)):
        wire.now_us += 1_000
        name = random.choice("AB")
        match random.choices(
            ["send", "write", "arrive", "take", "tick", "connect", "half", "cut", "restart"],
            [30, 20, 30, 15, 5, 8, 3, 3, 1],
        )[0]:
            case "send":
                wire.send(name)
            case "write":
                wire.write(name)
            case "arrive":
                wire.arrive(name, random.randint(1, 120))
            case "take":
                wire.take(name)
            case "tick":
                wire.tell(name, wire.ends[name].tick(wire.now_us))
            case "connect":
                wire.connect()
            case "half":
                wire.connect(lose="answer")
            case "cut":
                wire.cut()
            case "restart":
                wire.restart(name)
        wire.check()
    wire.connect()
    wire.settle()
    wire.check()
    for name, other in ("AB", "BA"):
        assert len(wire.seen[name]) == wire.sent[other]
        assert wire.ends[other].buffered_bytes == 0


def test_a_connection_that_comes_back_loses_nothing() -> None:
    wire = Wire()
    wire.connect()
    for _ in range(3):
        wire.send("A")
        wire.write("A")
    wire.arrive("B", 35)  # the first, and a part of the second
    wire.take("B")
    wire.now_us += 10_000_000
    wire.cut()
    assert wire.ends["A"].tick(wire.now_us + SMALL.give_up_us) == []
    wire.send("A")
    wire.connect()
    wire.settle()
    assert wire.ups == {"A": 1, "B": 1}
    assert [number for _, number in wire.seen["B"]] == [0, 1, 2, 3]


def test_a_neighbour_that_restarted_is_a_fresh_link() -> None:
    wire = Wire()
    wire.connect()
    wire.send("A")
    wire.restart("B")
    assert wire.ends["A"].state is LinkSessionState.AWAY
    said, answer = wire.ends["A"].hello(), wire.ends["B"].hello()
    assert changes(wire.ends["B"].connected(said, 1)) == [UP]
    assert changes(wire.ends["A"].connected(answer, 1)) == [DOWN, UP]
    assert wire.ends["A"].buffered_bytes == 0


def test_a_link_given_up_is_a_fresh_link() -> None:
    wire = Wire()
    wire.connect()
    wire.cut()
    assert wire.ends["A"].tick(SMALL.give_up_us) == []
    assert changes(wire.ends["A"].tick(SMALL.give_up_us + 1)) == [DOWN]
    assert wire.ends["A"].send(Unsubscribe("nowhere"))
    said, answer = wire.ends["A"].hello(), wire.ends["B"].hello()
    assert changes(wire.ends["B"].connected(said, 1)) == [DOWN, UP]
    assert changes(wire.ends["A"].connected(answer, 1)) == [UP]
    assert wire.ends["A"].to_write() == b""


def test_a_pause_of_this_end_does_not_count_as_silence() -> None:
    wire = Wire()
    wire.connect()
    wire.ends["A"].discount_pause(50_000)
    assert not wire.ends["A"].is_silent(50_000 + SMALL.silence_us)
    assert wire.ends["A"].is_silent(50_001 + SMALL.silence_us)
    wire.cut()
    wire.ends["A"].discount_pause(50_000)
    assert wire.ends["A"].tick(50_000 + SMALL.give_up_us) == []
    assert changes(wire.ends["A"].tick(50_001 + SMALL.give_up_us)) == [DOWN]


def test_a_link_is_full_until_the_other_end_has_handled_enough() -> None:
    wire = Wire()
    wire.connect()
    sender = wire.ends["A"]
    while not sender.is_full:
        assert sender.send(Unsubscribe("x" * 80))
    assert SMALL.high_bytes < sender.buffered_bytes < SMALL.high_bytes + 110
    for _ in range(100):  # the other end reads and does not handle: the window closes
        wire.write("A")
        wire.arrive("B", 10_000)
    assert sender.is_full
    assert len(wire.ends["B"].take()) == 2
    while sender.is_full:
        wire.write("B")
        wire.arrive("A", 10_000)
        wire.write("A")
        wire.arrive("B", 10_000)
        wire.ends["B"].take()
    assert sender.buffered_bytes <= SMALL.low_bytes


def test_a_link_that_keeps_too_much_must_be_given_up() -> None:
    wire = Wire()
    wire.connect()
    while wire.ends["A"].send(Unsubscribe("x" * 80)):
        assert wire.ends["A"].buffered_bytes <= SMALL.limit_bytes
    assert changes(wire.ends["A"].give_up()) == [DOWN]
    assert wire.ends["A"].buffered_bytes == 0


def test_a_batch_too_long_goes_in_parts() -> None:
    routed = tuple(
        RoutedPublication(
            Publication(
                publisher="P", sequence=n, published_us=0, attributes={"x": "y" * 5_000_000}
            ),
            MessageId("A", "P", n),
        )
        for n in range(5)
    )
    one, other = end("A", "B", limits=LinkLimits()), end("B", "A", limits=LinkLimits())
    said, answer = one.hello(), other.hello()
    one.connected(answer, 0)
    other.connected(said, 0)
    assert one.send(PublicationBatch(routed, 3))
    found: list[RoutedPublication] = []
    while one.buffered_bytes:
        other.receive(one.to_write(), 0)
        for message in other.take():
            assert isinstance(message, PublicationBatch)
            assert message.hops == 3
            found += message.publications
        one.receive(other.to_write(), 0)
    assert tuple(found) == routed
    with pytest.raises(WireError, match="cannot be written"):
        one.send(Unsubscribe("\ud800"))


def test_a_silent_end_is_dead() -> None:
    wire = Wire()
    wire.connect()
    for name in ("A", "B"):
        wire.ends[name].tick(1_000)
    assert wire.ends["A"].delay_us is None
    wire.write("A")
    wire.arrive("B", 10_000)
    wire.write("B")
    wire.now_us = 9_000
    wire.arrive("A", 10_000)
    wire.write("A")
    wire.arrive("B", 10_000)
    wire.write("B")
    wire.arrive("A", 10_000)
    assert wire.ends["A"].delay_us == 4_000
    assert not wire.ends["A"].is_silent(9_000 + SMALL.silence_us)
    assert wire.ends["A"].is_silent(9_001 + SMALL.silence_us)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Acknowledge(1), "an acknowledgement of 1 messages that were not sent"),
        (Acknowledge(-1), "an acknowledgement of -1 messages"),
        (Hello(PROTOCOL, "net", "B", (1, 0), None, 0), "Hello in the middle of a session"),
        (RefuseConnection("go away"), "refused by the other end: go away"),
        (framed(b"\x01\xc1"), "malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "no frame, or a damaged one"),
    ],
    ids=str,
)
def test_invalid_controls_are_errors(said: Acknowledge | bytes, problem: str) -> None:
    wire = Wire()
    wire.connect()
    with pytest.raises(WireError, match=problem):
        wire.ends["A"].receive(said if isinstance(said, bytes) else CODEC.encode(said), 1)


class Number(int):
    """A number whose comparisons are counted."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Number.compared += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Number.compared += 1
        return int(self) > other

    def __le__(self, other: int) -> bool:
        Number.compared += 1
        return int(self) <= other

    def __ge__(self, other: int) -> bool:
        Number.compared += 1
        return int(self) >= other


@pytest.mark.parametrize("spans", ["mixed", *at_length(["pieces", "whole", "none"])])
def test_settled_messages_are_found_with_bounded_work(spans: str) -> None:
    """With a search of all kept messages, 10,000 spans would take half a minute."""
    outbox = LinkOutbox(LinkLimits())
    settled: list[int] = []
    for number in range(5_000):
        outbox.put(b"x", AckTracker(partial(settled.append, number)), passes=True)
    for frame in outbox:
        frame.ack_tracker.settle()  # its owner has released it
    outbox.take()
    outbox.handle(5_000)
    said = {
        "whole": [(-5, 2**62)] * 10_000,
        "pieces": [(at, at + 700) for at in range(0, 5_000, 3)] * 7,
        "mixed": [(7, 3), (4_000, 2**62), (-(2**62), 20), (5, 5)] * 3_000,
        "none": [(2**40, 2**62)] * 10_000,
    }[spans]
    expected = {at for at in range(5_000) if any(first <= at <= last for first, last in set(said))}
    Number.compared = 0
    outbox.settle([(Number(first), Number(last)) for first, last in said])
    assert set(settled) == expected
    assert len(settled) == len(expected)
    assert Number.compared < 40 * (5_000 + len(said))
    assert outbox.bytes == 5_000 - len(expected)


def test_a_control_that_is_longer_than_any_is_not_read() -> None:
    """One of small parts takes seconds, and gigabytes."""
    wire = Wire()
    wire.connect()
    frame = CODEC.encode(Acknowledge(0, ((0, 0),) * 400_000))
    with pytest.raises(WireError, match="a control of 1200"):
        wire.ends["A"].receive(frame, 1)


def test_many_settlements_are_sent_in_parts() -> None:
    inbox = LinkInbox(LinkLimits())
    debts = [inbox.owe(at, at) for at in range(0, 4 * MOST_SPANS, 2)]
    for debt in debts:
        inbox.settle(debt)
    said = list(iter(inbox.acknowledgement, None))
    assert [len(each.settled) for each in said] == [MOST_SPANS] * 2
    assert [span for each in said for span in each.settled] == [(a, b) for a, b in debts]


def test_an_end_that_ignores_the_window_is_disconnected() -> None:
    wire = Wire()
    wire.connect()
    frame = CODEC.encode(Unsubscribe("x" * 2**22))
    for _ in range(4):
        wire.ends["A"].receive(frame, 1)
    with pytest.raises(WireError, match="more messages than the window allows"):
        wire.ends["A"].receive(frame, 1)


def test_contradicting_hellos_start_a_fresh_link() -> None:
    wire = Wire()
    wire.connect()
    wire.cut()
    before = wire.ends["A"].hello()
    with pytest.raises(WireError, match="7 messages cannot be handled, 0 were sent"):
        wire.ends["A"].connected(Hello(PROTOCOL, "net", "B", (1, 1), before.session, 7), 1)
    assert wire.ends["A"].hello().session != before.session


def test_a_session_given_up_while_connecting_is_not_resumed() -> None:
    wire = Wire()
    wire.ends["A"].hello()
    answer = wire.ends["B"].hello()
    wire.ends["A"].give_up()
    with pytest.raises(WireError, match="changed while the connection was made"):
        wire.ends["A"].connected(answer, 1)


def test_at_most_one_heartbeat_waits_to_be_written() -> None:
    wire = Wire()
    wire.connect()
    for now_us in range(5):
        wire.ends["A"].tick(now_us)
    assert wire.ends["A"].to_write() == CODEC.encode(Heartbeat(4))


def test_a_message_above_the_links_bound_is_refused() -> None:
    limits = LinkLimits(window_bytes=1_000, high_bytes=1_000, limit_bytes=20 * 2**20)
    ends = {"A": end("A", "B", limits=limits), "B": end("B", "A", limits=limits)}
    said, answer = ends["A"].hello(), ends["B"].hello()
    ends["B"].connected(said, 0)
    ends["A"].connected(answer, 0)
    longest = "x" * (limits.longest_frame_bytes - 100)
    assert ends["A"].send(Unsubscribe(longest))
    with pytest.raises(WireError, match=f"not {limits.longest_frame_bytes}"):
        ends["A"].send(Unsubscribe(longest + 100 * "x"))
    data = ends["A"].to_write()
    for start in range(0, len(data), 2**20):
        ends["B"].receive(data[start : start + 2**20], start)
        assert not ends["B"].is_silent(start + limits.silence_us)  # however long one takes
    assert ends["B"].take() == [Unsubscribe(longest)]
