"""The traffic of one end of a link in a session, and the messages it keeps.

Unhandled messages fit a window, so the other end may stop handling messages for a while (`take` not
called) within all bounds; acknowledgements are read even then. On a tree the settling of an end's
messages depends only on the brokers beyond the other end. So brokers can stop reading other links
while one link is full, and never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.ack_tracker import AckTracker, Errand
from shoal.broker.links.controls import (
    Acknowledge,
    BrokerLocation,
    Control,
    Echo,
    Heartbeat,
    Lasts,
    LocationAnnounced,
    Stores,
)
from shoal.broker.links.ending import Ending
from shoal.broker.links.frames import Frames, in_turn
from shoal.broker.links.inbox import Debt, LinkInbox
from shoal.broker.links.outbox import LinkLimits, LinkOutbox
from shoal.broker.links.pulse import Pulse
from shoal.broker.links.spool import OutboxFrame, Spool
from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import Codec, FrameReader, WireError
from shoal.model import BrokerId, ClientId

# The page that explains messages of systems.
PAGE = "docs/tutorials/write-an-overlay.md"


def kept_without_introduction(source: BrokerId, target: BrokerId, kind: type[Message]) -> str:
    """Why a link still keeps a message, and what the author of its type may have forgotten."""
    text = f"{source} keeps {kind.__name__} for {target} until it emits LinkReady({target!r})"
    if issubclass(kind, Carrier):
        return text
    return f"{text}; a message that has to pass before has `introduces = True` ({PAGE})"


class LinkTraffic:
    """One end's traffic; the derived class begins, continues and ends sessions."""

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
        self._unsettled: list[OutboxFrame] = []
        self._heard: list[BrokerLocation] = []
        self._stores = True
        # Whether the other end's disk accepts records, as far as it has announced.
        self.neighbour_stores = True
        self._kept_kind: type[Message] | None = None
        self._start()
        self._connect()

    def _new_outbox(self) -> LinkOutbox:
        return LinkOutbox(self._limits, self._spool, self._frames.repeat)

    def _start(self) -> None:
        """Forget the messages of the last session."""
        self._kept_kind = None
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
        """Let publications pass: the other end has sent its table."""
        self._outbox.open_gate()

    @property
    def kept_kind(self) -> type[Message] | None:
        """The type of a message, no carrier, that waits until the other end has sent its table."""
        return self._kept_kind if self._outbox.is_gate_closed else None

    @property
    def _is_settled(self) -> bool:
        """Whether all messages in both directions are settled."""
        on_disk = self._spool is not None and not self._spool.is_empty
        return not (self._outbox.bytes or on_disk) and self._inbox.is_settled

    def _take_back(self, frames: Iterable[OutboxFrame]) -> None:
        """Take back unsettled frames; errands among them are repeated elsewhere."""
        self._unsettled += [each for each in frames if not isinstance(each.ack_tracker, Errand)]

    def recall(self, over: BrokerId | None, *, moves: bool) -> list[tuple[Carrier, AckTracker]]:
        """The unsettled carriers, marked, oldest first, to be sent another way, too, or instead.

        Each publication once, and none that came `over` the link to which it is to go. The caller
        settles each tracker, as of `returned`. Frames on disk are recalled only if they `move`.
        """
        if moves:
            self._outbox.read_all()
        found, recalled = [], set[tuple[ClientId, int]]()
        for frame in self._outbox:
            ack_tracker = frame.ack_tracker
            if ack_tracker is None or (over is not None and ack_tracker.source == over):
                continue
            carrier = self._frames.marked(frame.data)
            if carrier is None:
                continue
            new = [each for each in carrier.publications if each.publication.key not in recalled]
            if new:
                recalled.update(each.publication.key for each in new)
                ack_tracker.extend()
                found.append((carrier.with_publications(tuple(new)), ack_tracker))
        if moves:
            self._ending.is_recalled = True
            self._outbox.forgive()
        return in_turn(found)

    def returned(self) -> list[tuple[Carrier, AckTracker]]:
        """The carriers that were not settled when a session ended, marked, oldest first; each once.

        The caller settles each tracker when it has handled the carrier.
        """
        frames, self._unsettled = self._unsettled, []
        return self._frames.waited_for(frames)

    # --- sending ------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the sources of the link must wait."""
        return self._outbox.is_full

    @property
    def buffered_bytes(self) -> int:
        """The bytes that the other end has not handled, or has not settled."""
        return self._outbox.bytes

    @property
    def queue(self) -> tuple[int, int]:
        """The count of all messages of the session, and of those not written yet.

        Publications count one by one, other messages as one.
        """
        return self._outbox.entered, self._outbox.waiting

    def unsettled(self) -> list[bytes]:
        """All kept frames, oldest first."""
        return [frame.data for frame in self._outbox]

    def _put(self, message: Message, ack_tracker: AckTracker | None) -> bool:
        """Keep a message to be sent; False when the outbox is above its limit."""
        passes = message.introduces
        if not (passes or isinstance(message, Carrier)):
            self._kept_kind = type(message)
        frames = self._frames.frames_of(message)
        # Each part of a split batch counts for about its share.
        count = len(message.publications) if isinstance(message, Carrier) else 1
        weight = -(-count // len(frames))
        for frame in frames:
            self._outbox.put(frame, ack_tracker, passes=passes, weight=weight)
        return not self._outbox.is_overfull

    def _take_out(self, *, has_ended: bool) -> bytes:
        """The bytes to write: controls, and messages as far as the window allows."""
        frames = [] if has_ended or self._ending.rests else self._outbox.take()
        acknowledged = iter(self._inbox.acknowledgement, None)
        said, self._to_say = self._to_say, []
        controls = (*acknowledged, *self._pulse.take(), *self._ending.take(), *said)
        return b"".join([self._codec.encode(control) for control in controls] + frames)

    # --- receiving ----------------------------------------------------------------------------

    def _take_in(self, message: Message | Control, size: int, now_us: int) -> bool:
        """Handle a message or control; False for controls of the session. WireError if invalid."""
        if not isinstance(message, Control):
            self._inbox.put(message, size)
            self._ending.on_message()
            return True
        match message:
            case Acknowledge(handled, settled):
                outbox = self._outbox
                if not 0 <= handled - outbox.handled <= outbox.in_flight:
                    raise WireError(f"an acknowledgement of {handled} messages that were not sent")
                outbox.handle(handled)
                outbox.settle(settled)
            case Heartbeat() | Echo():
                self._pulse.on_control(message, now_us)
            case Stores(stores):
                self.neighbour_stores = stores
                self._outbox.copy(not stores)
            case LocationAnnounced(where):
                self._heard.append(where)
            case Lasts(opened_us):
                self.opened_us = max(self.opened_us or 0, opened_us)
            case _:
                return False
        return True

    def _hear_of_the_end(self, is_recalled: bool) -> None:
        """Handle `Ends`: the other end sends no tables any more, and accepts the gate's frames.

        The messages that it has recalled need not be settled here.
        """
        if is_recalled:
            self._inbox.forgive()
        if not self._ending.is_recalled:
            self._outbox.open_gate()

    def last(self, opened_us: int) -> None:
        """Make the link outlive restarts, at both ends; it was opened at this time."""
        if opened_us > (self.opened_us or 0):
            self.opened_us = opened_us
            self._to_say.append(Lasts(opened_us))

    def store(self, stores: bool) -> None:
        """Announce whether this broker's disk accepts records."""
        if stores != self._stores:
            self._stores = stores
            self._to_say.append(Stores(stores))

    # --- addresses of brokers -----------------------------------------------------------------

    def tell(self, places: Iterable[BrokerLocation]) -> None:
        """Announce addresses of brokers over this connection; the next one begins anew."""
        self._to_say += map(LocationAnnounced, places)

    def take_places(self) -> list[BrokerLocation]:
        """The addresses that the other end has announced."""
        heard, self._heard = self._heard, []
        return heard

    # --- messages -----------------------------------------------------------------------------

    def take(self) -> list[Message]:
        """The received messages, to be handled now: they count as handled."""
        return self._inbox.take()

    def take_run(self, most: int) -> list[Message]:
        """Like `take`, of the next messages: at most `most` carriers, or one of another kind."""
        return self._inbox.take_run(most)

    @property
    def has_come(self) -> bool:
        """Whether there are messages to take."""
        return self._inbox.has_come

    @property
    def handled(self) -> int:
        """The number of messages taken in the session."""
        return self._inbox.handled

    def owe(self, first: int, last: int) -> Debt:
        """Owe the settling of these messages, which were taken."""
        return self._inbox.owe(first, last)

    def settle(self, debt: Debt) -> bool:
        """Report settled messages to the other end; False if they came in an earlier session."""
        return self._inbox.settle(debt)

    @property
    def delay_us(self) -> int | None:
        """The delay to the other end, None when it is not known.

        Half of the last heartbeat's round trip, which includes waiting behind earlier messages.
        """
        return self._pulse.delay_us
