"""The lists of one broker: batches that it decided as a query's home, and its parts of batches.

Pure: the caller writes a query's `encode` to disk before it answers.

>>> lists = BatchLists("B1")
>>> one, other = [Attempt("B1", "a", 2)], [Attempt("B1", "b", 2)]
>>> lists.decide("q", "", 0, one, now_us=1).attempts[0].name
'a'
>>> lists.decide("q", "", 0, other, now_us=2).attempts[0].name
'a'
>>> lists.decide("q", "", 1, other, now_us=3).attempts[0].name
'b'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from shoal.log.errors import LogError
from shoal.log.staging.attempts import AttemptId, AttemptSize

MOST_QUERIES = 10_000
# Attempts that no list can name are removed at this age, and queries without a batch at that.
ATTEMPT_AGE_US = 86_400 * 1_000_000
# Behind the query's list they go sooner; a task of a repeated batch may still be staging.
GRACE_US = 600 * 1_000_000
QUERY_AGE_US = 90 * ATTEMPT_AGE_US


class AnotherUsersQueryError(LogError):
    """The query is another user's."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt that a list names, with its rows."""

    broker: str
    name: str
    rows: int


class DecidedBatch(msgspec.Struct, frozen=True):
    """The list of a query's last batch, at its home."""

    query: str
    user: str
    batch: int
    attempts: tuple[Attempt, ...]
    at_us: int


class PartState(msgspec.Struct, frozen=True):
    """One broker's part of a query's last batch: its attempts, in order, of all that are `listed`.

    The first `done` rows are published and settled. `logged_from` is the next offset of the log
    when that was noted: records of later rows are behind it. `offered` attempts may be in a list
    that another broker keeps. Before the decision `attempts` are empty.
    """

    query: str
    user: str
    batch: int
    is_decided: bool = False
    attempts: tuple[Attempt, ...] = ()
    offered: tuple[str, ...] = ()
    done: int = 0
    logged_from: int = 0
    at_us: int = 0
    listed: tuple[Attempt, ...] = ()

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.attempts)

    @property
    def is_published(self) -> bool:
        return self.is_decided and self.done >= self.rows

    def ids(self) -> list[AttemptId]:
        """Its attempts, in order."""
        return [AttemptId(self.query, self.batch, each.name) for each in self.attempts]


class _Saved(msgspec.Struct):
    decided: DecidedBatch | None
    part: PartState | None


class BatchLists:
    """Both kinds of lists, by query; ValueError where `saved`, of each, cannot be read."""

    def __init__(self, broker: str, saved: Iterable[bytes] = ()) -> None:
        self.broker = broker
        self._decided: dict[str, DecidedBatch] = {}
        self._parts: dict[str, PartState] = {}
        for data in saved:
            found = msgspec.json.decode(data, type=_Saved)
            if found.decided is not None:
                self._decided[found.decided.query] = found.decided
            if found.part is not None:
                self._parts[found.part.query] = found.part

    def encode(self, query: str) -> bytes:
        """What is known of a query, as the constructor takes it; empty if that is nothing."""
        saved = _Saved(self._decided.get(query), self._parts.get(query))
        return b"" if saved == _Saved(None, None) else msgspec.json.encode(saved)

    def parts(self) -> list[PartState]:
        return list(self._parts.values())

    def part(self, query: str) -> PartState | None:
        return self._parts.get(query)

    # --- the home -----------------------------------------------------------------------------

    def decided(self, query: str, batch: int) -> DecidedBatch | None:
        """The list of this batch, or of a later one, as its home or as one that has a part."""
        found, part = self._decided.get(query), self._parts.get(query)
        if found is not None and found.batch >= batch:
            return found
        if part is not None and part.is_decided and part.batch >= batch:
            return DecidedBatch(query, part.user, part.batch, part.listed, part.at_us)
        return None

    def decide(
        self, query: str, user: str, batch: int, attempts: Sequence[Attempt], now_us: int
    ) -> DecidedBatch:
        """Keep a batch's list; returns the one that stands, of this batch or a later one."""
        self._check_query(query, user)
        found = self.decided(query, batch)
        if found is None:
            found = DecidedBatch(query, user, batch, tuple(attempts), now_us)
            self._decided[query] = found
        return found

    # --- parts --------------------------------------------------------------------------------

    def offer(self, query: str, user: str, batch: int, names: Iterable[str], now_us: int) -> None:
        """Keep attempts beyond their age, until a list is there; a later batch needs none."""
        self._check_query(query, user)
        found = self._parts.get(query)
        if found is not None and (found.batch > batch or not self._may_replace(found, batch)):
            return
        if found is None or found.batch < batch:
            found = PartState(query, user, batch)
        if not found.is_decided:
            offered = tuple(dict.fromkeys([*found.offered, *names]))
            self._parts[query] = msgspec.structs.replace(found, offered=offered, at_us=now_us)

    def begin(
        self,
        query: str,
        user: str,
        batch: int,
        attempts: Sequence[Attempt],
        sizes: Mapping[AttemptId, AttemptSize],
        logged_from: int,
        now_us: int,
    ) -> PartState:
        """Take over this broker's part of a whole list; returns it, or that of a later batch.

        LogError if an attempt is not here whole, or an earlier batch is not published.
        """
        self._check_query(query, user)
        found = self._parts.get(query)
        if found is not None and (
            found.batch > batch or (found.batch == batch and found.is_decided)
        ):
            return found
        if found is not None and not self._may_replace(found, batch):
            raise LogError(f"batch {found.batch} of query {query} is not published yet")
        own = tuple(each for each in attempts if each.broker == self.broker)
        for each in own:
            size = sizes.get(AttemptId(query, batch, each.name), AttemptSize(0, 0, 0))
            if size.rows != each.rows:
                raise LogError(
                    f"of the attempt {each.name} of query {query}, batch {batch}, "
                    f"{size.rows} of {each.rows} rows are here: its list names what this broker "
                    "has lost"
                )
        found = PartState(
            *(query, user, batch, True, own, (), 0, logged_from, now_us, tuple(attempts))
        )
        self._parts[query] = found
        return found

    def advance(self, query: str, done: int, logged_from: int, now_us: int) -> None:
        """Note that the first `done` rows of a query's part are published."""
        self._parts[query] = msgspec.structs.replace(
            self._parts[query], done=done, logged_from=logged_from, at_us=now_us
        )

    def committing(self) -> list[str]:
        """Queries whose last batch has rows here that a list names or may name."""
        return [each.query for each in self.parts() if each.offered or not each.is_published]

    # --- what is over -------------------------------------------------------------------------

    def forget(self, query: str) -> None:
        """Drop what is known of a query: a repeated batch of it is published again."""
        self._decided.pop(query, None)
        self._parts.pop(query, None)

    def old(self, now_us: int) -> list[str]:
        """Queries that have had no batch for long."""
        old = [
            query
            for query, part in self._parts.items()
            if part.is_published and part.at_us < now_us - QUERY_AGE_US
        ]
        old += [
            query
            for query, decided in self._decided.items()
            if query not in self._parts and decided.at_us < now_us - QUERY_AGE_US
        ]
        return old

    def is_over(self, id: AttemptId, size: AttemptSize, now_us: int) -> bool:
        """Whether an attempt can be removed: it is published, or no list names it or will."""
        part = self._parts.get(id.query)
        if part is None or part.batch < id.batch:
            return size.at_us < now_us - ATTEMPT_AGE_US
        if id in part.ids():
            return part.is_published
        if part.batch == id.batch and id.attempt in part.offered:
            return False
        return size.at_us < now_us - (GRACE_US if part.is_decided else ATTEMPT_AGE_US)

    def check_user(self, query: str, user: str) -> None:
        """AnotherUsersQueryError unless a query is this user's, or new."""
        for found in (self._decided.get(query), self._parts.get(query)):
            if found is not None and found.user != user:
                raise AnotherUsersQueryError(f"query {query} is another user's")

    def _check_query(self, query: str, user: str) -> None:
        self.check_user(query, user)
        known = self._decided.keys() | self._parts.keys()
        if query not in known and len(known) >= MOST_QUERIES:
            raise LogError(f"there are {MOST_QUERIES} queries; forget one")

    @staticmethod
    def _may_replace(part: PartState, batch: int) -> bool:
        return part.batch >= batch or not part.is_decided or part.is_published
