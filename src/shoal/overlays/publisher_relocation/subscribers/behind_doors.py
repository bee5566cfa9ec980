"""Subscribers that the broker sees as one: those behind a door, which says who of them had what.

It is asked of each session that is told, and may answer none, as it looks only now and then; so of
one publisher only the last question counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

from shoal.broker.effects import Effect, Notify
from shoal.clients.doors import Had, WhoHad
from shoal.model import ClientId, MessageId
from shoal.overlays.publisher_relocation.subscribers.planner import Session


class _Question:
    """A session, and what clients had of it that are not behind the door."""

    def __init__(self, id: MessageId, session: Session, others: int) -> None:
        self.id = id
        self.session = session
        self.others = others


class BehindDoors:
    """The doors of one broker, and who is known to be behind them."""

    def __init__(self) -> None:
        self._questions: dict[ClientId, dict[ClientId, _Question]] = {}
        self._door_of: dict[ClientId, ClientId] = {}
        self._untold: dict[ClientId, Mapping[ClientId, int]] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._questions

    @property
    def doors(self) -> set[ClientId]:
        return set(self._questions)

    def add(self, door: ClientId) -> None:
        """This client stands for others."""
        self._questions.setdefault(door, {})

    def door_of(self, client: ClientId) -> ClientId:
        """Who speaks for a client: its door, or itself."""
        return self._door_of.get(client, client)

    def untold(self, client: ClientId) -> int:
        """How many traced publications it had of sessions that its door was not asked for."""
        return self._untold.get(self.door_of(client), {}).get(client, 0)

    def ask(
        self, id: MessageId, session: Session, had: Mapping[ClientId, int], out: list[Effect]
    ) -> None:
        """Ask all doors that had some of a session."""
        for door, questions in self._questions.items():
            if door in had:
                others = reduce(or_, (bits for name, bits in had.items() if name != door), 0)
                questions[id.publisher] = _Question(id, session, others)
                out.append(Notify(door, WhoHad(id)))

    def answered(self, door: ClientId, said: Had) -> tuple[Session, int] | None:
        """The session that a door speaks of, and what others had of it, if it was asked."""
        question = self._questions[door].get(said.session.publisher)
        if question is None or question.id != said.session:
            return None
        del self._questions[door][said.session.publisher]
        self._door_of |= dict.fromkeys(said.had, door)
        self._untold[door] = said.untold
        return question.session, question.others

    def gone(self, door: ClientId, said: Had) -> Iterator[ClientId]:
        """Those that are not behind a door any more, or whose wishes have changed."""
        for client in said.gone:
            if self._door_of.get(client) == door:
                del self._door_of[client]
                yield client
