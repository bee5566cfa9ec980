"""A broker's admin port: liveness, readiness, status and orders; over HTTP or HTTPS.

| path | answer |
| --- | --- |
| /health | 200 as long as the broker answers at all |
| /ready | 200 when its links are up and it admits clients, else 503 and the reasons |
| /status | the broker, its links, clients and tables as JSON |
| /metrics | the same figures for Prometheus |
| /events | the broker's events as they come, as server-sent events (`runtime/events`); `since` |
| /clients | sessions with addresses and queues, a page of them as below |
| /subscriptions | clients' subscriptions, a page of them; `next` is the query of the next one |
| /why | the broker's knowledge about a publication and a client that may get it |
| /routing_decision | a publication's next hops from the broker; `shoal why` follows them |
| /retained | retained topics that a `filter` matches, a page of them; no payloads |
| /top | the busiest publishers and topics, and the most costly filters, by samples |
| /traces | traced messages, or the spans of one `key` or label (`runtime/tracing`) |
| /try | how sampled messages of its clients answer a filter: `topic`, `where`; no payloads |
| /prometheus/targets | the brokers, those that joined among them, as `http_sd_config` reads it |
| /survey | a planner's input from its system; `shoal plan dynatops --network` asks |
| /round-trips | µs to each other broker and back, measured over links and by probes |
| /leave-plan | the steps of a leave, and reasons that refuse it; `without` as below |
| /leave | by POST: the broker begins to leave its network, 202; 409 and why if it cannot |
| | `without`, names with commas between them: these neighbours are treated as dead |
| /stay | by POST: the broker cancels its leave, 202; 409 and why if it is too late |
| /move | by POST, `client` and `broker` in the query: 202 when it is there; 409 and why not |
| /rearrange | by POST, `do` and more in the query: an order to brokers of `dynatops`; as above |
| /drain | by POST: the broker begins to redirect its clients, and admits none; as above |
| /delete-session | by POST, `client`: its session ends, and its connection; as above |
| /delete-retained | by POST, `filter`: retained messages on such topics are deleted; as above |
| /trace | by POST, `topic`, `where`, `each`, `seconds`: a sample of messages is traced |
| /undrain | by POST: it admits clients again; as above |

A web page in a browser can send a POST to a port of the browser's machine, but not with a header of
its own: a request to leave needs `X-Shoal: leave`, and is refused without, 403. Each of the other
orders needs a header of its own, too. A page cannot come by a name of its own either: if operators
need no password, the Host header must be an address of the broker, or a name that the network file
has for it. If operators have passwords, `admin_access.py` decides about each request; /health and
/ready, for health checks and load balancers, name no clients and are open to all.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.mqtt.notices import Party
from shoal.runtime.addresses import Address
from shoal.runtime.events.ring import BrokerEvent
from shoal.runtime.operations.admin_access import AdminAccess
from shoal.runtime.operations.http_server import HttpServer
from shoal.runtime.operations.metrics import render
from shoal.runtime.readiness import Readiness

Status = Callable[[], Mapping[str, Any]]
Ready = Callable[[], Readiness]
# A page of the answer to a question, by the query.
Page = Callable[[Mapping[str, str]], Awaitable[Mapping[str, Any] | list[dict[str, Any]]]]
# Executes an operator's order, given the query and the operator (OPERATOR); returns why it cannot,
# or nothing.
Order = Callable[[Mapping[str, str]], Awaitable[str]]
Answer = Callable[[Request], Awaitable[Response]]
# Returns the events of the broker, after the one with this identifier.
Events = Callable[[str], AsyncIterator[BrokerEvent]]
OPERATOR = "operator"
# A reader of events that reads nothing for so long is closed; without events it gets a comment.
SEND_TIMEOUT_S, PING_S = 10.0, 15


def admin_app(
    status: Status,
    figures: Status,
    readiness: Ready,
    orders: Mapping[str, Order],
    questions: Mapping[str, Page],
    access: AdminAccess,
    events: Events,
) -> Starlette:
    """The application behind the admin port; `orders` and `questions` by their paths' names.

    `figures` are the metrics' part of the status.
    """

    def guarded(answers: Answer, *, is_order: bool = False) -> Answer:
        async def answer_operators(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            where = str(Address(*request.client)) if request.client is not None else None
            verdict = await access.judge(
                given,
                where,
                request.url.path,
                request.headers.get("host", ""),
                is_order=is_order,
                certified=getattr(request.state, "certified", ""),
            )
            if verdict.code != 200:
                asks = {"WWW-Authenticate": 'Basic realm="shoal"'} if verdict.code == 401 else None
                return JSONResponse({"problem": verdict.why}, verdict.code, asks)
            request.state.operator = verdict.operator
            return await answers(request)

        return answer_operators

    async def health(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def ready(request: Request) -> Response:
        is_ready, missing = readiness()
        return JSONResponse({"ready": is_ready, "missing": missing}, 200 if is_ready else 503)

    async def show_status(request: Request) -> Response:
        return JSONResponse(dict(status()))

    async def follow_order(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        if request.headers.get("x-shoal") != name:
            return JSONResponse({"problem": f"say so: X-Shoal: {name}"}, 403)
        said = {**request.query_params, OPERATOR: request.state.operator}
        where = str(Address(*request.client)) if request.client is not None else None
        client, operator = said.get("client", ""), request.state.operator
        who, path = Party(client, operator, where), request.url.path
        change = ", ".join(f"{key}={text}" for key, text in request.query_params.items())
        access.note_order("ordered", who, path, change)
        problem = await orders[name](said)
        outcome = "order refused" if problem else "order carried out"
        access.note_order(outcome, who, path, f"{change}: {problem}" if problem else change)
        return JSONResponse({"problem": problem}, 409 if problem else 202)

    async def answer(request: Request) -> Response:
        try:
            page = await questions[request.url.path.removeprefix("/")](request.query_params)
        except ValueError as error:
            return JSONResponse({"problem": str(error)}, 400)
        return JSONResponse(page if isinstance(page, list) else dict(page))

    async def stream(request: Request) -> Response:
        since = request.query_params.get("since", "")
        return EventSourceResponse(
            _server_sent(events(since)), ping=PING_S, send_timeout=SEND_TIMEOUT_S
        )

    async def metrics(request: Request) -> Response:
        return Response(render(figures), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/ready", ready),
            Route("/status", guarded(show_status)),
            Route("/metrics", guarded(metrics)),
            Route("/events", guarded(stream)),
            *(
                Route(f"/{name}", guarded(follow_order, is_order=True), methods=["POST"])
                for name in orders
            ),
            *(Route(f"/{name}", guarded(answer)) for name in questions),
        ]
    )


async def _server_sent(events: AsyncIterator[BrokerEvent]) -> AsyncIterator[dict[str, str]]:
    async for event in events:
        row = {"event": event.kind, "data": msgspec.json.encode(event.data).decode()}
        yield row | {"id": event.id} if event.id else row


class AdminServer(HttpServer):
    """The admin port of one broker."""

    def __init__(
        self,
        status: Status,
        figures: Status,
        readiness: Ready,
        orders: Mapping[str, Order],
        questions: Mapping[str, Page],
        access: AdminAccess,
        events: Events,
        context: ssl.SSLContext | None = None,
    ) -> None:
        app = admin_app(status, figures, readiness, orders, questions, access, events)
        super().__init__(app, access.garbled, context)
