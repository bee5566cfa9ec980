"""Subscribers behind front ends, each of which the broker sees as one client.

A front end reports its clients' deliveries. It gets a question about each session with traces, and
may answer none, as it looks only now and then; so of one publisher only the last question counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_

from shoal.broker.effects import Effect, Notify
from shoal.clients.front_ends import DeliveriesReported, WhoHad
from shoal.model import ClientId, MessageId
from shoal.overlays.publisher_relocation.subscribers.planner import PlannedSession


class _Question:
    """A session, and its deliveries to clients that are not behind the front end."""

    def __init__(self, id: MessageId, session: PlannedSession, others: int) -> None:
        self.id = id
        self.session = session
        self.others = others


class BehindFrontEnds:
    """The front ends of one broker, and the clients known to be behind them."""

    def __init__(self) -> None:
        self._questions: dict[ClientId, dict[ClientId, _Question]] = {}
        self._front_end_of: dict[ClientId, ClientId] = {}
        self._untold: dict[ClientId, Mapping[ClientId, int]] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._questions

    @property
    def front_ends(self) -> set[ClientId]:
        return set(self._questions)

    def add(self, front_end: ClientId) -> None:
        """This client stands for others."""
        self._questions.setdefault(front_end, {})

    def front_end_of(self, client: ClientId) -> ClientId:
        """A client's front end, or the client itself."""
        return self._front_end_of.get(client, client)

    def untold(self, client: ClientId) -> int:
        """Number of its traced publications in sessions that its front end was not asked about."""
        return self._untold.get(self.front_end_of(client), {}).get(client, 0)

    def ask(
        self, id: MessageId, session: PlannedSession, had: Mapping[ClientId, int], out: list[Effect]
    ) -> None:
        """Ask all front ends with deliveries of a session."""
        for front_end, questions in self._questions.items():
            if front_end in had:
                others = reduce(or_, (bits for name, bits in had.items() if name != front_end), 0)
                questions[id.publisher] = _Question(id, session, others)
                out.append(Notify(front_end, WhoHad(id)))

    def on_answer(
        self, front_end: ClientId, said: DeliveriesReported
    ) -> tuple[PlannedSession, int] | None:
        """The session of a front end's answer, and others' deliveries of it, if it was asked."""
        question = self._questions[front_end].get(said.session.publisher)
        if question is None or question.id != said.session:
            return None
        del self._questions[front_end][said.session.publisher]
        self._front_end_of |= dict.fromkeys(said.had, front_end)
        self._untold[front_end] = said.untold
        return question.session, question.others

    def gone(self, front_end: ClientId, said: DeliveriesReported) -> Iterator[ClientId]:
        """Clients that are not behind a front end any more, or have changed their subscriptions."""
        for client in said.gone:
            if self._front_end_of.get(client) == front_end:
                del self._front_end_of[client]
                yield client
