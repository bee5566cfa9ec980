"""A broker's staging area over HTTP, for Spark's tasks and its driver.

A broker that does not answer is asked again until `patience_s` is over: it may be starting again.
Each request may arrive twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from shoal.log.remote import PATIENCE_S, LogAnswerError, RemoteLog, patiently
from shoal.log.staging.committing import KeptList, brokers_of, decide_batch
from shoal.log.staging.parts import Attempt
from shoal.log.staging.staged_rows import StagedRow, encode_rows

# Rows are sent in requests of about this many bytes.
REQUEST_BYTES = 1_048_576
# A broker answers a commit after this time at the latest, with how far it is.
_WAIT_S = 5.0


class RemoteStaging:
    """The staging area of one broker, beside its log."""

    def __init__(self, log: RemoteLog, patience_s: float = PATIENCE_S) -> None:
        self._log = log
        self._patience_s = patience_s

    def stage(self, query: str, batch: int, attempt: str, rows: Iterator[StagedRow]) -> int:
        """Stage an attempt's rows; returns how many.

        LogAnswerError for a row that is refused, or a broker that does not answer in time.
        """
        path, count = f"/staged/{_path(query, batch)}/{quote(attempt, safe='')}", 0
        for some in _requests(rows):
            count = self._ask_patiently("POST", f"{path}?at={count}", encode_rows(some))["rows"]
        return int(
            self._ask_patiently("POST", f"{path}?at={count}&last=1", encode_rows([]))["rows"]
        )

    def offer(self, query: str, batch: int, names: Sequence[str]) -> KeptList | None:
        """See `StagingBroker`."""
        body = msgspec.json.encode(names)
        return _kept(self._ask_patiently("POST", f"/offers/{_path(query, batch)}", body))

    def decide(self, query: str, batch: int, attempts: Sequence[Attempt]) -> KeptList:
        """See `StagingBroker`."""
        body = msgspec.json.encode(attempts)
        found = _kept(self._ask_patiently("PUT", f"/decisions/{_path(query, batch)}", body))
        assert found is not None
        return found

    def publish(
        self, query: str, batch: int, attempts: Sequence[Attempt], wait_s: float = _WAIT_S
    ) -> bool:
        """See `StagingBroker`; returns after this time, also if it is not done."""
        path = f"/parts/{_path(query, batch)}?wait_s={wait_s}"
        found = self._ask_patiently("POST", path, msgspec.json.encode(attempts))
        return bool(found["published"] >= found["rows"])

    def queries(self) -> list[dict[str, Any]]:
        """A row for each query: its last batch, rows, how many are published, and the reason."""
        return list(self._ask_patiently("GET", "/staged")["queries"])

    def forget(self, query: str) -> None:
        """Drop a query with its rows; a repeated batch of it would be published again."""
        self._ask_patiently("DELETE", f"/staged/{quote(query, safe='')}")

    def _ask_patiently(self, method: str, path: str, body: bytes = b"") -> Any:
        return patiently(lambda: self._log.ask(method, path, body), self._patience_s)


def commit_batch(
    brokers: Mapping[str, RemoteStaging], query: str, batch: int, attempts: Sequence[Attempt]
) -> int:
    """Publish a batch at all brokers, once; returns the rows of the list that stands.

    LogAnswerError if a broker does not answer in time, or has lost rows of the list.
    """
    stands = decide_batch(brokers, query, batch, attempts)
    waiting = brokers_of(stands)
    if missing := [name for name in waiting if name not in brokers]:
        raise LogAnswerError(
            f"batch {batch} of query {query}: {missing[0]} has rows of it, and has left the network"
        )
    wait_s = 0.0  # so that all of them begin
    while waiting := [
        name for name in waiting if not brokers[name].publish(query, batch, stands, wait_s)
    ]:
        wait_s = _WAIT_S
    return sum(each.rows for each in stands)


def _requests(rows: Iterator[StagedRow]) -> Iterator[list[StagedRow]]:
    some: list[StagedRow] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row.topic) + len(row.payload) + 32
        if size >= REQUEST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _path(query: str, batch: int) -> str:
    return f"{quote(query, safe='')}/{batch}"


def _kept(found: dict[str, Any] | None) -> KeptList | None:
    if found is None:
        return None
    attempts = tuple(msgspec.convert(found["attempts"], list[Attempt]))
    return KeptList(found["batch"], attempts)
