"""The front end's side of a forwarding channel.

Nothing is lost in a short disconnection, and everything is returned after a long one.
"""

from __future__ import annotations

from functools import partial

import pytest

from shoal.broker import wire
from shoal.broker.ack_tracker import Errand
from shoal.broker.links.controls import Purpose
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Goodbye, Publish, Rejected
from shoal.broker.wire import HEAD_BYTES, Codec, WireError
from shoal.clients.forwarding_channel import (
    ChannelForgotten,
    ForwardingChannel,
    ForwardingChannelEvent,
    ForwardingChannelLimits,
    Lost,
    Stranded,
)
from shoal.clients.forwarding_channel_messages import (
    FORWARDING_CHANNELS,
    ClientNotice,
    ClientRequest,
)
from shoal.model import Publication
from tests.broker.transcript import publish

CODEC = Codec(FORWARDING_CHANNELS)
LIMITS = ForwardingChannelLimits(lost_us=3_000, stranded_us=15_000, idle_us=60_000)


class Channel:
    """A front end's forwarding channel, its other side, and the requests that arrived there."""

    def __init__(self, links: LinkLimits | None = None) -> None:
        self.links = links or LinkLimits()
        self.forwarding_channel = ForwardingChannel(
            self.session("B1", "B9", 1), CODEC, LIMITS, now_us=0
        )
        self.restart(1)
        self.asked: list[int] = []
        self.sent = 0

    def session(self, broker: str, other: str, incarnation: int) -> LinkSession:
        return LinkSession(
            "net", broker, other, incarnation, CODEC, self.links, Purpose.FORWARDING_CHANNEL
        )

    def restart(self, incarnation: int) -> None:
        self.other = self.session("B9", "B1", incarnation)

    def ask(self, count: int, now_us: int) -> list[ForwardingChannelEvent]:
        events = []
        for _ in range(count):
            events += self.forwarding_channel.ask(ClientRequest("P", publish(self.sent)), now_us)
            self.sent += 1
        return events

    def connect(self, now_us: int) -> list[ForwardingChannelEvent]:
        said = self.forwarding_channel.session.hello()
        answer = self.other.hello()
        self.other.connected(said, now_us)
        return self.forwarding_channel.connected(answer, now_us)

    def cut(self, now_us: int) -> None:
        self.forwarding_channel.disconnected(now_us)
        self.other.lost(now_us)

    def carry(self, now_us: int, *, is_handled: bool = True) -> None:
        self.other.receive(self.forwarding_channel.session.to_write(), now_us)
        if is_handled:
            self.asked += numbers(self.other.take())
            self.forwarding_channel.session.receive(self.other.to_write(), now_us)


def numbers(requests: object) -> list[int]:
    assert isinstance(requests, list | tuple)
    return [publication.sequence for each in requests for publication in each.request.publications]


def test_requests_before_the_connection_wait() -> None:
    channel = Channel()
    channel.ask(3, 10)
    assert channel.connect(20) == []
    channel.ask(2, 30)
    channel.carry(40)
    assert channel.asked == [0, 1, 2, 3, 4]


def test_a_short_disconnection_loses_nothing() -> None:
    channel = Channel()
    channel.connect(0)
    channel.ask(3, 10)
    channel.carry(20, is_handled=False)
    channel.cut(30)
    channel.ask(2, 40)
    assert channel.forwarding_channel.tick(3_000) == []
    assert channel.forwarding_channel.tick(3_031) == [Lost("B9")]
    assert channel.forwarding_channel.tick(4_000) == []  # sent once
    assert channel.connect(10_030) == []
    channel.carry(10_040)
    assert channel.asked == [0, 1, 2, 3, 4]


def test_a_restarted_broker_returns_unhandled_requests() -> None:
    channel = Channel()
    channel.connect(0)
    channel.ask(2, 10)
    channel.carry(20)
    channel.ask(2, 30)
    channel.carry(40, is_handled=False)
    channel.cut(50)
    channel.ask(1, 60)
    channel.restart(2)
    (event,) = channel.connect(70)
    assert isinstance(event, ChannelForgotten)
    assert numbers(event.requests) == [2, 3, 4]
    channel.ask(1, 80)
    channel.carry(90)
    assert channel.asked == [0, 1, 5]


def test_a_long_disconnection_returns_everything_and_ends_the_session() -> None:
    channel = Channel()
    channel.connect(0)
    channel.ask(1, 10)
    channel.cut(20)
    channel.ask(1, 30)
    (event,) = channel.forwarding_channel.tick(15_021)
    assert isinstance(event, Stranded)
    assert numbers(event.requests) == [0, 1]
    channel.ask(1, 15_030)
    assert channel.connect(15_040) == []
    channel.carry(15_050)
    assert channel.asked == [2]


def test_a_broker_in_quarantine_strands_its_publishers() -> None:
    channel = Channel()
    channel.connect(0)
    channel.forwarding_channel.is_quarantined = True
    channel.ask(1, 0)
    events = []
    for now_us in range(1_000, 20_000, 1_000):
        channel.cut(now_us)
        events += channel.forwarding_channel.tick(now_us)
        if not events:
            channel.connect(now_us)
    assert [type(event) for event in events][:2] == [Lost, Stranded]
    assert numbers(events[1].requests) == [0]


def test_a_broker_that_never_connects_strands_its_publishers() -> None:
    channel = Channel()
    channel.ask(1, 10)
    assert channel.forwarding_channel.tick(3_001) == [Lost("B9")]
    (event,) = channel.forwarding_channel.tick(15_001)
    assert isinstance(event, Stranded)
    assert numbers(event.requests) == [0]


def test_requests_above_the_bound_strand() -> None:
    channel = Channel(LinkLimits(high_bytes=500, low_bytes=200, limit_bytes=4_000))
    channel.connect(0)
    assert channel.ask(20, 10) == []
    assert channel.forwarding_channel.is_full
    events = channel.ask(200, 20)
    assert isinstance(events[0], Stranded)
    assert numbers(events[0].requests)[:10] == list(range(10))
    assert channel.forwarding_channel.session.state is LinkSessionState.IDLE


def test_publications_too_long_together_go_in_several_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 1_000)
    channel = Channel()
    channel.connect(0)
    many = tuple(
        Publication(publisher="P", sequence=number, published_us=0, attributes={}, body=b"x" * 200)
        for number in range(10)
    )
    channel.forwarding_channel.ask(ClientRequest("P", Publish(many)), 10)
    channel.carry(20)
    assert channel.asked == list(range(10))
    alone = Publication(publisher="P", sequence=1, published_us=0, attributes={}, body=b"x" * 2_000)
    with pytest.raises(WireError, match="more than 1000"):
        channel.forwarding_channel.ask(ClientRequest("P", Publish((alone,))), 30)


def test_a_channel_without_open_requests_is_idle() -> None:
    channel = Channel()
    channel.connect(0)
    channel.ask(1, 10)
    assert not channel.forwarding_channel.is_idle(60_011)
    channel.carry(20)
    assert not channel.forwarding_channel.is_idle(60_010)
    assert channel.forwarding_channel.is_idle(60_011)


def test_messages_that_are_no_requests_are_refused() -> None:
    bad = Publication(publisher="P", sequence=1, published_us=0, attributes={"": 1})
    body = CODEC.encode(ClientRequest("P", Publish((bad,))))[HEAD_BYTES:]
    with pytest.raises(WireError, match="an attribute without a name"):
        CODEC.decode(body)
    for message in (ClientRequest("P", Goodbye()), ClientNotice("P", Rejected("no"))):
        assert CODEC.decode(CODEC.encode(message)[HEAD_BYTES:]) == message
    swapped = CODEC.encode(ClientNotice("P", Goodbye()))  # type: ignore[arg-type]
    with pytest.raises(WireError, match="Invalid value 'Goodbye'"):
        CODEC.decode(swapped[HEAD_BYTES:])


# --- awaited publications ---------------------------------------------------------------------


def awaited(
    channel: Channel, number: int, settled: list[int], now_us: int
) -> list[ForwardingChannelEvent]:
    """Ask to publish, and record when it is settled."""
    ack_tracker = Errand(partial(settled.append, number))
    events = channel.forwarding_channel.ask(
        ClientRequest("P", publish(number)), now_us, ack_tracker
    )
    ack_tracker.settle()
    return events


@pytest.mark.parametrize("is_there", [True, False])
def test_a_handled_publication_is_kept_until_it_is_settled(is_there: bool) -> None:
    channel = Channel()
    settled: list[int] = []
    if is_there:
        channel.connect(0)
    for number in range(3):
        awaited(channel, number, settled, 10)
    if not is_there:
        channel.connect(15)
    channel.carry(20)
    assert channel.asked == [0, 1, 2]
    assert settled == []
    assert not channel.forwarding_channel.is_idle(10**9)
    channel.other.settle(channel.other.owe(1, 2))
    channel.forwarding_channel.session.receive(channel.other.to_write(), 30)
    assert settled == [1, 2]
    channel.other.settle(channel.other.owe(0, 0))
    channel.forwarding_channel.session.receive(channel.other.to_write(), 30)
    assert settled == [1, 2, 0]
    assert channel.forwarding_channel.session.buffered_bytes == 0


def test_unsettled_publications_of_a_lost_broker_are_returned_silently() -> None:
    channel = Channel()
    settled: list[int] = []
    channel.connect(0)
    for number in range(3):
        awaited(channel, number, settled, 10)
    channel.carry(20)
    channel.other.settle(channel.other.owe(0, 0))
    channel.forwarding_channel.session.receive(channel.other.to_write(), 30)
    channel.cut(40)
    channel.restart(2)
    (event,) = channel.connect(50)
    assert isinstance(event, ChannelForgotten)
    assert numbers(event.requests) == [1, 2]
    assert settled == [0]


def test_unsettled_publications_of_a_stranded_channel_are_returned_silently() -> None:
    channel = Channel()
    settled: list[int] = []
    channel.connect(0)
    awaited(channel, 0, settled, 10)
    channel.carry(20)
    channel.cut(30)
    awaited(channel, 1, settled, 40)
    (event,) = channel.forwarding_channel.tick(40 + LIMITS.stranded_us)
    assert isinstance(event, Stranded)
    assert numbers(event.requests) == [0, 1]
    awaited(channel, 2, settled, 60)
    (event,) = channel.forwarding_channel.tick(10**9)
    assert isinstance(event, Stranded)
    assert numbers(event.requests) == [2]
    assert settled == []
