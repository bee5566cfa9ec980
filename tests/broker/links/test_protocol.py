"""The link protocol: frames of bounded length, the same at both ends."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL, check_protocol
from shoal.broker.links.session import LinkSession
from shoal.broker.messages import (
    MOST_CARRIED,
    MOST_TOGETHER,
    Message,
    PublicationBatch,
    RoutedPublication,
    Together,
    Unsubscribe,
)
from shoal.broker.wire import COMMON, Codec, WireError
from shoal.model import MessageId, Publication


class AwaitedMessage(Message, frozen=True):
    """An awaited message that is no publication."""

    text: str
    introduces: ClassVar[bool] = True
    joins: ClassVar[bool] = True
    is_awaited: ClassVar[bool] = True


CODEC = Codec((*COMMON, *CONTROLS, AwaitedMessage))


def ends(limits: LinkLimits | None = None) -> tuple[LinkSession, LinkSession]:
    """The two ends of a link, connected."""
    one = LinkSession("n", "A", "B", 1, CODEC, limits)
    other = LinkSession("n", "B", "A", 1, CODEC, limits)
    said, answer = one.hello(), other.hello()
    one.connected(answer, 0)
    other.connected(said, 0)
    return one, other


def arrived(one: LinkSession, other: LinkSession) -> list[Message]:
    other.receive(one.to_write(), 1)
    return other.take()


def test_an_end_that_speaks_another_protocol_is_refused() -> None:
    check_protocol("A", PROTOCOL, "B", PROTOCOL)
    with pytest.raises(WireError, match="B speaks link protocol 2, A speaks 1: start both with"):
        check_protocol("A", PROTOCOL, "B", PROTOCOL + 1)


def test_messages_of_one_input_go_as_one() -> None:
    one, other = ends()
    both = Together((Unsubscribe("s"), Unsubscribe("t")))
    one.send(both)
    assert arrived(one, other) == [both]


def test_messages_too_long_together_go_one_by_one() -> None:
    # A link with the narrowest bounds accepts no frame above 16 MiB.
    one, other = ends(LinkLimits(limit_bytes=2**20))
    long = tuple(Unsubscribe(name * 9 * 2**20) for name in "st")
    one.send(Together(long))
    assert arrived(one, other) == [long[0]]
    one.receive(other.to_write(), 1)
    assert arrived(one, other) == [long[1]]


def test_more_publications_than_one_read_go_in_parts() -> None:
    one, other = ends()
    publication = Publication(publisher="P", sequence=1, published_us=1, attributes={})
    routed = RoutedPublication(publication, MessageId("B", "P", 1))
    one.send(PublicationBatch((routed,) * (MOST_CARRIED + 2), hops=1))
    assert (
        arrived(one, other) == [PublicationBatch((routed,) * (MOST_CARRIED // 2 + 1), hops=1)] * 2
    )
    one.send(Together((Unsubscribe("s"),) * (MOST_TOGETHER + 1)))
    assert arrived(one, other) == [Unsubscribe("s")] * (MOST_TOGETHER + 1)


def test_an_awaited_message_is_settled_by_the_other_end() -> None:
    one, other = ends()
    settled: list[bool] = []
    ack_tracker = AckTracker(partial(settled.append, True))
    one.send(Together((AwaitedMessage("w"), Unsubscribe("s"))), ack_tracker)
    ack_tracker.settle()
    arrived(one, other)
    one.receive(other.to_write(), 2)
    assert settled == []
    other.settle(other.owe(0, 0))
    one.receive(other.to_write(), 3)
    assert settled == [True]


def test_an_awaited_message_is_not_repeated_over_another_link() -> None:
    """Tables are sent anew there, so messages of a lost link need no retransmission."""
    one, other = ends()
    settled: list[bool] = []
    ack_tracker = AckTracker(partial(settled.append, True))
    one.send(AwaitedMessage("w"), ack_tracker)
    ack_tracker.settle()
    arrived(one, other)
    assert settled == []
    assert one.recall(None, moves=False) == []
    one.give_up()
    assert one.returned() == []
    assert settled == [True]
