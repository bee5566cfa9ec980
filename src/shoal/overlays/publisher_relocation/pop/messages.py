"""What brokers say to each other to trace publications and to find a publisher's broker (POP).

Names are the paper's, spelled out: trace result message (TRM), relocation request and answer (RRM,
RAM).  Where the paper identifies a publisher by its advertisement, these do by the publisher: it
may have several, and moves with all of them.

Source: Cheung and Jacobsen, publisher relocation, sections 3.1 and 3.2.
"""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId, ClientId, MessageId


class TraceResult(Message, frozen=True):
    """Upstream: how many subscribers the sender and all brokers below delivered a publication to.

    The paper's message names the advertisement only; naming the publication as well tells a late
    result from the one that is waited for.
    """

    publication: MessageId
    subscribers: int


class RelocationRequest(Message, frozen=True):
    """To the neighbour that is closest to most subscribers: look further from there.

    `subscribers` is how many there are on the sender's side of the link, on average; `path` has
    the brokers that were asked, the last one first.
    """

    publisher: ClientId
    subscribers: float
    path: tuple[BrokerId, ...]


class RelocationAnswer(Message, frozen=True):
    """Back along `path` to its last broker: the publisher belongs at its first."""

    publisher: ClientId
    path: tuple[BrokerId, ...]


MESSAGES: Vocabulary = (TraceResult, RelocationRequest, RelocationAnswer)
