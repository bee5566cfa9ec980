"""Reads the logs of a network's brokers over HTTP, or of folders; for commands and Spark's workers.

`open_logs` finds the brokers of a network file; whichever answers names those that joined later.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from shoal.http_calls import HttpConnection, basic
from shoal.log.errors import LogError, OffsetAheadError, OffsetGoneError
from shoal.log.publication_log import FolderLog
from shoal.log.records import Entry, read_head
from shoal.log.selections import ALL_TOPICS, RecordSelection, read_answer

ANSWER_S = 20.0
# A broker that is killed is usually back within this time.
PATIENCE_S = 60.0
_PAUSE_S = 0.2
_T = TypeVar("_T")
_HEADER = {"X-Shoal": "reader"}


class LogAnswerError(LogError):
    """A broker's log cannot be read: it does not answer, or it answers with a refusal.

    An address or certificates that cannot be used count as a refusal: no later call succeeds.
    """

    def __init__(self, problem: str, *, is_refusal: bool = False) -> None:
        super().__init__(problem)
        self.is_refusal = is_refusal

    def __reduce__(self) -> tuple[type[LogAnswerError], tuple[str]]:
        return type(self), (str(self),)


class LogBounds(NamedTuple):
    """A log's offsets [first, next) and bytes, its broker's time in µs, and other brokers' logs."""

    broker: str
    first: int
    next: int
    bytes: int
    now_us: int
    brokers: Mapping[str, str]


class LogPage(NamedTuple):
    """Records with their offsets, and where to go on: the log ended before `end` at `now_us`.

    `run` is for the next page's request, which so notices that an older copy was restored.
    """

    records: list[tuple[int, Entry]]
    next: int
    end: int
    now_us: int
    run: int


class LogLogin(NamedTuple):
    """A user's name and password, and how the brokers' certificates are checked."""

    username: str = ""
    password: str = ""
    authority: str = ""
    server_name: str = ""

    def context(self) -> ssl.SSLContext:
        """The TLS context; LogAnswerError for an authority that cannot be used."""
        try:
            return ssl.create_default_context(cafile=self.authority or None)
        except OSError as error:  # TLS's own errors are among them
            raise LogAnswerError(f"{self.authority}: {error}", is_refusal=True) from None


NO_LOGIN = LogLogin()


class RemoteLog:
    """The log of one broker, at http:// or https://host:port; its connection stays open."""

    def __init__(self, url: str, login: LogLogin = NO_LOGIN) -> None:
        self.url = url
        self._login = login
        self._connection: HttpConnection | None = None

    def bounds(self) -> LogBounds:
        """The log's bounds now."""
        found = self._exchange_json("GET", "/")
        return LogBounds(*(found[key] for key in LogBounds._fields))

    def page(
        self,
        begin: int,
        end: int | None = None,
        *,
        topics: Sequence[str] = (ALL_TOPICS,),
        where: str = "",
        most_bytes: int = 1_048_576,
        wait_s: float = 0.0,
        run: int = 0,
    ) -> LogPage:
        """Chosen records from offset `begin` on, before `end`; at the end it waits for news.

        OffsetGoneError, OffsetAheadError as `PublicationLog.blocks`.
        """
        query: list[tuple[str, object]] = [("from", begin), ("most_bytes", most_bytes)]
        query += [("run", run), ("wait_s", wait_s), *(("topic", each) for each in topics)]
        query += [("to", end)] if end is not None else []
        query += [("where", where)] if where else []
        headers, body = self._exchange("GET", f"/records?{urlencode(query)}")
        try:
            records = list(read_answer(body))
        except ValueError as error:
            raise LogAnswerError(f"{self.url}: {error}") from None
        next_offset, log_end, now_us, new_run = (
            int(headers[f"X-Shoal-{key}"]) for key in ("Next", "End", "Now", "Run")
        )
        return LogPage(records, next_offset, log_end, now_us, new_run)

    def offset_at(self, time_us: int) -> int:
        """The offset of the first record at or after a time."""
        return int(self._exchange_json("GET", f"/offset?time_us={max(0, time_us)}")["offset"])

    def readers(self) -> list[dict[str, Any]]:
        """The named readers: name, user, offset, behind, moved_us, is_lost."""
        return list(self._exchange_json("GET", "/readers")["readers"])

    def pin(self, reader: str, at: str) -> int:
        """Pin a reader (`from=…` or `time_us=…`); the cursor that it has."""
        return int(self._exchange_json("PUT", f"/readers/{quote(reader, safe='')}?{at}")["offset"])

    def move(self, reader: str, offset: int) -> None:
        """Move a reader's cursor forward."""
        self._exchange_json("POST", f"/readers/{quote(reader, safe='')}?offset={offset}")

    def forget(self, reader: str) -> None:
        """Delete a reader."""
        self._exchange_json("DELETE", f"/readers/{quote(reader, safe='')}")

    def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        """The answer to another request of the listener; LogAnswerError where there is none."""
        _, answer = self._exchange(method, path, body)
        return json.loads(answer)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange_json(self, method: str, path: str) -> dict[str, Any]:
        _, body = self._exchange(method, path)
        found: dict[str, Any] = json.loads(body)
        return found

    def _exchange(
        self, method: str, path: str, sent: bytes = b""
    ) -> tuple[http.client.HTTPMessage, bytes]:
        # A connection that the broker has closed meanwhile is opened once more.
        is_new = self._connection is None
        try:
            answer, body = self._send_http(method, path, sent)
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if is_new or isinstance(error, TimeoutError):
                is_refusal = isinstance(error, ssl.SSLCertVerificationError)
                problem = f"{self.url} does not answer: {error}"
                raise LogAnswerError(problem, is_refusal=is_refusal) from None
            return self._exchange(method, path, sent)
        if answer.status != 200:
            self._fail(answer.status, body)
        return answer.headers, body

    def _send_http(
        self, method: str, path: str, sent: bytes
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._open()
        headers = dict(_HEADER)
        if self._login.username:
            headers["Authorization"] = basic(self._login.username, self._login.password)
        self._connection.request(method, path, sent or None, headers)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def _open(self) -> HttpConnection:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or parts.hostname is None or parts.port is None:
            problem = f"{self.url!r} is no address such as http://127.0.0.1:8100"
            raise LogAnswerError(problem, is_refusal=True)
        context = self._login.context() if parts.scheme == "https" else None
        return HttpConnection(
            parts.hostname, parts.port, ANSWER_S, context, self._login.server_name
        )

    def _fail(self, status: int, body: bytes) -> None:
        try:
            said = json.loads(body)
        except ValueError:
            said = {}
        problem = f"{self.url}: {said.get('problem', f'HTTP status {status}')}"
        if status == 410:
            raise OffsetGoneError(said.get("offset", 0), said["first"], problem)
        if status == 409 and "end" in said:
            raise OffsetAheadError(said.get("offset", 0), said["end"], problem)
        raise LogAnswerError(problem, is_refusal=True)


class LocalLog:
    """A folder's log, as `RemoteLog`; it does not grow."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._log = FolderLog(folder)

    def bounds(self) -> LogBounds:
        """The log's bounds; its time is that of its last record."""
        log = self._log
        return LogBounds(log.broker, log.first, log.next, log.size, log.last_us, {})

    def page(
        self,
        begin: int,
        end: int | None = None,
        *,
        topics: Sequence[str] = (ALL_TOPICS,),
        where: str = "",
        most_bytes: int = 1_048_576,
        wait_s: float = 0.0,
        run: int = 0,
    ) -> LogPage:
        """As `RemoteLog.page`; it does not wait."""
        selection, records, size = RecordSelection(topics, where), list[tuple[int, Entry]](), 0
        log, next_offset = self._log, begin
        for block in log.blocks(begin, run):
            head = read_head(block)
            if size >= most_bytes or (end is not None and head.first >= end):
                break
            records += selection.records(block, begin, end)
            size += len(block)
            next_offset, run = head.next if end is None else min(head.next, end), head.run
        return LogPage(records, next_offset, log.next, log.last_us, run)

    def offset_at(self, time_us: int) -> int:
        """The offset of the first record at or after a time."""
        return self._log.offset_at(time_us)

    def close(self) -> None:
        """Nothing stays open."""


ReadableLog = RemoteLog | LocalLog


def open_logs(where: str, login: LogLogin = NO_LOGIN) -> dict[str, ReadableLog]:
    """The logs of a network file, an address or a folder, by broker.

    LogError where there is none, and LogAnswerError where a broker of the network file has one and
    none of the brokers answers.
    """
    if where.startswith(("http://", "https://")):
        return _joined({where: RemoteLog(where, login)}, login, is_one=True)
    path = Path(where)
    if path.is_dir():
        return _of_folders(path)
    found = log_addresses(path)
    if not found:
        raise LogError(f"{path}: no broker has a listener for readers of its log (key `log`)")
    return _joined({name: RemoteLog(url, login) for name, url in found.items()}, login)


def log_addresses(path: Path) -> dict[str, str]:
    """Addresses of the logs of a network file's brokers, by broker; LogError for a bad file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise LogError(f"{path}: {error}") from None
    scheme = "https" if "client_tls" in data else "http"
    found = listeners_in(data, "log")
    kept = data.get("log", {}).get("brokers") or found
    return {name: f"{scheme}://{where}" for name, where in found.items() if name in kept}


def listeners_in(network: Mapping[str, Any], key: str) -> dict[str, str]:
    """The address at which others reach a listener of a network file's brokers, by broker."""
    return {
        each["name"]: where
        for each in network.get("brokers", ())
        if (where := each.get("public", {}).get(key) or each.get(key))
    }


def _joined(
    known: dict[str, ReadableLog], login: LogLogin, *, is_one: bool = False
) -> dict[str, ReadableLog]:
    """With the logs of brokers that joined later, as those of the network file know them."""
    found: dict[str, ReadableLog] = {} if is_one else dict(known)
    problems = []
    for log in known.values():
        try:
            bounds = log.bounds()
        except LogAnswerError as error:
            problems.append(error)
            continue
        scheme = log.url.partition("://")[0]
        found[bounds.broker] = log
        for name, where in bounds.brokers.items() if not is_one else ():
            found.setdefault(name, RemoteLog(f"{scheme}://{where}", login))
    if len(problems) == len(known):
        raise problems[0]
    return found


def _of_folders(path: Path) -> dict[str, ReadableLog]:
    """The log in a folder, or the logs in the folders in it."""
    if (path / "state").exists():
        folders = [path]
    else:
        folders = sorted(each.parent for each in path.glob("*/state"))
    if not folders:
        raise LogError(f"{path} has no log")
    logs = [LocalLog(each) for each in folders]
    return {log.bounds().broker: log for log in logs}


def patiently(call: Callable[[], _T], patience_s: float) -> _T:
    """The result of a call that is repeated for this time while a broker does not answer."""
    until_s = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except LogAnswerError as error:
            if error.is_refusal or time.monotonic() > until_s:
                raise
        time.sleep(_PAUSE_S)


def pages(
    log: ReadableLog,
    begin: int,
    end: int,
    *,
    topics: Sequence[str] = (ALL_TOPICS,),
    where: str = "",
    most_bytes: int = 1_048_576,
    patience_s: float = 0.0,
) -> Iterator[LogPage]:
    """Page after page of a log's records with offsets in [begin, end).

    Before each page a broker that does not answer is waited for, at most this time.
    """
    ask = partial(log.page, end=end, topics=topics, where=where, most_bytes=most_bytes)
    run = 0
    while begin < end:
        page = patiently(partial(ask, begin, run=run), patience_s)
        if page.next <= begin:
            raise LogError(f"{log.url}: the log ends at {page.end}, before offset {end}")
        yield page
        begin, run = page.next, page.run
