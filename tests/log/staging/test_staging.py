"""Staged rows and the lists of batches: each batch is published once, whatever dies between calls.

The twin is naive: the first list that a home answers is the batch, and its rows are published in
order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.log.errors import LogError
from shoal.log.staging.attempts import AttemptId, StagedAttempts, StagingFullError
from shoal.log.staging.committing import KeptList, brokers_of, decide_batch
from shoal.log.staging.parts import (
    ATTEMPT_AGE_US,
    AnotherUsersQueryError,
    Attempt,
    BatchLists,
    DecidedBatch,
)
from shoal.log.staging.staged_rows import StagedRow, encode_rows
from tests.examples import examples

ROOMY = 2**20


def rows(*texts: str) -> bytes:
    return encode_rows([StagedRow("t", each.encode()) for each in texts])


def staged(attempts: StagedAttempts, id: AttemptId, first: int = 0) -> list[str]:
    return [each.payload.decode() for each in attempts.rows(id, first)]


class DiedError(Exception):
    """The broker or the driver was killed."""


class Dying:
    """Kills at random points of a run; `broker` is told, since its memory is gone."""

    def __init__(self, chance: random.Random, often: float) -> None:
        self._chance = chance
        self._often = often

    def here(self) -> None:
        if self._chance.random() < self._often:
            raise DiedError


class ModelBroker:
    """A broker with its disk: lists, attempts, and the rows that were published, as journaled."""

    def __init__(self, name: str, folder: Path, dying: Dying) -> None:
        self.name = name
        self._folder = folder
        self._dying = dying
        self.now_us = 0
        self.published: list[str] = []
        self.lists: BatchLists
        self.restart([])

    def restart(self, saved: Sequence[bytes]) -> None:
        self.lists = BatchLists(self.name, saved)
        self._saved = {each.query: self.lists.encode(each.query) for each in self.lists.parts()}
        self.attempts = StagedAttempts(self._folder, ROOMY, self.now_us)

    def _save(self, query: str) -> None:
        """A kill before leaves the former file; a kill after has the new one, without an answer."""
        try:
            self._dying.here()
            self._saved[query] = self.lists.encode(query)
            self._dying.here()
        except DiedError:
            self.restart([each for each in self._saved.values() if each])
            raise

    def stage(self, id: AttemptId, texts: Sequence[str]) -> None:
        at = 0
        for text in texts:
            self._dying.here()
            at = self.attempts.append(id, at, 1, rows(text), self.now_us)

    def offer(self, query: str, batch: int, names: Sequence[str]) -> KeptList | None:
        self.lists.offer(query, "", batch, names, self.now_us)
        self._save(query)
        return kept(self.lists.decided(query, batch))

    def decide(self, query: str, batch: int, attempts: Sequence[Attempt]) -> KeptList:
        found = kept(self.lists.decide(query, "", batch, attempts, self.now_us))
        self._save(query)
        assert found is not None
        return found

    def publish(self, query: str, batch: int, attempts: Sequence[Attempt]) -> bool:
        """Rows and their number are on the disk together, as the journal has them."""
        part = self.lists.begin(query, "", batch, attempts, self.attempts.sizes, 0, self.now_us)
        if part.batch > batch:
            return True
        self._save(query)
        if part.is_published:
            return True
        texts = [text for id in part.ids() for text in staged(self.attempts, id)]
        for done in range(part.done, part.rows):
            self._dying.here()
            self.published.append(texts[done])
            self.lists.advance(query, done + 1, 0, self.now_us)
            self._saved[query] = self.lists.encode(query)
        return True

    def tidy(self) -> None:
        for id, size in list(self.attempts.sizes.items()):
            if self.lists.is_over(id, size, self.now_us):
                self.attempts.remove(id)


def kept(found: DecidedBatch | None) -> KeptList | None:
    return None if found is None else KeptList(found.batch, found.attempts)


class ModelDriver:
    """Spark: repeats a batch until its commit returns, with rows spread anew each time."""

    def __init__(self, chance: random.Random, brokers: dict[str, ModelBroker]) -> None:
        self._chance = chance
        self.brokers = brokers
        self._attempts = 0

    def run(self, batch: int, texts: list[str]) -> list[Attempt]:
        found = []
        texts = self._chance.sample(texts, len(texts))
        while texts:
            cut = self._chance.randint(1, len(texts))
            some, texts = texts[:cut], texts[cut:]
            broker = self._chance.choice(list(self.brokers))
            self._attempts += 1
            name = f"a{self._attempts}"
            self.brokers[broker].stage(AttemptId("q", batch, name), some)
            found.append(Attempt(broker, name, len(some)))
        return found

    def commit(self, batch: int, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        stands = decide_batch(self.brokers, "q", batch, attempts)
        for name in brokers_of(stands):
            assert self.brokers[name].publish("q", batch, stands)
        return stands


@pytest.mark.parametrize("seed", range(examples(60)))
def test_batches_are_published_once_each_whatever_dies(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    dying = Dying(chance, chance.choice([0.02, 0.1, 0.2]))
    brokers = {
        name: ModelBroker(name, tmp_path / name, dying)
        for name in ("B1", "B2", "B3")[: 1 + seed % 3]
    }
    driver, expected = ModelDriver(chance, brokers), list[str]()
    for batch in range(5):
        texts = [f"{batch}.{number}" for number in range(chance.randint(0, 8))]
        expected += texts
        returned = 0
        # Spark may commit once more what it has committed.
        while returned < 1 + (chance.random() < 0.3):
            try:
                attempts = driver.run(batch, texts)
                for broker in brokers.values():
                    broker.tidy()
                driver.commit(batch, attempts)
                returned += 1
            except DiedError:
                # For so long that attempts without a list are too old.
                pause_us = chance.choice([1, ATTEMPT_AGE_US * 2])
                for broker in brokers.values():
                    broker.now_us += pause_us
                    broker.tidy()
                if chance.random() < 0.2 and "late" not in brokers:
                    brokers["late"] = ModelBroker("late", tmp_path / "late", dying)
        found = [text for broker in brokers.values() for text in broker.published]
        assert sorted(found) == sorted(expected)


def test_a_row_that_was_cut_off_is_sent_again(tmp_path: Path) -> None:
    id = AttemptId("q", 0, "a")
    attempts = StagedAttempts(tmp_path, ROOMY, 0)
    assert attempts.append(id, 0, 2, rows("one", "two"), 0) == 2
    assert attempts.append(id, 2, 1, rows("three"), 0) == 3
    path = tmp_path / "q" / "0" / "a"
    path.write_bytes(path.read_bytes()[:-2])
    again = StagedAttempts(tmp_path, ROOMY, 0)
    assert again.sizes[id].rows == 2
    assert again.append(id, 2, 1, rows("three"), 0) == 3
    # A request whose answer was lost comes again.
    assert again.append(id, 2, 1, rows("three"), 0) == 3
    assert staged(again, id) == ["one", "two", "three"]
    assert staged(again, id, 1) == ["two", "three"]
    with pytest.raises(ValueError, match="a has 3 rows, not 7"):
        again.append(id, 7, 1, rows("more"), 0)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogError, match="damaged at byte 0"):
        StagedAttempts(tmp_path, ROOMY, 0)


def test_too_many_rows_and_names_that_are_paths_are_refused(tmp_path: Path) -> None:
    attempts = StagedAttempts(tmp_path, 100, 0)
    with pytest.raises(StagingFullError, match="of 100 bytes"):
        attempts.append(AttemptId("q", 0, "a"), 0, 1, rows("x" * 100), 0)
    assert attempts.append(AttemptId("q", 0, "a"), 0, 1, rows("x"), 0) == 1
    for name in ("../x", "", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="is no name"):
            attempts.append(AttemptId(name, 0, "a"), 0, 1, rows("x"), 0)
    attempts.remove(AttemptId("q", 0, "a"))
    assert (attempts.bytes, list(tmp_path.iterdir())) == (0, [])


def test_a_list_that_names_what_is_lost_is_refused_by_name() -> None:
    lists = BatchLists("B1")
    with pytest.raises(LogError, match=r"attempt a of query q, batch 3, 0 of 2 rows are here"):
        lists.begin("q", "", 3, [Attempt("B1", "a", 2)], {}, 0, 0)


def test_a_query_is_its_users_own() -> None:
    lists = BatchLists("B1")
    lists.offer("q", "ann", 0, ["a"], 0)
    for call in (lists.offer, lists.decide):
        with pytest.raises(AnotherUsersQueryError, match="query q is another user's"):
            call("q", "bob", 0, [], 0)  # type: ignore[operator]
