"""The agreement of a link's two ends that it has ended: all messages, either way, are settled.

Either end's broker may want the link to end. Its end sends `Ends`; both go on as before, until that
end has nothing left: its messages are handled and settled at the other end, the received ones here.
Then it sends `Rests`, and no more messages. If the other end has nothing left either, it ends the
link at once and sends `Over`, and the first end ends it, too. If it has something left, that comes,
and the first end rests no more, and sends `Rests` again when that is settled. For a connection
keeps its order: messages that the other end had not sent, or not seen settled, when it received
`Rests` come later.

| received | action |
| --- | --- |
| Ends | both ends end the link |
| a message | rests no more |
| Rests, and nothing is left here | sends Over: ended |
| Rests, and something is left | nothing: the remaining messages make the other end rest no more |
| Over | ended |

A broker that wants no link sends no tables over it. So the other end sends the messages at its gate
when it receives `Ends`; and those at this end's gate return to this broker at once, unless a spool
has them: then the other end, which may only have been disconnected, sends its tables first.
Messages that the broker has recalled go another way; no end settles them here, and the link ends
without them.

A message that a broker sends over an ending link, while its end rests, comes back when the link has
ended, as from a link that is given up. `Over` may be lost with the connection: an end that still
settles asks its sender again, which remembers the session until it has received Over as well.
"""

from __future__ import annotations

from shoal.broker.links.controls import Control, Ends, Over, Rests


class Ending:
    """The state of an ending link at one end, and its controls to send."""

    def __init__(self) -> None:
        # Whether this end's broker wants the link to end.
        self.is_wanted = False
        # Whether this end does not wait for the settling of its messages.
        self.is_recalled = False
        # Whether both ends know that the link has ended.
        self.is_known = False
        self._to_say: list[Control] = []
        self.rests = False

    def reconnect(self) -> None:
        """Handle a new connection: earlier controls may be lost."""
        self.rests = False
        self._to_say.clear()

    def want(self) -> None:
        """This end's broker wants the link to end."""
        self.is_wanted = True

    def say(self) -> None:
        """Send `Ends` if this broker wants it, perhaps again."""
        if self.is_wanted:
            self._to_say.append(Ends(self.is_recalled))

    def on_message(self) -> None:
        """Handle a message: the other end was not done."""
        self.rests = False

    def rest(self) -> None:
        """Nothing is left at this end: send `Rests`."""
        if self.is_wanted and not self.rests:
            self.rests = True
            self._to_say.append(Rests())

    def end(self) -> None:
        """The link has ended: send `Over`."""
        self._to_say.append(Over())

    def take(self) -> list[Control]:
        """The controls to write."""
        said, self._to_say = self._to_say, []
        return said
