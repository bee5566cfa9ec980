"""Takes rows of Spark's tasks into the staging area over HTTP, and commits of their batches.

| request | answer |
| --- | --- |
| POST /staged/QUERY/BATCH/ATTEMPT | adds rows (`shoal.log.staging.staged_rows`) behind the first |
| | `at`; with `last=1` they outlast a power cut; how many `rows` there are |
| POST /offers/QUERY/BATCH | keeps the attempts of a JSON list of names; the kept list, or null |
| PUT /decisions/QUERY/BATCH | keeps a JSON list of attempts, unless there is one; the kept list |
| POST /parts/QUERY/BATCH | publishes this broker's part of a JSON list of attempts; `published` |
| | of `rows`, after `wait_s` at most |
| GET /staged | a row for each query |
| DELETE /staged/QUERY | drops a query with its rows |

Each request may come again. 507: there is no room for rows; 403: a row that this user may not
publish, or another user's query; 409: the request cannot be met, with the reason.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.log.errors import LogError
from shoal.log.staging.attempts import MOST_ATTEMPTS, AttemptId, StagingFullError
from shoal.log.staging.parts import AnotherUsersQueryError, Attempt, DecidedBatch
from shoal.runtime.log_serving.access import LogReaderVerdict
from shoal.runtime.log_serving.staging_area import RowRefusedError, StagingArea

# A task sends about a megabyte at a time.
MOST_BYTES = 8 * 2**20
MOST_WAIT_S = 10.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

Answer = Callable[[Request, LogReaderVerdict], Awaitable[Response]]
Guard = Callable[[Answer], Callable[[Request], Awaitable[Response]]]
_T = TypeVar("_T")


class StagingPages:
    """Answers the requests; `guard` lets users in."""

    def __init__(self, area: StagingArea) -> None:
        self._area = area

    def routes(self, guard: Guard) -> list[Route]:
        """The routes, for the application of a log's listener."""

        def route(path: str, answer: Answer, method: str) -> Route:
            return Route(path, guard(self._explained(answer)), methods=[method])

        batch = "{query}/{batch:int}"
        return [
            route(f"/staged/{batch}/{{attempt}}", self._stage, "POST"),
            route(f"/offers/{batch}", self._offer, "POST"),
            route(f"/decisions/{batch}", self._decide_batch, "PUT"),
            route(f"/parts/{batch}", self._publish, "POST"),
            route("/staged", self._list, "GET"),
            route("/staged/{query}", self._forget_query, "DELETE"),
        ]

    def _explained(self, answer: Answer) -> Answer:
        async def explained(request: Request, verdict: LogReaderVerdict) -> Response:
            headers = request.headers
            is_long = int(headers.get("content-length", 0)) > MOST_BYTES
            if is_long or "transfer-encoding" in headers:
                return _problem(413, f"at most {MOST_BYTES:,} bytes, and say how many")
            try:
                return await answer(request, verdict)
            except (RowRefusedError, AnotherUsersQueryError) as error:
                return _problem(403, str(error))
            except StagingFullError as error:
                return _problem(507, f"{self._area.broker}: {error}")
            except LogError as error:
                return _problem(409, f"{self._area.broker}: {error}")
            except OSError as error:
                code = 507 if error.errno in _NO_ROOM else 500
                why = f"{self._area.broker}: staged rows cannot be kept: {error.strerror}"
                return _problem(code, why)

        return explained

    async def _stage(self, request: Request, verdict: LogReaderVerdict) -> Response:
        query, batch = _batch(request)
        id = AttemptId(query, batch, request.path_params["attempt"])
        words = request.query_params
        rows = await self._area.stage(
            *(id, verdict.user, verdict.permissions, int(words.get("at", 0))),
            await request.body(),
            is_last=words.get("last") == "1",
        )
        return JSONResponse({"rows": rows})

    async def _offer(self, request: Request, verdict: LogReaderVerdict) -> Response:
        query, batch = _batch(request)
        names = _read(await request.body(), list[str])
        _check(names)
        return _kept(await self._area.offer(query, verdict.user, batch, names))

    async def _decide_batch(self, request: Request, verdict: LogReaderVerdict) -> Response:
        query, batch = _batch(request)
        attempts = await _attempts(request)
        return _kept(await self._area.decide(query, verdict.user, batch, attempts))

    async def _publish(self, request: Request, verdict: LogReaderVerdict) -> Response:
        query, batch = _batch(request)
        attempts = await _attempts(request)
        wait_s = min(MOST_WAIT_S, float(request.query_params.get("wait_s", 0)))
        done, rows = await self._area.publish(query, verdict.user, batch, attempts, wait_s)
        return JSONResponse({"published": done, "rows": rows})

    async def _list(self, _request: Request, _verdict: LogReaderVerdict) -> Response:
        return JSONResponse({"broker": self._area.broker, **self._area.status})

    async def _forget_query(self, request: Request, verdict: LogReaderVerdict) -> Response:
        query = request.path_params["query"]
        if not await self._area.forget(query, verdict.user):
            return _problem(404, f"there is no query {query}")
        return JSONResponse({"query": query})


def _batch(request: Request) -> tuple[str, int]:
    query, batch = request.path_params["query"], request.path_params["batch"]
    AttemptId(query, batch, "a").check()
    return query, batch


async def _attempts(request: Request) -> list[Attempt]:
    """The list of a request; ValueError for names that no attempt has."""
    found = _read(await request.body(), list[Attempt])
    _check([each.name for each in found])
    if any(each.rows < 1 for each in found):
        raise ValueError("an attempt without rows")
    return found


def _check(names: Sequence[str]) -> None:
    if len(names) > MOST_ATTEMPTS:
        raise ValueError(f"more than {MOST_ATTEMPTS:,} attempts in one batch")
    for each in names:
        AttemptId("q", 0, each).check()


def _read(body: bytes, kind: type[_T]) -> _T:
    return msgspec.json.decode(body, type=kind)


def _kept(found: DecidedBatch | None) -> Response:
    if found is None:
        return JSONResponse(None)
    attempts: Sequence[object] = msgspec.to_builtins(found.attempts)
    return JSONResponse({"batch": found.batch, "attempts": attempts})


def _problem(code: int, text: str) -> Response:
    return JSONResponse({"problem": text}, code)
