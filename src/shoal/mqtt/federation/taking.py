"""What members of groups have at one broker, for who asks again (see `sharing`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from shoal.mqtt.federation.controls import GroupName
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import TookEnd, TookPut
from shoal.mqtt.sessions.session import Session

# Messages of which it is remembered that they were taken.
MAX_REMEMBERED = 65_536

Key = tuple[str, int]
_Any = TypeVar("_Any")


class Taking:
    """What was taken here, and what was not, oldest first; `journal` is told if there is one."""

    def __init__(self) -> None:
        self.journal: Journal | None = None
        self._taken: dict[tuple[Key, GroupName], None] = {}
        # Those of which the broker that asked may not know it yet.
        self._untold: dict[tuple[Key, GroupName], None] = {}
        # What was not taken here, by whether any member would have done: since somebody else has it
        # by then, it is not taken when the question comes again.
        self._declined: dict[tuple[Key, GroupName, bool], None] = {}

    def answer(self, key: Key, name: GroupName, *, is_any: bool) -> bool | None:
        """Whether a member has it, as was said before; None if nothing was."""
        if (key, name) in self._taken:
            return True
        return False if (key, name, is_any) in self._declined else None

    def took(self, key: Key, name: GroupName) -> None:
        """A member has it."""
        _add(self._taken, (key, name))

    def declined(self, key: Key, name: GroupName, *, is_any: bool) -> None:
        """Nobody has it, and nobody will."""
        _add(self._declined, (key, name, is_any))

    def is_untold(self, key: Key, name: GroupName) -> bool:
        """A member has it, and the broker that asked has yet to hear so; whether that is kept."""
        if self.journal is None:
            return False
        if (key, name) not in self._untold:
            self.journal.group(TookPut(key, name))
            if len(self._untold) >= MAX_REMEMBERED:
                self.is_told(*next(iter(self._untold)))
        self._untold[key, name] = None
        return True

    def is_told(self, key: Key, name: GroupName) -> None:
        """It has heard."""
        if (key, name) in self._untold:
            del self._untold[key, name]
            if self.journal is not None:
                self.journal.group(TookEnd(key, name))

    def restore(self, put: TookPut) -> None:
        """A member had it when the broker stopped, and who asked may not know."""
        self._untold[put.key, put.group] = self._taken[put.key, put.group] = None

    def restored(self, session: Session) -> None:
        """A session is here since before the broker started: what waits in it was taken."""
        groups = {each.group for each in session.subscriptions.values() if each.shared}
        if groups:
            held = session.diversion.held if session.diversion is not None else ()
            for outgoing in (*session.on_its_way(), *held):
                key = outgoing.message.key
                if key is not None:
                    self._taken.update(((key, name), None) for name in groups)

    def puts(self) -> Iterator[TookPut]:
        """What others may not know."""
        return (TookPut(key, name) for key, name in self._untold)


def _add(remembered: dict[_Any, None], one: _Any) -> None:
    remembered[one] = None
    if len(remembered) > MAX_REMEMBERED:
        del remembered[next(iter(remembered))]
