"""How the two ends of a link agree that it has ended: all that was sent, either way, is settled.

Either end's broker may want it to end.  It says `Ends`; both go on as before, until that end has
nothing more: all it sent is handled and settled there, all that came is so here.  Then it `Rests`,
and sends nothing.  If the other end has nothing either, it ends the link there and then: it says
`Over`, and the first end ends it, too.  If it has something, that comes, and the first end rests no
more, and says so anew when that is settled.  For what comes over one connection keeps its order:
whatever the other end had not sent, or not heard to be settled, when it heard `Rests` comes later.

| heard | does |
| --- | --- |
| Ends | both end it |
| a message | rests no more |
| Rests, and nothing is left here | says Over: ended |
| Rests, and something is left | nothing: that makes the other end rest no more |
| Over | ended |

Whose broker wants no link says no tables over it.  So what waits at the other end's gate is sent
when that hears `Ends`; and what waits at its own comes back to it at once, unless a spool keeps it:
then the other end, which may only have been away, says its tables first.  Where the broker has
recalled all that is not settled, that goes another way, nobody settles it here, and the link ends
without it.

What a broker sends over a link that it has wanted to end, while its end rests, may find that the
link has ended: then it comes back, as from a link that is given up.  Over may be lost with the
connection: who said it is asked again by an end that still settles, and remembers the session for
that until it has heard Over as well.
"""

from __future__ import annotations

from shoal.broker.links.controls import Control, Ends, Over, Rests


class Ending:
    """What one end has said, and is to say."""

    def __init__(self) -> None:
        # Whether this end's broker wants it.
        self.is_wanted = False
        # Whether it waits no more for what it has sent to be settled at the other end.
        self.is_recalled = False
        # Whether both ends know that it has ended.
        self.is_known = False
        self._to_say: list[Control] = []
        self.rests = False

    def reconnect(self) -> None:
        """What was said may be lost."""
        self.rests = False
        self._to_say.clear()

    def want(self) -> None:
        """This end's broker wants the link to end."""
        self.is_wanted = True

    def say(self) -> None:
        """Tell the other end what is wanted, perhaps again."""
        if self.is_wanted:
            self._to_say.append(Ends(self.is_recalled))

    def hear_message(self) -> None:
        """Something came that the other end had to say."""
        self.rests = False

    def rest(self) -> None:
        """Nothing is left at this end."""
        if self.is_wanted and not self.rests:
            self.rests = True
            self._to_say.append(Rests())

    def end(self) -> None:
        """The link has ended."""
        self._to_say.append(Over())

    def take(self) -> list[Control]:
        """What is to be written."""
        said, self._to_say = self._to_say, []
        return said
