"""Two versions on one link: the newest protocol that both speak, and what goes over it."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec
import pytest

from shoal.broker.custody import Custody
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocols import FIRST, OURS, Protocols
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
from shoal.broker.wire import COMMON, HEAD_BYTES, Codec, WireError
from shoal.model import MessageId, Publication


class Hint(Message, frozen=True):
    """What the next version says, and the one before it can do without."""

    text: str
    since: ClassVar[int] = 2


class Word(Message, frozen=True):
    """What somebody waits for, and what is no publication."""

    text: str
    introduces: ClassVar[bool] = True
    joins: ClassVar[bool] = True
    is_awaited: ClassVar[bool] = True


CODEC = Codec((*COMMON, *CONTROLS, Word))
# The older broker's, which would refuse what it does not know, and the newer one's.
LIMITS = LinkLimits()
OLDER, NEWER = Codec(COMMON + CONTROLS), Codec((*COMMON, *CONTROLS, Hint))


def ends(
    theirs: Protocols, codec: Codec, limits: LinkLimits = LIMITS
) -> tuple[LinkSession, LinkSession]:
    """A broker of the next version and its neighbour, connected."""
    one = LinkSession("n", "A", "B", 1, NEWER, limits, protocols=Protocols(1, 2))
    other = LinkSession("n", "B", "A", 1, codec, limits, protocols=theirs)
    said, answer = one.hello(), other.hello()
    other.connected(said, 0)
    one.connected(answer, 0)
    return one, other


def came(one: LinkSession, other: LinkSession) -> list[Message]:
    other.receive(one.to_write(), 1)
    return other.take()


def test_what_the_other_end_does_not_know_is_not_sent() -> None:
    one, other = ends(FIRST, OLDER)
    assert (one.protocol, other.protocol) == (1, 1)
    settled: list[bool] = []
    custody = Custody(lambda: settled.append(True))
    assert one.send(Hint("try B3"), custody)
    custody.settle()
    assert one.send(Unsubscribe("s"))
    assert came(one, other) == [Unsubscribe("s")]
    assert settled == [True]


def test_once_both_are_upgraded_it_is_sent() -> None:
    one, other = ends(Protocols(1, 2), NEWER)
    assert (one.protocol, other.protocol) == (2, 2)
    one.send(Hint("try B3"))
    assert came(one, other) == [Hint("try B3")]


def test_what_is_said_together_goes_one_by_one_to_who_does_not_know_that() -> None:
    both = Unsubscribe("s"), Unsubscribe("t")
    one, other = ends(FIRST, OLDER)
    assert one.send(Together(both))
    assert came(one, other) == [*both]
    one, other = ends(Protocols(1, 2), NEWER)
    assert one.send(Together(both))
    assert came(one, other) == [Together(both)]


def test_what_is_too_long_together_goes_one_by_one() -> None:
    # A link with bounds as narrow as they can be takes no frame of more than 16 MiB.
    one, other = ends(Protocols(1, 2), NEWER, LinkLimits(limit_bytes=2**20))
    long = tuple(Unsubscribe(name * 9 * 2**20) for name in "st")
    one.send(Together(long))
    assert came(one, other) == [long[0]]
    one.receive(other.to_write(), 1)
    assert came(one, other) == [long[1]]


def test_more_than_is_read_in_one_go_goes_in_parts() -> None:
    one, other = ends(Protocols(1, 2), NEWER)
    publication = Publication(publisher="P", sequence=1, published_us=1, attributes={})
    routed = RoutedPublication(publication, MessageId("B", "P", 1))
    one.send(PublicationBatch((routed,) * (MOST_CARRIED + 2), hops=1))
    assert came(one, other) == [PublicationBatch((routed,) * (MOST_CARRIED // 2 + 1), hops=1)] * 2
    one.send(Together((Unsubscribe("s"),) * (MOST_TOGETHER + 1)))
    assert came(one, other) == [Unsubscribe("s")] * (MOST_TOGETHER + 1)


def test_without_a_protocol_in_common_there_is_no_link() -> None:
    with pytest.raises(WireError, match="A speaks link protocol 1 to 2, B speaks 3 to 4"):
        ends(Protocols(3, 4), OLDER)


def test_a_broker_that_does_not_say_speaks_the_first() -> None:
    """As all did before there was a second."""
    hello = LinkSession("n", "B", "A", 1, OLDER).hello()
    assert hello.protocols == OURS
    name, *fields = msgspec.msgpack.decode(OLDER.encode(hello)[HEAD_BYTES + 1 :])
    shorter = msgspec.msgpack.encode([name, *fields[:-1]])
    read = OLDER.decode(OLDER.encode(hello)[HEAD_BYTES : HEAD_BYTES + 1] + shorter)
    assert read.protocols == FIRST


def test_word_of_what_is_awaited_comes_from_who_says_it() -> None:
    """A broker of the version before says of publications only when they are settled."""
    for theirs, is_settled in ((Protocols(1, 2), True), (Protocols(1, 3), False)):
        one = LinkSession("n", "A", "B", 1, CODEC, protocols=Protocols(1, 3))
        other = LinkSession("n", "B", "A", 1, CODEC, protocols=theirs)
        said, answer = one.hello(), other.hello()
        other.connected(said, 0)
        one.connected(answer, 0)
        settled: list[bool] = []
        custody = Custody(partial(settled.append, True))
        one.send(Together((Word("w"), Unsubscribe("s"))), custody)
        custody.settle()
        assert bool(settled) is is_settled
        came(one, other)
        other.settle(other.owe(0, 0))
        one.receive(other.to_write(), 2)
        assert settled == [True]


def test_what_is_awaited_is_not_said_again_over_another_link() -> None:
    """Tables are said anew there; whoever waits need not wait for what is gone with a link."""
    one, other = (LinkSession("n", *names, 1, CODEC) for names in (("A", "B"), ("B", "A")))
    said, answer = one.hello(), other.hello()
    other.connected(said, 0)
    one.connected(answer, 0)
    settled: list[bool] = []
    custody = Custody(partial(settled.append, True))
    one.send(Word("w"), custody)
    custody.settle()
    came(one, other)
    assert settled == []
    assert one.recall(None, moves=False) == []
    one.give_up()
    assert one.returned() == []
    assert settled == [True]
