"""What goes over one end of a link while it is in a session, and what is kept of that.

What is sent and not handled fits into a window, so the other end may stop handling messages for a
while (`take` not called) without a bound being crossed; acknowledgements are read even then.  On a
tree what an end has in custody depends on what lies beyond the other end and on nothing else.
Both let brokers hold back what comes from elsewhere while one link is full, and never wait for
each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.custody import Custody, Errand
from shoal.broker.links.controls import (
    Acknowledge,
    Control,
    Echo,
    Heartbeat,
    Lasts,
    Place,
    Stores,
    Whereabouts,
)
from shoal.broker.links.ending import Ending
from shoal.broker.links.frames import Frames, in_turn
from shoal.broker.links.inbox import Debt, LinkInbox
from shoal.broker.links.outbox import LinkLimits, LinkOutbox
from shoal.broker.links.pulse import Pulse
from shoal.broker.links.spool import Frame, Spool
from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import Codec, FrameReader, WireError
from shoal.model import BrokerId, ClientId


class LinkTraffic:
    """One end; whoever derives from it says when a session begins, goes on and ends."""

    def __init__(
        self, codec: Codec, limits: LinkLimits, spool: Spool | None, opened_us: int | None
    ) -> None:
        """`opened_us` is as in `Hello`."""
        self.opened_us = opened_us
        self._codec = codec
        self._limits = limits
        self._spool = spool
        self._frames = Frames(codec, limits.longest_frame_bytes)
        self._pulse = Pulse()
        self._ending = Ending()
        self._outbox = self._new_outbox()
        self._unsettled: list[Frame] = []
        self._heard: list[Whereabouts] = []
        self._stores = True
        # Whether the other end's disk takes what that must keep, as far as this end has heard.
        self.neighbour_stores = True
        self._start()
        self._connect()

    def _new_outbox(self) -> LinkOutbox:
        return LinkOutbox(self._limits, self._spool, self._frames.repeat)

    def _start(self) -> None:
        """Forget what came in the session."""
        self._inbox = LinkInbox(self._limits)

    def _connect(self) -> None:
        """Forget the connection."""
        self._reader = FrameReader(self._limits.longest_frame_bytes)
        self._inbox.reconnect()
        self._outbox.reconnect()
        self._pulse.reconnect()
        self._ending.reconnect()
        self._to_say: list[Control] = [] if self._stores else [Stores(False)]
        self.neighbour_stores = True

    def open_gate(self) -> None:
        """The other end has said its table, and can take publications."""
        self._outbox.open_gate()

    @property
    def _is_settled(self) -> bool:
        """Whether all is settled that this end has sent, and that has come."""
        on_disk = self._spool is not None and not self._spool.is_empty
        return not (self._outbox.bytes or on_disk) and self._inbox.is_settled

    def _take_back(self, frames: Iterable[Frame]) -> None:
        """These were not settled; errands among them are asked again elsewhere."""
        self._unsettled += [each for each in frames if not isinstance(each.custody, Errand)]

    def recall(self, over: BrokerId | None, *, moves: bool) -> list[tuple[Carrier, Custody]]:
        """What is not settled, marked, oldest first, to go another way, too, or instead.

        Each publication once, and none that came `over` the link that it is to go.  Each custody is
        to be settled, as of what is `returned`.  What is on disk goes only if it `moves`.
        """
        if moves:
            self._outbox.read_all()
        found, recalled = [], set[tuple[ClientId, int]]()
        for frame in self._outbox:
            custody = frame.custody
            if custody is None or (over is not None and custody.source == over):
                continue
            carrier = self._frames.marked(frame.data)
            if carrier is None:
                continue
            new = [each for each in carrier.publications if each.publication.key not in recalled]
            if new:
                recalled.update(each.publication.key for each in new)
                custody.extend()
                found.append((carrier.with_publications(tuple(new)), custody))
        if moves:
            self._ending.is_recalled = True
            self._outbox.forgive()
        return in_turn(found)

    def returned(self) -> list[tuple[Carrier, Custody]]:
        """What was not settled when a session ended, marked, oldest first; each is said once.

        Each custody is to be settled when what it was for has been seen to.
        """
        frames, self._unsettled = self._unsettled, []
        return self._frames.waited_for(frames)

    # --- what goes out ------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether whoever feeds the link must wait."""
        return self._outbox.is_full

    @property
    def buffered_bytes(self) -> int:
        """What is kept because the other end has not handled it, or has not settled it."""
        return self._outbox.bytes

    @property
    def queue(self) -> tuple[int, int]:
        """How much the session was ever given to send, and how much of it is not written yet.

        Publications count one by one, other messages as one.
        """
        return self._outbox.entered, self._outbox.waiting

    def unsettled(self) -> list[bytes]:
        """The frames that are kept, oldest first."""
        return [frame.data for frame in self._outbox]

    def _put(self, message: Message, custody: Custody | None) -> bool:
        """Keep a message to be sent; False when too much is kept."""
        passes = message.introduces
        frames = self._frames.of(message)
        # Of a batch in parts, each counts for about its share.
        count = len(message.publications) if isinstance(message, Carrier) else 1
        weight = -(-count // len(frames))
        for frame in frames:
            self._outbox.put(frame, custody, passes=passes, weight=weight)
        return not self._outbox.is_overfull

    def _take_out(self, *, has_ended: bool) -> bytes:
        """Bytes for the connection: what is owed, and messages as far as the window allows."""
        frames = [] if has_ended or self._ending.rests else self._outbox.take()
        acknowledged = iter(self._inbox.acknowledgement, None)
        said, self._to_say = self._to_say, []
        controls = (*acknowledged, *self._pulse.take(), *self._ending.take(), *said)
        return b"".join([self._codec.encode(control) for control in controls] + frames)

    # --- what comes in ------------------------------------------------------------------------

    def _take_in(self, message: Message | Control, size: int, now_us: int) -> bool:
        """Something came; False for what is about the session. WireError: it makes no sense."""
        if not isinstance(message, Control):
            self._inbox.put(message, size)
            self._ending.hear_message()
            return True
        match message:
            case Acknowledge(handled, settled):
                outbox = self._outbox
                if not 0 <= handled - outbox.handled <= outbox.in_flight:
                    raise WireError(f"an acknowledgement of {handled} messages makes no sense")
                outbox.handle(handled)
                outbox.settle(settled)
            case Heartbeat() | Echo():
                self._pulse.hear(message, now_us)
            case Stores(stores):
                self.neighbour_stores = stores
                self._outbox.copy(not stores)
            case Place(where):
                self._heard.append(where)
            case Lasts(opened_us):
                self.opened_us = max(self.opened_us or 0, opened_us)
            case _:
                return False
        return True

    def _hear_of_the_end(self, is_recalled: bool) -> None:
        """The other end's broker wants it: it says no tables any more, and takes what is left here.

        What it has recalled of what came here is not to be settled.
        """
        if is_recalled:
            self._inbox.forgive()
        if not self._ending.is_recalled:
            self._outbox.open_gate()

    def last(self, opened_us: int) -> None:
        """The link outlives restarts from now on, at both ends; it was opened then."""
        if opened_us > (self.opened_us or 0):
            self.opened_us = opened_us
            self._to_say.append(Lasts(opened_us))

    def store(self, stores: bool) -> None:
        """Tell the other end whether this broker's disk takes what it must keep."""
        if stores != self._stores:
            self._stores = stores
            self._to_say.append(Stores(stores))

    # --- where brokers are --------------------------------------------------------------------

    def tell(self, places: Iterable[Whereabouts]) -> None:
        """Say where brokers are, over this connection; on the next all is said again."""
        self._to_say += map(Place, places)

    def take_places(self) -> list[Whereabouts]:
        """What the other end has said of that."""
        heard, self._heard = self._heard, []
        return heard

    # --- messages -----------------------------------------------------------------------------

    def take(self) -> list[Message]:
        """The messages that came, to be handled now: they count as handled."""
        return self._inbox.take()

    def take_run(self, most: int) -> list[Message]:
        """As `take`, of the messages that came next: so many carriers, or one of another kind."""
        return self._inbox.take_run(most)

    @property
    def has_come(self) -> bool:
        """Whether there is something to take."""
        return self._inbox.has_come

    @property
    def handled(self) -> int:
        """How many messages of the session were taken."""
        return self._inbox.handled

    def owe(self, first: int, last: int) -> Debt:
        """Of what was taken, these messages are to be settled."""
        return self._inbox.owe(first, last)

    def settle(self, debt: Debt) -> bool:
        """Tell the other end that these are settled; False if they came in an earlier session."""
        return self._inbox.settle(debt)

    @property
    def delay_us(self) -> int | None:
        """How long a message takes to the other end, None when that is not known.

        Half of the last heartbeat's round trip, which waited behind the messages sent before.
        """
        return self._pulse.delay_us
