"""A link's messages as frames: in parts where they are too long, and marked where they go again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from shoal.broker.custody import Custody, repeated
from shoal.broker.links.spool import Frame
from shoal.broker.messages import Carrier, Message, Together
from shoal.broker.wire import HEAD_BYTES, Codec, WireError
from shoal.model import ClientId

# What somebody waits for of a frame.
Kept = tuple[Carrier, Custody]


class Frames:
    """What one end of a link writes, none of it longer than `longest_bytes`."""

    def __init__(self, codec: Codec, longest_bytes: int) -> None:
        self._codec = codec
        self._longest_bytes = longest_bytes

    def of(self, message: Message) -> list[bytes]:
        """A message as frames; WireError when it cannot be written."""
        longest = self._longest_bytes
        try:
            frame = self._codec.encode(message)
            if len(frame) - HEAD_BYTES > longest:
                raise WireError(f"{type(message).__name__} takes {len(frame)} bytes, not {longest}")
            return [frame]
        except WireError:
            if type(message) is Together:
                return [frame for each in message.messages for frame in self.of(each)]
            if not isinstance(message, Carrier) or len(message.publications) < 2:
                raise
        # Too long together: what goes into one here came in several.
        middle = len(message.publications) // 2
        halves = message.publications[:middle], message.publications[middle:]
        return [frame for half in halves for frame in self.of(message.with_publications(half))]

    def again(self, frames: Iterable[Frame]) -> list[tuple[bytes, Custody]]:
        """What is to be sent again of some frames, marked."""
        waited_for = self.waited_for(frames)
        return [(self._codec.encode(carrier), custody) for carrier, custody in waited_for]

    def waited_for(self, frames: Iterable[Frame]) -> list[Kept]:
        """The publications that somebody waits for in some frames, marked; the rest is settled.

        What a link has said of tables is said anew when it comes up again.
        """
        found = []
        for frame in frames:
            assert frame.custody is not None
            carrier = self.marked(frame.data)
            if carrier is not None and carrier.publications:
                found.append((carrier, frame.custody))
            else:
                frame.custody.settle()
        return in_turn(found)

    def repeat(self, data: bytes) -> bytes:
        """A frame, marked as sent before."""
        carrier = self.marked(data)
        return data if carrier is None else self._codec.encode(carrier)

    def marked(self, data: bytes) -> Carrier | None:
        """What somebody waits for in a frame, marked as sent before; None: no publications."""
        message = self._codec.decode(data[HEAD_BYTES:])
        return repeated(message) if isinstance(message, Carrier) else None


def in_turn(kept: list[Kept]) -> list[Kept]:
    """The same, each publisher's publications in their order.

    An exchange of links brings what was under way over another link behind what a publisher has
    sent over this one since.  Who had both in that order would take the older for a repeat.
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
    """One by one, those of each publisher in the places of its own."""
    single: list[Kept] = []
    for carrier, custody in kept:
        for number, routed in enumerate(carrier.publications):
            if number:
                custody.extend()
            single.append((carrier.with_publications((routed,)), custody))
    found: dict[ClientId, deque[Kept]] = defaultdict(deque)
    for each in sorted(single, key=_sequence):
        found[_publisher(each)].append(each)
    return [found[_publisher(each)].popleft() for each in single]


def _publisher(kept: Kept) -> ClientId:
    return kept[0].publications[0].publication.publisher


def _sequence(kept: Kept) -> int:
    return kept[0].publications[0].publication.sequence
