"""The broker's door: inputs that drivers bring, effects that drivers carry out.

Inputs and effects are plain data.  A driver (the simulator, the live network) turns what
happens to a broker into inputs, in the order it happens, and carries the effects out in the
order they come; it decides nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from shoal.broker.messages import Carrier, Message, RoutedPublication
from shoal.model import BrokerId, ClientId, SubscriptionId

# Names within one broker: the part of the broker that gave it, then what for.
Key = tuple[str, ...]
TimerKey = Key


# --- inputs -----------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    """The broker starts, for the first time or after a crash: the first input of its life.

    `former` are the brokers that it was linked to before, as far as anybody remembers.  They are
    waited for like one that goes away while the broker runs, which is given up after `give_up_us`.
    """

    former: tuple[BrokerId, ...] = ()
    give_up_us: int = 60_000_000


class Received(msgspec.Struct, frozen=True):
    """A message came from a neighbour, in the order it was sent."""

    neighbour: BrokerId
    message: Message


class Requested(msgspec.Struct, frozen=True):
    """A request came from a client, in the order it was made."""

    client: ClientId
    request: Message


class TimerFired(msgspec.Struct, frozen=True):
    key: TimerKey


class LinkState(enum.Enum):
    UP = "up"
    FAILED = "failed"
    ENDED = "ended"


class LinkChanged(msgspec.Struct, frozen=True):
    """The link to a neighbour came up (nothing sent before is in it) or went down.

    Up without down before: the neighbour has come back soon, and knows nothing of what was said.
    """

    neighbour: BrokerId
    state: LinkState

    @property
    def up(self) -> bool:
        return self.state is LinkState.UP


class Returned(msgspec.Struct, frozen=True):
    """What was sent to a neighbour, and was not settled there when its link was given up.

    It comes behind the word that the link is down, in the order in which it was sent, marked.
    """

    neighbour: BrokerId
    carrier: Carrier


class Measured(msgspec.Struct, frozen=True):
    """For who asked to `Watch`: averages of the broker's delays since the last report, in µs.

    `output_us` is queueing, transmission and link delay to each neighbour that was sent
    something; `client_output_us` the same to the clients.  None: nothing to average.
    """

    input_queue_us: int | None
    matching_us: int | None
    output_us: Mapping[BrokerId, int]
    client_output_us: int | None


Input = Started | Received | Requested | TimerFired | LinkChanged | Returned | Measured


# --- effects ----------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Send a message to a neighbour, behind all sent to it before."""

    neighbour: BrokerId
    message: Message


class Deliver(msgspec.Struct, frozen=True):
    """Deliver a publication to a local client, once, for these subscriptions of its."""

    client: ClientId
    routed: RoutedPublication
    subscriptions: tuple[SubscriptionId, ...]
    hops: int


class Notify(msgspec.Struct, frozen=True):
    """Send a control message to a client (its library acts on it, not its application)."""

    client: ClientId
    message: Message


class Work(msgspec.Struct, frozen=True):
    """Matching on one core: how many publications, against how many subscriptions in all."""

    publications: int
    searched: int


class SetTimer(msgspec.Struct, frozen=True):
    """Fire `key` once at `at_us`; a timer of that key that is already set is replaced.

    With `work` the timer stands for matching: so many publications, and pairs of publication and
    subscription to search, which one core is busy with until it fires.  A live driver ignores it,
    as matching takes its time when the timer fires; a simulated one lets that time pass before.
    """

    key: TimerKey
    at_us: int
    work: Work | None = None


class CancelTimer(msgspec.Struct, frozen=True):
    key: TimerKey


class OpenLink(msgspec.Struct, frozen=True):
    """Bring up a link to a broker that may be no neighbour yet; it is said when it is up, or not.

    `address` is for drivers to whom the broker's name does not say where it is.
    """

    neighbour: BrokerId
    address: str = ""


class LinkReady(msgspec.Struct, frozen=True):
    """The neighbour, whose link came up, knows where publications go: they may be sent to it."""

    neighbour: BrokerId


class CloseLink(msgspec.Struct, frozen=True):
    """Give the link up: drop what is in it, tell both ends, then bring it up anew."""

    neighbour: BrokerId


class Watch(msgspec.Struct, frozen=True):
    """Measure this broker's delays from now on, and report them (`Measured`) about every second."""


class Unsettled(msgspec.Struct, frozen=True):
    """This input is not done when it is handled: who waits for it waits until `Settled`.

    A driver whose clients wait for nothing ignores both.
    """

    key: Key


class Settled(msgspec.Struct, frozen=True):
    """What was said to be unsettled is done."""

    key: Key


class Record(msgspec.Struct, frozen=True):
    """Something worth a row in the trace (see `shoal.broker.records`)."""

    record: msgspec.Struct


Effect = (
    Send
    | Deliver
    | Notify
    | SetTimer
    | CancelTimer
    | OpenLink
    | LinkReady
    | CloseLink
    | Watch
    | Unsettled
    | Settled
    | Record
)
