"""A link's messages as frames: split where they are too long, and marked when repeated."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from shoal.broker.ack_tracker import AckTracker, repeated
from shoal.broker.links.spool import OutboxFrame
from shoal.broker.messages import Carrier, Message, Together
from shoal.broker.wire import HEAD_BYTES, Codec, WireError
from shoal.model import ClientId

# The assured publications of a frame, with their acknowledgement tracker.
Kept = tuple[Carrier, AckTracker]


class Frames:
    """Encodes the messages of one end of a link, in frames of at most `longest_bytes`."""

    def __init__(self, codec: Codec, longest_bytes: int) -> None:
        self._codec = codec
        self._longest_bytes = longest_bytes

    def frames_of(self, message: Message) -> list[bytes]:
        """A message as frames; WireError when it cannot be encoded."""
        longest = self._longest_bytes
        try:
            frame = self._codec.encode(message)
            if len(frame) - HEAD_BYTES > longest:
                raise WireError(f"{type(message).__name__} takes {len(frame)} bytes, not {longest}")
            return [frame]
        except WireError:
            if type(message) is Together:
                return [frame for each in message.messages for frame in self.frames_of(each)]
            if not isinstance(message, Carrier) or len(message.publications) < 2:
                raise
        # Too long together: split a batch, which came in several messages.
        middle = len(message.publications) // 2
        halves = message.publications[:middle], message.publications[middle:]
        return [
            frame for half in halves for frame in self.frames_of(message.with_publications(half))
        ]

    def again(self, frames: Iterable[OutboxFrame]) -> list[tuple[bytes, AckTracker]]:
        """The frames to retransmit of some frames, marked."""
        waited_for = self.waited_for(frames)
        return [(self._codec.encode(carrier), ack_tracker) for carrier, ack_tracker in waited_for]

    def waited_for(self, frames: Iterable[OutboxFrame]) -> list[Kept]:
        """The assured publications in some frames, marked; the rest is settled.

        Messages about routing tables are not repeated: the tables are sent anew with the next link.
        """
        found = []
        for frame in frames:
            assert frame.ack_tracker is not None
            carrier = self.marked(frame.data)
            if carrier is not None and carrier.publications:
                found.append((carrier, frame.ack_tracker))
            else:
                frame.ack_tracker.settle()
        return in_turn(found)

    def repeat(self, data: bytes) -> bytes:
        """A frame, marked as repeated."""
        carrier = self.marked(data)
        return data if carrier is None else self._codec.encode(carrier)

    def marked(self, data: bytes) -> Carrier | None:
        """The assured publications in a frame, marked as repeated; None: no carrier."""
        message = self._codec.decode(data[HEAD_BYTES:])
        return repeated(message) if isinstance(message, Carrier) else None


def in_turn(kept: list[Kept]) -> list[Kept]:
    """Sort publications so that each publisher's are in order.

    An exchange of links puts publications under way over another link behind later ones of this
    link. A front end that gets both in that order would drop the older one as a duplicate.
    """
    last: dict[ClientId, int] = {}
    for carrier, _ in kept:
        for routed in carrier.publications:
            publisher, sequence = routed.publication.key
            if sequence < last.get(publisher, sequence):
                return _sorted(kept)
            last[publisher] = sequence
    return kept


def _sorted(kept: list[Kept]) -> list[Kept]:
    """Split carriers into single publications; each publisher's are sorted in its own places."""
    single: list[Kept] = []
    for carrier, ack_tracker in kept:
        for number, routed in enumerate(carrier.publications):
            if number:
                ack_tracker.extend()
            single.append((carrier.with_publications((routed,)), ack_tracker))
    found: dict[ClientId, deque[Kept]] = defaultdict(deque)
    for each in sorted(single, key=_sequence):
        found[_publisher(each)].append(each)
    return [found[_publisher(each)].popleft() for each in single]


def _publisher(kept: Kept) -> ClientId:
    return kept[0].publications[0].publication.publisher


def _sequence(kept: Kept) -> int:
    return kept[0].publications[0].publication.sequence
