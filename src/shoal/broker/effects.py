"""The broker's door: inputs that drivers bring, effects that drivers carry out.

Inputs and effects are plain data.  A driver (the simulator, the live network) turns what
happens to a broker into inputs, in the order it happens, and carries the effects out in the
order they come; it decides nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

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
    `facts` are what it has said last that it must not forget (`Remember`).
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
    """What became of a link.

    UP      it is there, and nothing sent before is in it
    FAILED  it is gone, or did not come up; what was in it may be lost
    ENDED   it is gone on purpose (`EndLink`), and nothing was in it
    """

    UP = "up"
    FAILED = "failed"
    ENDED = "ended"


class LinkChanged(msgspec.Struct, frozen=True):
    """The link to a neighbour came up, failed or ended.

    `opened_us` is when a lasting link was opened on purpose, 0 if it always was there; None: it
    does not last.

    Up without a word before: the neighbour has come back soon, and knows nothing of what was said.
    """

    neighbour: BrokerId
    state: LinkState
    opened_us: int | None = 0

    @property
    def up(self) -> bool:
        return self.state is LinkState.UP


class Returned(msgspec.Struct, frozen=True):
    """What was sent to a neighbour, and was not settled there when its link was given up.

    It comes behind the word that the link is down, in the order in which it was sent, marked.  What
    the machine has recalled comes next, before all that is held back.
    """

    neighbour: BrokerId
    carrier: Carrier


class Measured(msgspec.Struct, frozen=True):
    """For who asked to `WatchDelays`: averages of the broker's delays since the last report, in µs.

    `output_us` is queueing, transmission and link delay to each neighbour that was sent
    something; `client_output_us` the same to the clients.  None: nothing to average.
    """

    input_queue_us: int | None
    matching_us: int | None
    output_us: Mapping[BrokerId, int]
    client_output_us: int | None


class LinkLoad(msgspec.Struct, frozen=True):
    """The output queue to one neighbour, counted in publications and control messages.

    `entered` and `left` it in the last window; `waiting` are in it at the window's end.
    """

    entered: int
    left: int
    waiting: int


class Loads(msgspec.Struct, frozen=True):
    """For who asked to `WatchLoads`: each link's load in the window that has just ended.

    A window in which nothing passed may be left out where all is as at the end of the one before.
    """

    links: Mapping[BrokerId, LinkLoad]


class Costs(msgspec.Struct, frozen=True):
    """For who asked to `WatchCosts`: at once, and when they change.

    `here` is what a message costs to process, `links` to send it to each broker that this one may
    be linked to, neighbour or not; to others it may not.
    """

    here: float
    links: Mapping[BrokerId, float]


class Departed(msgspec.Struct, frozen=True):
    """A broker has left the network, and this one did not hear that the link between them ended.

    It comes behind the word that the link is down; that link will not be there again.  Of a dead
    broker the `successor` is the one that has its place.
    """

    broker: BrokerId
    successor: BrokerId = ""


class Dead(msgspec.Struct, frozen=True):
    """A neighbour is dead, as an operator says; these others were linked to it, too.

    `Answered` answers at once whether that can be done now.
    """

    broker: BrokerId
    others: tuple[BrokerId, ...] = ()


class Leave(msgspec.Struct, frozen=True):
    """The broker is to leave the network; its clients have gone.

    `Left` answers, when it has, or `Stays`.
    """


class Stay(msgspec.Struct, frozen=True):
    """The broker takes its leave back; `Answered` answers, at once."""


class Order(msgspec.Struct, frozen=True):
    """An operator orders what only the system knows how to do; `Answered` answers, at once."""

    name: str
    said: Mapping[str, str] = {}


Input = (
    Started
    | Received
    | Requested
    | TimerFired
    | LinkChanged
    | Returned
    | Measured
    | Loads
    | Costs
    | Departed
    | Dead
    | Leave
    | Stay
    | Order
)


# --- effects ----------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a message to a neighbour, behind all sent to it before."""

    neighbour: BrokerId
    message: Message


class Deliver(msgspec.Struct, frozen=True, gc=False):
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

    `address` is for drivers to whom the broker's name does not say where it is.  A lasting link is
    one of the overlay as it is now: it is brought up again and again, also when either end has
    started anew, until it is ended.
    """

    neighbour: BrokerId
    address: str = ""
    is_lasting: bool = False


class EndLink(msgspec.Struct, frozen=True):
    """End a link for good, once all that is sent over it, either way, is settled.

    Then both ends hear that it has ended.  Should it fail before, it has failed, and it is not
    brought up again.
    """

    neighbour: BrokerId


class DropLink(msgspec.Struct, frozen=True):
    """The other end of a link is dead, as an operator says: the link has ended for good.

    What was not settled there comes back (`Returned`); both ends hear that the link has ended.
    """

    neighbour: BrokerId


class Recall(msgspec.Struct, frozen=True):
    """Bring what a neighbour was sent and has not settled (`Returned`), to be sent another way.

    Each publication once, and none that came from the neighbour `over` whose link it is to go.  If
    it `moves`, the first need not settle it, and a link that is ended ends without it.
    """

    neighbour: BrokerId
    over: BrokerId | None = None
    moves: bool = False


class Hold(msgspec.Struct, frozen=True):
    """Bring no messages of neighbours but these, and no requests of clients, until `Release`.

    They are kept as they come, not handled and so not settled.  All other inputs still come.
    Another `Hold` replaces the one before.
    """

    but: tuple[BrokerId, ...] = ()


class Release(msgspec.Struct, frozen=True):
    """Bring what was held back, in its order, then what comes."""


class LinkReady(msgspec.Struct, frozen=True):
    """The neighbour, whose link came up, knows where publications go: they may be sent to it."""

    neighbour: BrokerId


class ResetLink(msgspec.Struct, frozen=True):
    """Give the link up: drop what is in it, tell both ends, then bring it up anew."""

    neighbour: BrokerId


class WatchDelays(msgspec.Struct, frozen=True):
    """Measure this broker's delays from now on, and report them (`Measured`) about every second."""


class WatchLoads(msgspec.Struct, frozen=True):
    """Report what passes the links (`Loads`) for each window from now on; the last one counts."""

    window_us: int = 1_000_000


class WatchCosts(msgspec.Struct, frozen=True):
    """Say what messages cost here and to other brokers (`Costs`), now and whenever it changes."""


class Left(msgspec.Struct, frozen=True):
    """The broker has left: the network does without it, and its driver may stop it."""


class Unsettled(msgspec.Struct, frozen=True):
    """This input is not done when it is handled: who waits for it waits until `Settled`.

    A driver whose clients wait for nothing ignores both.
    """

    key: Key


class Settled(msgspec.Struct, frozen=True):
    """What was said to be unsettled is done."""

    key: Key


class Continue(msgspec.Struct, frozen=True):
    """The effects that follow are of the input that is unsettled under this key; None: of this one.

    So what they send is settled where that input is.
    """

    key: Key | None


class Remember(msgspec.Struct, frozen=True):
    """What a broker must know of the overlay when it starts again, in place of what it said before.

    Texts, numbers, lists and dicts by text: what a file of facts can hold (`Started.facts`).
    """

    facts: Mapping[str, Any]


class Stays(msgspec.Struct, frozen=True):
    """The broker cannot leave now: asked again later it may."""

    reason: str


class Answered(msgspec.Struct, frozen=True):
    """An order is followed, or a leave is taken back; or why that cannot be."""

    problem: str = ""


class MoveClient(msgspec.Struct, frozen=True):
    """Send a client to another broker, with what it has subscribed to, advertised and is owed.

    It makes before it breaks: nothing is lost, doubled or out of order.  Nothing says what came of
    it: a driver lets it be where the broker or the client cannot.
    """

    client: ClientId
    broker: BrokerId


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
    | Record
)
