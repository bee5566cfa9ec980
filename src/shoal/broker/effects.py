"""Inputs and effects of the broker machine.

Both are plain data. A driver (the simulator, the live network) turns events into inputs, in their
order, and carries effects out in their order; it makes no decisions.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from shoal.broker.messages import Carrier, Message, RoutedPublication
from shoal.model import BrokerId, ClientId, SubscriptionId

# A name within one broker: the part of the broker that uses it, then its purpose.
Key = tuple[str, ...]
TimerKey = Key


# --- inputs -----------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    """The broker starts, for the first time or after a crash: the first input of its incarnation.

    `former` are its earlier neighbours, as far as they are known. The broker waits for them as for
    a neighbour that disconnects, which is given up after `give_up_us`. `facts` are those of its
    last `Remember`.
    """

    former: tuple[BrokerId, ...] = ()
    give_up_us: int = 60_000_000
    facts: Mapping[str, Any] = {}


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message came from a neighbour, in the order it was sent."""

    neighbour: BrokerId
    message: Message


class Requested(msgspec.Struct, frozen=True, gc=False):
    """A request came from a client, in the order it was made."""

    client: ClientId
    request: Message


class TimerFired(msgspec.Struct, frozen=True):
    key: TimerKey


class LinkState(enum.Enum):
    """The new state of a link.

    UP      the link is up, and empty
    FAILED  the link is down, or did not come up; frames in it may be lost
    ENDED   the link has ended on purpose (`EndLink`), and was empty
    """

    UP = "up"
    FAILED = "failed"
    ENDED = "ended"


class LinkChanged(msgspec.Struct, frozen=True):
    """The link to a neighbour came up, failed or ended.

    A link that is not `is_lasting` belongs to no overlay: a change of links opened it, and may
    adopt it.

    Up again without a failure in between: the neighbour has restarted, and has no tables.
    """

    neighbour: BrokerId
    state: LinkState
    is_lasting: bool = True

    @property
    def up(self) -> bool:
        return self.state is LinkState.UP


class Returned(msgspec.Struct, frozen=True):
    """A carrier that was not settled at a neighbour when its link was given up.

    It comes after the link's failure, in the order of sending, marked. Carriers that the machine
    has recalled come next, before all held inputs.
    """

    neighbour: BrokerId
    carrier: Carrier


class MeasuredDelays(msgspec.Struct, frozen=True):
    """Averages of the broker's delays since the last report, in µs (see `WatchDelays`).

    `output_us` is queueing, transmission and link delay to each neighbour with traffic;
    `client_output_us` the same to the clients. None: nothing to average.

    `busy` is the part of the time in which the broker worked, 0 to 1, and `served_us` its work for
    each publication that came in, whatever that work was.
    """

    input_queue_us: int | None
    matching_us: int | None
    output_us: Mapping[BrokerId, int]
    client_output_us: int | None
    busy: float | None = None
    served_us: int | None = None


class LinkLoad(msgspec.Struct, frozen=True):
    """The output queue to one neighbour, counted in publications and control messages.

    `entered` and `left` it in the last window; `waiting` are in it at the window's end.
    """

    entered: int
    left: int
    waiting: int


class Loads(msgspec.Struct, frozen=True):
    """Each link's load in the window that has just ended (see `WatchLoads`).

    A window without traffic may be left out if the queues are as at the end of the one before.
    """

    links: Mapping[BrokerId, LinkLoad]


class Costs(msgspec.Struct, frozen=True):
    """The costs of messages, at once and when they change (see `WatchCosts`).

    `here` is the cost of processing a message, `links` the cost of sending it to each broker that
    may be a neighbour; this broker may not be linked to others.
    """

    here: float
    links: Mapping[BrokerId, float]


class Departed(msgspec.Struct, frozen=True):
    """A broker has left the network, and this one missed the end of the link between them.

    It comes after the failure of the link, which will not come up again. A dead broker's
    `successor` has its place.
    """

    broker: BrokerId
    successor: BrokerId = ""


class Dead(msgspec.Struct, frozen=True):
    """An operator declares a neighbour dead; these others were linked to it, too.

    `Answered` answers at once whether the system can do that now.
    """

    broker: BrokerId
    others: tuple[BrokerId, ...] = ()


class Leave(msgspec.Struct, frozen=True):
    """Leave the network; the broker's clients have gone.

    `Left` answers when it is done, or `Stays`.
    """


class Stay(msgspec.Struct, frozen=True):
    """Cancel the leave; `Answered` answers at once."""


class Order(msgspec.Struct, frozen=True):
    """An operator's order that only the system understands; `Answered` answers at once."""

    name: str
    said: Mapping[str, str] = {}


class ProcessAnswered(msgspec.Struct, frozen=True):
    """The outcome of `StartBroker`, or, with `is_end`, of `EndBroker`: a problem, or an empty text.

    A driver bounds the time of both, and answers each.
    """

    broker: BrokerId
    problem: str = ""
    is_end: bool = False


class LeaveRefused(msgspec.Struct, frozen=True):
    """The driver cannot follow `LeaveNetwork` now."""

    reason: str


Input = (
    Started
    | Received
    | Requested
    | TimerFired
    | LinkChanged
    | Returned
    | MeasuredDelays
    | Loads
    | Costs
    | Departed
    | Dead
    | Leave
    | Stay
    | Order
    | ProcessAnswered
    | LeaveRefused
)


# --- effects ----------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a message to a neighbour, after all earlier ones."""

    neighbour: BrokerId
    message: Message


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Deliver a publication to a local client, once, for these subscriptions."""

    client: ClientId
    routed: RoutedPublication
    subscriptions: tuple[SubscriptionId, ...]
    hops: int


class Notify(msgspec.Struct, frozen=True):
    """Send a control message to a client (its library acts on it, not its application)."""

    client: ClientId
    message: Message


class MatchingWork(msgspec.Struct, frozen=True):
    """Matching on one core: the number of publications, and of subscriptions searched in all."""

    publications: int
    searched: int


class SetTimer(msgspec.Struct, frozen=True):
    """Fire `key` once at `at_us`; replaces a timer of that key.

    With `work` the timer stands for matching: so many publications, and pairs of publication and
    subscription, keep one core busy until it fires. A live driver ignores it, as matching takes its
    time when the timer fires; a simulator lets that time pass before.
    """

    key: TimerKey
    at_us: int
    work: MatchingWork | None = None


class CancelTimer(msgspec.Struct, frozen=True):
    key: TimerKey


class OpenLink(msgspec.Struct, frozen=True):
    """Bring up a link to a broker that may not be a neighbour yet; `LinkChanged` reports the
    result.

    `address` is for drivers that cannot derive it from the broker's name. A lasting link belongs to
    the overlay: the driver brings it up again and again, also after restarts of either end, until
    it is ended.
    """

    neighbour: BrokerId
    address: str = ""
    is_lasting: bool = False


class EndLink(msgspec.Struct, frozen=True):
    """End a link for good, when all that is sent over it, either way, is settled.

    Then both ends get `LinkState.ENDED`. If it fails before, it has failed, and it is not brought
    up again.
    """

    neighbour: BrokerId


class DropLink(msgspec.Struct, frozen=True):
    """End a link at once: an operator has declared the other end dead.

    Unsettled carriers come back (`Returned`); both ends get `LinkState.ENDED`.
    """

    neighbour: BrokerId


class Recall(msgspec.Struct, frozen=True):
    """Return the unsettled carriers of a neighbour (`Returned`), to be sent another way.

    Each publication once, and none that came from the neighbour `over` to which it is to go. If it
    `moves`, the first neighbour need not settle it, and an ending link ends without it.
    """

    neighbour: BrokerId
    over: BrokerId | None = None
    moves: bool = False


class Hold(msgspec.Struct, frozen=True):
    """Hold messages of neighbours except these, and requests of clients, until `Release`.

    They are kept in order, not handled and so not settled. All other inputs still come. Another
    `Hold` replaces the one before.
    """

    but: tuple[BrokerId, ...] = ()


class Release(msgspec.Struct, frozen=True):
    """Handle the held inputs, in order, then later ones."""


class LinkReady(msgspec.Struct, frozen=True):
    """The neighbour's routing table is complete: publications may be sent to it."""

    neighbour: BrokerId


class ResetLink(msgspec.Struct, frozen=True):
    """Give the link up: drop its frames, report it to both ends, then bring it up anew."""

    neighbour: BrokerId


class WatchDelays(msgspec.Struct, frozen=True):
    """Measure this broker's delays, and report them (`MeasuredDelays`) about every second."""


class WatchLoads(msgspec.Struct, frozen=True):
    """Report the traffic of the links (`Loads`) for each window; the last `WatchLoads` holds."""

    window_us: int = 1_000_000


class WatchCosts(msgspec.Struct, frozen=True):
    """Report the costs of messages here and to other brokers (`Costs`), now and on changes."""


class Left(msgspec.Struct, frozen=True):
    """The broker has left the network, and its driver may stop it."""


class Unsettled(msgspec.Struct, frozen=True):
    """This input is not complete when it is handled: acknowledgements wait for `Settled`.

    A driver whose clients wait for nothing ignores both.
    """

    key: Key


class Settled(msgspec.Struct, frozen=True):
    """An unsettled input is complete."""

    key: Key


class Continue(msgspec.Struct, frozen=True):
    """The next effects belong to the unsettled input of this key; None: to the present input.

    So the frames that they send count for that input.
    """

    key: Key | None


class Remember(msgspec.Struct, frozen=True):
    """Facts about the overlay for the next start, in place of the earlier ones.

    Texts, numbers, lists and dicts by text: values of a file of facts (`Started.facts`).
    """

    facts: Mapping[str, Any]


class Stays(msgspec.Struct, frozen=True):
    """The broker cannot leave now; a later attempt may succeed."""

    reason: str


class Answered(msgspec.Struct, frozen=True):
    """An order is followed, or a leave cancelled; or the reason why not."""

    problem: str = ""


class MoveClient(msgspec.Struct, frozen=True):
    """Redirect a client to another broker, with its subscriptions, advertisements and queue.

    Make before break: nothing is lost, duplicated or reordered. The result is not reported: a
    driver ignores it if the broker or the client cannot.
    """

    client: ClientId
    broker: BrokerId


class StartBroker(msgspec.Struct, frozen=True):
    """Start the process of a broker that is not running; `ProcessAnswered` has the outcome.

    The broker joins the network by itself.
    """

    broker: BrokerId


class EndBroker(msgspec.Struct, frozen=True):
    """End the process of a broker that is no part of the network: it has left, or never joined.

    `ProcessAnswered` has the outcome.
    """

    broker: BrokerId


class LeaveNetwork(msgspec.Struct, frozen=True):
    """Leave the network as if an operator had ordered it, or, without `leaves`, take that back.

    `Leave` follows when the broker's clients have gone, or `LeaveRefused`.
    """

    leaves: bool = True


class Record(msgspec.Struct, frozen=True):
    """A row of the trace (see `shoal.broker.records`)."""

    record: msgspec.Struct


Effect = (
    Send
    | Deliver
    | Notify
    | SetTimer
    | CancelTimer
    | OpenLink
    | LinkReady
    | ResetLink
    | EndLink
    | DropLink
    | Recall
    | Hold
    | Release
    | WatchDelays
    | WatchLoads
    | WatchCosts
    | Left
    | Stays
    | Answered
    | Unsettled
    | Settled
    | Continue
    | Remember
    | MoveClient
    | StartBroker
    | EndBroker
    | LeaveNetwork
    | Record
)
