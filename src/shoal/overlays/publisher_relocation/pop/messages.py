"""Messages between brokers to trace publications and to find a publisher's broker (POP).

Names are the paper's, spelled out: trace result message (TRM), relocation request and answer (RRM,
RAM). The paper identifies a publisher by its advertisement, these messages by its name: it may have
several advertisements, and moves with all of them.

Source: Cheung and Jacobsen, publisher relocation, sections 3.1 and 3.2.
"""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId, ClientId, MessageId


class TraceResult(Message, frozen=True):
    """Upstream: number of subscribers that the sender and all brokers below delivered a publication
    to.

    The paper's message names the advertisement only; with the publication's name a late result
    differs from the awaited one. `busy_percent` is ours: for how much of its time the busiest of
    these brokers is busy.
    """

    publication: MessageId
    subscribers: int
    busy_percent: int = 0


class RelocationRequest(Message, frozen=True):
    """To the neighbour that is closest to most subscribers: continue the search from there.

    `subscribers` is their number on the sender's side of the link, on average; `path` has the asked
    brokers, the last one first. Two are ours: the publisher's publications per second, and the
    number of its traces that its broker has.
    """

    publisher: ClientId
    subscribers: float
    path: tuple[BrokerId, ...]
    per_s: float = 0.0
    traced: int = 0


class RelocationAnswer(Message, frozen=True):
    """Back along `path` to its last broker: the publisher belongs at its first.

    If that is the receiver, the brokers behind it have no room (ours); the rest is the request's.
    """

    publisher: ClientId
    path: tuple[BrokerId, ...]
    per_s: float = 0.0
    traced: int = 0


MESSAGES: Vocabulary = (TraceResult, RelocationRequest, RelocationAnswer)
