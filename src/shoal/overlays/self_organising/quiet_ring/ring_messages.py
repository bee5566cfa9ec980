"""What the brokers of a cycle say to each other to exchange two links of it (`quiet_ring.py`)."""

from __future__ import annotations

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.tree.messages import Stead
from shoal.overlays.tree.turning import Turn

# Who began an exchange, and when: no two have the same.
ExchangeKey = tuple[BrokerId, int]


class RingMessage(Message, frozen=True):
    """Base of what is said about links themselves, which waits for no tables."""

    introduces = True


class Halt(RingMessage, frozen=True):
    """From the cycle's last broker to its first: take in only what comes over the cycle."""

    key: ExchangeKey
    exchange: LinkExchange


class Halted(RingMessage, frozen=True):
    """From the first to the last: nothing more comes up the cycle.

    Beyond the link that goes it carries what the next broker's tables need to turn.
    `latest_us` is when a link's end here last came or went, as far as brokers on the way know.
    """

    key: ExchangeKey
    latest_us: int
    turn: Turn | None = None


class Drained(RingMessage, frozen=True):
    """From the last to the first: nothing more comes down the cycle; else as `Halted`."""

    key: ExchangeKey
    latest_us: int
    turn: Turn | None = None


class Verdict(RingMessage, frozen=True):
    """What became of an exchange; of two verdicts that it is done holds, unless one is void.

    at_us      when it was decided; 0 when that could be nothing else, as not all had agreed, and
               `latest_us` as well
    latest_us  when its ends of the links that change last came or went before, as far as who
               decided knows; who decides that it is done knows of all
    reason     why all is as it was
    is_void    it was done, and is to be undone: others took it for given up, and links of the cycle
               have changed since
    """

    key: ExchangeKey
    exchange: LinkExchange
    is_done: bool
    at_us: int
    latest_us: int
    reason: str = ""
    is_void: bool = False


class Doubt(RingMessage, frozen=True):
    """Who has agreed and cannot be told, as the cycle is broken, asks the other way round.

    Also whoever is linked anew.
    """

    key: ExchangeKey


class Forgotten(RingMessage, frozen=True):
    """To who is in doubt, from who knows nothing of that exchange, or not any more."""

    key: ExchangeKey


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """Whether a link belongs to the tree, and since when; of two words the later holds.

    instead_of  who left while the other end was away: if that one has none of its links any more,
                neither has it this one
    before      in whose place that one stood, and since when, newest first: these count where the
                other end has not heard of that
    """

    is_in: bool
    since_us: int
    instead_of: BrokerId | None = None
    before: Stead = ()

    @property
    def stead(self) -> Stead:
        """In whose place it belongs to the tree, and since when, newest first."""
        return () if self.instead_of is None else ((self.instead_of, self.since_us), *self.before)


class Greeting(RingMessage, frozen=True):
    """First over a link that has come up: whether it belongs to the tree, as its end remembers.

    `verdicts` are those on exchanges in which both ends had a part.
    """

    standing: Standing
    verdicts: tuple[Verdict, ...] = ()


MESSAGES: Vocabulary = (Halt, Halted, Drained, Verdict, Doubt, Forgotten, Greeting)
