"""Messages between the brokers of a cycle in a link reconfiguration (`link_reconfiguration.py`)."""

from __future__ import annotations

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.tree.turning import TableTurn

# The broker that began an exchange, and a time: no two exchanges have the same key.
ExchangeKey = tuple[BrokerId, int]


class RingMessage(Message, frozen=True):
    """Base of messages about links; they may precede the synchronisation of tables."""

    introduces = True


class Halt(RingMessage, frozen=True):
    """From the cycle's last broker to its first: accept only input over the cycle."""

    key: ExchangeKey
    exchange: LinkExchange


class Halted(RingMessage, frozen=True):
    """From the first to the last: nothing more comes up the cycle.

    Beyond the removed link it carries the facts for the next broker's turn. `latest_us` is when a
    link's end here last came or went, as far as brokers on the path know.
    """

    key: ExchangeKey
    latest_us: int
    turn: TableTurn | None = None


class Drained(RingMessage, frozen=True):
    """From the last to the first: nothing more comes down the cycle; else as `Halted`."""

    key: ExchangeKey
    latest_us: int
    turn: TableTurn | None = None


class ExchangeDecision(RingMessage, frozen=True):
    """The outcome of an exchange; of two decisions "done" overrides, unless one is void.

    at_us      when it was decided; 0 if not all had agreed, so that there was no choice: then
               `latest_us` is 0 as well
    latest_us  when its ends of the links that change last came or went before, as far as the
               deciding broker knows; for "done" it knows all of them
    reason     why nothing was changed
    is_void    it was done, and is to be undone: others took it for aborted, and links of the cycle
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
    """A broker that has agreed, and is cut off from the decision, asks the other way round.

    Also sent to a reconnected neighbour.
    """

    key: ExchangeKey


class ExchangeForgotten(RingMessage, frozen=True):
    """Answer to Doubt by a broker that does not know the exchange."""

    key: ExchangeKey


class LinkStanding(msgspec.Struct, frozen=True, array_like=True):
    """Whether a link belongs to the tree, and since when; of two entries the later is valid."""

    is_in: bool
    since_us: int


class Greeting(RingMessage, frozen=True):
    """First over a link that has come up: whether it belongs to the tree, by the sender's memory.

    `decisions` are the decisions on exchanges in which both ends had a part.
    """

    standing: LinkStanding
    decisions: tuple[ExchangeDecision, ...] = ()


MESSAGES: Vocabulary = (Halt, Halted, Drained, ExchangeDecision, Doubt, ExchangeForgotten, Greeting)
