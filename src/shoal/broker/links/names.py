"""What the two ends of a link call their session, as far as their hellos have said it.

Each end has its own part of a session's name.  Every hello offers a session of a new name, for the
case that the two are not in one.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.broker.links.controls import Hello, SessionName


class Names:
    """One end's; `incarnation` differs at every start, of `numbers` none comes twice."""

    def __init__(self, incarnation: int, numbers: Iterator[int]) -> None:
        self._incarnation = incarnation
        self._numbers = numbers
        self.own: SessionName = (incarnation, 0)
        self.other: SessionName | None = None
        self._offered: SessionName | None = None  # what the last hello that was taken offered
        self._said: Hello | None = None

    def next_number(self) -> int:
        return next(self._numbers)

    def say(self, hello: Hello) -> Hello:
        """What this end says on a new connection."""
        self._said = hello
        return hello

    def what_was_said(self, handled: int, ends: bool) -> Hello | None:
        """On this connection; None if it would be another hello by now."""
        said = self._said
        now = (self.own, self.other, handled, ends)
        if said is None or (said.session, said.other, said.handled, said.ends) != now:
            return None
        return said

    def take(self, hello: Hello) -> None:
        """The other end's hello counts, and this end's has been said."""
        self._said = None
        self._offered = (hello.session[0], hello.begins)

    def lose(self) -> None:
        """The connection is gone, and what was said on it."""
        self._said = None

    def begin(self, said: Hello) -> None:
        """Both ends are in the session that their hellos have offered."""
        self.own, self.other = (self._incarnation, said.begins), self._offered

    def begin_anew(self) -> None:
        """From now on this end is in no session with the other."""
        self.own, self.other = (self._incarnation, self.next_number()), None

    def are_in(self, hello: Hello) -> bool:
        """Whether the other end is in the same session."""
        return hello.session == self.other and hello.other == self.own

    def is_overtaken(self, hello: Hello) -> bool:
        """Whether the other end has said a later hello, on a connection that it made later."""
        incarnation, number = self._offered or (0, 0)
        return hello.session[0] == incarnation and hello.begins < number
