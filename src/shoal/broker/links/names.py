"""The name of a link's session, as agreed by the hellos of both ends.

Each end has its own part of the name. Every hello offers a session with a new name, for the case
that the two ends are not in one.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.broker.links.controls import Hello, SessionName


class Names:
    """One end's names; `incarnation` differs at every start, each of `numbers` is used once."""

    def __init__(self, incarnation: int, numbers: Iterator[int]) -> None:
        self._incarnation = incarnation
        self._numbers = numbers
        self.own: SessionName = (incarnation, 0)
        self.other: SessionName | None = None
        self._offered: SessionName | None = None  # the offer of the other end's last hello
        self._said: Hello | None = None

    def next_number(self) -> int:
        return next(self._numbers)

    def say(self, hello: Hello) -> Hello:
        """Note this end's hello on a new connection."""
        self._said = hello
        return hello

    def sent_hello(self, handled: int, ends: bool) -> Hello | None:
        """The hello on this connection; None if the present one would differ."""
        said = self._said
        now = (self.own, self.other, handled, ends)
        if said is None or (said.session, said.other, said.handled, said.ends) != now:
            return None
        return said

    def take(self, hello: Hello) -> None:
        """Take the other end's hello; this end's has been sent."""
        self._said = None
        self._offered = (hello.session[0], hello.begins)

    def lose(self) -> None:
        """Handle the end of the connection."""
        self._said = None

    def begin(self, said: Hello) -> None:
        """Begin the session that both hellos have offered."""
        self.own, self.other = (self._incarnation, said.begins), self._offered

    def begin_anew(self) -> None:
        """Leave the session with the other end."""
        self.own, self.other = (self._incarnation, self.next_number()), None

    def are_in(self, hello: Hello) -> bool:
        """Whether the other end is in the same session."""
        return hello.session == self.other and hello.other == self.own

    def is_overtaken(self, hello: Hello) -> bool:
        """Whether the other end has sent a later hello, on a later connection."""
        incarnation, number = self._offered or (0, 0)
        return hello.session[0] == incarnation and hello.begins < number
