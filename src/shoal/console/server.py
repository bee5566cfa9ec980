"""The console over HTTP: pages, one stream of events for each, questions, and orders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from shoal.console.access import ConsoleAccess
from shoal.console.asking import ORDERS, Asking
from shoal.console.gathering import Gathering
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import Caller

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# Events that wait for one page; a page that reads slower gets a new snapshot.
MOST_WAITING = 200
# A page that reads nothing for so long is closed.
SEND_TIMEOUT_S, PING_S = 10.0, 15


class PageQueue(asyncio.Queue[dict[str, str]]):
    """The events that wait for one page; at its bound they give way to a new snapshot."""

    def __init__(self) -> None:
        super().__init__(MOST_WAITING)
        self.needs_snapshot = True

    def send(self, kind: str, data: bytes) -> None:
        if self.full():
            while not self.empty():
                self.get_nowait()
            self.needs_snapshot = True
        if not self.needs_snapshot:
            self.put_nowait({"event": kind, "data": data.decode()})


class Console:
    """The console of one network."""

    def __init__(
        self,
        network: NetworkFile,
        caller: Caller,
        access: ConsoleAccess,
        *,
        allows_orders: bool,
    ) -> None:
        self.access = access
        self.allows_orders = allows_orders
        self._pages: set[PageQueue] = set()
        self._layout = -1
        self._is_stopped = False
        headers = {"Authorization": caller.authorization} if caller.authorization else {}
        self._client = httpx.AsyncClient(
            verify=caller.context if caller.context is not None else True,
            headers=headers,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        self._gathering = Gathering(
            network,
            caller,
            self._client,
            at_happening=lambda row: self._send_to_pages("happened", row),
            at_second=self._second,
        )
        self.view = self._gathering.view
        self.asking = Asking(self.view, caller, self._client, lambda: self._gathering.addresses)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the brokers' streams meanwhile."""
        task = asyncio.ensure_future(self._gathering.run())
        try:
            yield
        finally:
            self._is_stopped = True
            for page in self._pages:
                page.send("end", b"{}")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._client.aclose()

    def _second(self) -> None:
        if self._layout != self.view.layout:
            self._layout = self.view.layout
            for page in self._pages:
                page.needs_snapshot = True
        if any(page.needs_snapshot for page in self._pages):
            data = self._snapshot().decode()
            for page in self._pages:
                if page.needs_snapshot:
                    page.needs_snapshot = False
                    page.put_nowait({"event": "network", "data": data})
        self._send_to_pages("figures", self.view.figures(time.time()))

    def _snapshot(self) -> bytes:
        return msgspec.json.encode({**self.view.snapshot(), "orders": self.allows_orders})

    def _send_to_pages(self, kind: str, row: dict[str, Any]) -> None:
        if self._pages:
            data = msgspec.json.encode(row)
            for page in self._pages:
                page.send(kind, data)

    async def stream(self) -> AsyncIterator[dict[str, str]]:
        """The events of one page: a snapshot, figures each second, happenings as they come."""
        page = PageQueue()
        self._pages.add(page)
        page.needs_snapshot = False
        page.send("network", self._snapshot())
        page.send("figures", msgspec.json.encode(self.view.figures(time.time())))
        try:
            while not self._is_stopped:
                yield await page.get()
        finally:
            self._pages.discard(page)


def console_app(console: Console) -> Starlette:
    """The application that serves a console's pages."""

    async def page(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None:
            answer: Response = RedirectResponse(request.url.path, 303)
            answer.set_cookie(
                console.access.cookie, given, httponly=True, samesite="strict", path="/"
            )
            return answer
        return FileResponse(STATIC / "page.html", headers={"cache-control": "no-store"})

    async def stream(request: Request) -> Response:
        return EventSourceResponse(console.stream(), ping=PING_S, send_timeout=SEND_TIMEOUT_S)

    async def ask(request: Request) -> Response:
        answers = _QUESTIONS.get(request.path_params["question"])
        if answers is None:
            return JSONResponse({"problem": "no such question"}, 404)
        return JSONResponse(
            await answers(console, request.query_params), headers={"cache-control": "no-store"}
        )

    async def order(request: Request) -> Response:
        name, query = request.path_params["order"], request.query_params
        if name not in ORDERS:
            return JSONResponse({"problem": "no such order"}, 404)
        if not console.allows_orders:
            problem = "this console looks and gives no orders; start it with --orders"
            return JSONResponse({"problem": problem}, 403)
        if request.headers.get("x-shoal") != name:
            return JSONResponse({"problem": f"say so: X-Shoal: {name}"}, 403)
        given = {key: query[key] for key in ORDERS[name] if key in query}
        if name == "forget":  # the order goes to one broker, about another
            given["broker"] = query.get("dead", "")
        if name == "move":
            given["broker"] = query.get("target", "")
        if name == "trace":
            status, problem = await console.asking.begin_trace(given)
        else:
            status, problem = await console.asking.order(query.get("broker", ""), name, given)
        return JSONResponse({"problem": problem}, status)

    return Starlette(
        routes=[
            Route("/stream", stream),
            Route("/ask/{question}", ask),
            Route("/order/{order}", order, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
            Route("/favicon.ico", lambda request: Response(status_code=204)),
            Route("/{path:path}", page),
        ],
        middleware=[
            Middleware(_Guard, console=console),
            Middleware(GZipMiddleware, minimum_size=2_000),
        ],
    )


class _Guard:
    """Refuses requests without the token, and puts the policy on every answer."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app, self._console = app, console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        request, access = Request(scope), self._console.access
        token = request.query_params.get("token") or request.cookies.get(access.cookie, "")
        if why := access.refuses(request.headers.get("host", ""), token):
            await PlainTextResponse(f"{why}\n", 401)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


_Answers = Callable[[Console, Any], Awaitable[Any]]


async def _clients(console: Console, query: Any) -> Any:
    return await console.asking.clients(query.get("start", ""))


async def _client(console: Console, query: Any) -> Any:
    return await console.asking.client(query.get("client", ""))


async def _busiest(console: Console, _query: Any) -> Any:
    return await console.asking.busiest()


async def _try(console: Console, query: Any) -> Any:
    return await console.asking.try_filter(query.get("topic") or "#", query.get("where", ""))


async def _traces(console: Console, query: Any) -> Any:
    return await console.asking.traces(query.get("key", ""))


async def _leave_plan(console: Console, query: Any) -> Any:
    broker = query.get("broker", "")
    found = await console.asking.ask(broker, "/leave-plan")
    return {"problem": f"{broker} does not answer"} if found is None else found


async def _why(console: Console, query: Any) -> Any:
    return await console.asking.why(
        query.get("client", ""), query.get("topic", ""), query.get("payload", "")
    )


async def _drops(console: Console, _query: Any) -> Any:
    return console.view.drops(40)


async def _events(console: Console, query: Any) -> Any:
    kinds = {each for each in query.get("kinds", "").split(",") if each}
    rows = console.view.happenings(2_000, broker=query.get("broker", ""))
    return [row for row in rows if not kinds or row["kind"] in kinds][:100]


_QUESTIONS: dict[str, _Answers] = {
    "clients": _clients,
    "client": _client,
    "busiest": _busiest,
    "try": _try,
    "traces": _traces,
    "leave-plan": _leave_plan,
    "why": _why,
    "drops": _drops,
    "events": _events,
}
