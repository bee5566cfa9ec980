"""Gives a log to readers over HTTP: in pages, filtered at the broker, in slices of its loop.

| request | answer |
| --- | --- |
| GET / | the broker, the bounds of its log, its time, and where other brokers' logs are |
| GET /records | records from offset `from` on, before `to`: an answer of `shoal.log.selections` |
| | `topic`, more than once, `where`, `most_bytes`, `wait_s` and `run` as below |
| GET /offset | the offset of the first record at or after `time_us` |
| GET /readers | named readers, and how far each is behind |
| PUT /readers/NAME | pins a reader at `from`: an offset, `earliest`, `latest`, or `time_us=…` |
| POST /readers/NAME | moves its cursor to `offset` |
| DELETE /readers/NAME | forgets it |

A page ends after `most_bytes`, or when the log ends. `X-Shoal-Next` is the offset that goes on and
`X-Shoal-End` the log's next offset; no later record will be before the time `X-Shoal-Now` in µs.
`X-Shoal-Run` is the run of the last record before `X-Shoal-Next`; the next request says it again.
At the end of the log a request waits `wait_s` for news. Nothing of a page stays here: a reader that
is slow asks later.

`staging_pages` has the requests that publish.

410: retention has deleted the offset. 409: the log ends before it (an older copy was restored), or
a reader is lost. Changing a reader needs the header `X-Shoal: reader`, which no web page can send.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.attributes import Json
from shoal.language import FilterSyntaxError
from shoal.log.errors import LogError, OffsetAheadError, OffsetGoneError
from shoal.log.publication_log import LogView
from shoal.log.records import read_head
from shoal.log.selections import ALL_TOPICS, RecordSelection
from shoal.matching.topics.filters import TopicError
from shoal.mqtt.content import WHERE, FilterReader
from shoal.mqtt.limits import DEFAULT_LIMITS
from shoal.runtime.addresses import Address
from shoal.runtime.log_serving.access import LogAccess, LogReaderVerdict
from shoal.runtime.log_serving.staging_pages import Answer, StagingPages
from shoal.runtime.operations.http_server import HttpServer

DEFAULT_BYTES = 1_048_576
MOST_BYTES = 8 * DEFAULT_BYTES
MOST_WAIT_S = 30.0
# Time of the loop that one page takes before other input has its turn, and before it ends.
SLICE_S = 0.004
PAGE_S = 0.25
# Pages that are made at a time; more requests wait.
PAGES = 4
MOST_TOPICS = 100
READER_HEADER = "reader"


class LogSource(Protocol):
    """Gives a log: the writer of a broker, or a folder."""

    @property
    def log(self) -> LogView:
        """The log."""

    def reached_us(self) -> int:
        """A time before which no later record will be."""

    async def news(self, within_s: float) -> None:
        """Return when records were written, or after this time."""


class LogPages:
    """Answers readers' requests; `others` returns where the logs of other brokers are."""

    def __init__(
        self,
        source: LogSource,
        access: LogAccess,
        now_us: Callable[[], int],
        others: Callable[[], Mapping[str, str]],
        json: Json = "auto",
        staging: StagingPages | None = None,
    ) -> None:
        self._source = source
        self._access = access
        self._now_us = now_us
        self._others = others
        self._json = json
        self._staging = staging
        self._making = asyncio.Semaphore(PAGES)

    def app(self) -> Starlette:
        """The application of a log's listener."""
        reader = "/readers/{name}"
        staging = self._staging.routes(self._changing) if self._staging is not None else []
        return Starlette(
            routes=[
                *staging,
                Route("/", self._guarded(self._info)),
                Route("/records", self._guarded(self._records)),
                Route("/offset", self._guarded(self._offset)),
                Route("/readers", self._guarded(self._list)),
                Route(reader, self._guarded(self._pin, changes=True), methods=["PUT"]),
                Route(reader, self._guarded(self._move_reader, changes=True), methods=["POST"]),
                Route(reader, self._guarded(self._forget_reader, changes=True), methods=["DELETE"]),
            ]
        )

    def _changing(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        return self._guarded(answer, changes=True)

    def _guarded(
        self, answer: Answer, *, changes: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            verdict = await self._access.judge(
                request.headers.get("authorization", ""),
                getattr(request.state, "certified", ""),
                str(Address(*request.client)) if request.client is not None else None,
                request.headers.get("host", ""),
                _topics(request) if request.url.path == "/records" else (),
            )
            if verdict.code != 200:
                asks = {"WWW-Authenticate": 'Basic realm="shoal"'} if verdict.code == 401 else None
                return JSONResponse({"problem": verdict.why}, verdict.code, asks)
            if changes and request.headers.get("x-shoal") != READER_HEADER:
                return _problem(403, f"say so: X-Shoal: {READER_HEADER}")
            try:
                return await answer(request, verdict)
            except OffsetGoneError as error:
                return JSONResponse({"problem": str(error), "first": error.first}, 410)
            except OffsetAheadError as error:
                return JSONResponse({"problem": str(error), "end": error.end}, 409)
            except (ValueError, FilterSyntaxError, TopicError) as error:
                return _problem(400, str(error))
            except (LogError, OSError) as error:
                return _problem(500, str(error))

        return guarded

    async def _info(self, _request: Request, _verdict: LogReaderVerdict) -> Response:
        log = self._source.log
        return JSONResponse(
            {
                "broker": log.broker,
                "first": log.first,
                "next": log.next,
                "first_us": log.first_us,
                "last_us": log.last_us,
                "bytes": log.size,
                "now_us": self._now_us(),
                "brokers": dict(self._others()),
            }
        )

    async def _records(self, request: Request, _verdict: LogReaderVerdict) -> Response:
        query = request.query_params
        begin = _number(query, "from", self._source.log.first)
        end = _number(query, "to", -1)
        most = min(MOST_BYTES, _number(query, "most_bytes", DEFAULT_BYTES))
        wait_s = min(MOST_WAIT_S, float(query.get("wait_s", 0)))
        selection = self._selection(_topics(request), query.get("where", ""))
        if wait_s > 0 and begin == self._source.log.next:
            await self._source.news(wait_s)
        async with self._making:
            return await self._page(selection, begin, end, most, _number(query, "run", 0))

    def _selection(self, topics: tuple[str, ...], where: str) -> RecordSelection:
        """The selection of a request; ValueError for one that is larger than a SUBSCRIBE may be."""
        if len(topics) > MOST_TOPICS:
            raise ValueError(f"topic: more than {MOST_TOPICS} topic filters in one request")
        reader = FilterReader(((WHERE, where),) if where else (), DEFAULT_LIMITS)
        return RecordSelection(topics, reader.read(ALL_TOPICS).content, self._json)

    async def _page(
        self, selection: RecordSelection, begin: int, end: int, most: int, run: int
    ) -> Response:
        loop = asyncio.get_running_loop()
        log, body, size, now_us = self._source.log, list[bytes](), 0, self._source.reached_us()
        began_s = sliced_s = loop.time()
        log_end = log.next
        until = log_end if end < 0 else min(end, log_end)
        next_offset = begin
        try:
            for block in log.blocks(begin, run):
                head = read_head(block)
                if head.first >= until:
                    break
                for answer in selection.answers(block, begin, until):
                    body.append(answer)
                    size += len(answer)
                    if loop.time() - sliced_s > SLICE_S:
                        await asyncio.sleep(0)
                        sliced_s = loop.time()
                next_offset, run = min(head.next, until), head.run
                if next_offset >= until or size >= most or loop.time() - began_s > PAGE_S:
                    break
        except OffsetGoneError:  # retention was faster than this page
            if next_offset == begin:
                raise
        headers = {"Next": next_offset, "End": log_end, "Now": now_us, "Run": run}
        return Response(
            b"".join(body),
            media_type="application/octet-stream",
            headers={f"X-Shoal-{key}": str(value) for key, value in headers.items()},
        )

    async def _offset(self, request: Request, _verdict: LogReaderVerdict) -> Response:
        time_us = _number(request.query_params, "time_us", 0)
        return JSONResponse({"offset": self._source.log.offset_at(time_us)})

    # --- named readers ------------------------------------------------------------------------

    async def _list(self, _request: Request, _verdict: LogReaderVerdict) -> Response:
        log = self._source.log
        rows = log.readers.rows(log.next)
        return JSONResponse({"broker": log.broker, "next": log.next, "readers": rows})

    async def _pin(self, request: Request, verdict: LogReaderVerdict) -> Response:
        log, query = self._source.log, request.query_params
        where = query.get("from", "earliest")
        if "time_us" in query:
            offset = log.offset_at(_number(query, "time_us", 0))
        elif where in ("earliest", "latest"):
            offset = log.first if where == "earliest" else log.next
        else:
            offset = min(max(_number(query, "from", 0), log.first), log.next)
        name = request.path_params["name"]
        if refused := self._refusal(name, verdict.user):
            return refused
        reader = log.readers.pin(name, verdict.user, offset, self._now_us())
        return JSONResponse({"name": reader.name, "offset": reader.offset})

    async def _move_reader(self, request: Request, verdict: LogReaderVerdict) -> Response:
        log, name = self._source.log, request.path_params["name"]
        if refused := self._refusal(name, verdict.user):
            return refused
        offset = _number(request.query_params, "offset", 0)
        if offset > log.next:
            raise OffsetAheadError(offset, log.next)
        if log.readers.get(name) is None:
            return _problem(404, f"there is no reader {name}")
        try:
            reader = log.readers.move(name, offset, self._now_us())
        except ValueError as error:
            return _problem(409, str(error))
        return JSONResponse({"name": reader.name, "offset": reader.offset})

    async def _forget_reader(self, request: Request, verdict: LogReaderVerdict) -> Response:
        name = request.path_params["name"]
        if refused := self._refusal(name, verdict.user):
            return refused
        if self._source.log.readers.get(name) is None:
            return _problem(404, f"there is no reader {name}")
        self._source.log.readers.forget(name)
        return JSONResponse({"name": name})

    def _refusal(self, name: str, user: str) -> Response | None:
        found = self._source.log.readers.get(name)
        if found is None or found.user == user:
            return None
        return _problem(403, f"reader {name} is another user's")


class LogServer(HttpServer):
    """The listener of one broker's log."""

    def __init__(
        self,
        pages: LogPages,
        garbled: Callable[..., None],
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(pages.app(), garbled, context)


def _topics(request: Request) -> tuple[str, ...]:
    """The topic filters of a request, at most one too many."""
    found = request.query_params.getlist("topic")[: MOST_TOPICS + 1]
    return tuple(found) or (ALL_TOPICS,)


def _number(query: Mapping[str, Any], key: str, default: int) -> int:
    text = query.get(key)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{key}: {text[:80]!r} is no whole number") from None
    if not 0 <= number < 2**63:
        raise ValueError(f"{key}: {number} is no offset or time")
    return number


def _problem(code: int, text: str) -> Response:
    return JSONResponse({"problem": text}, code)
