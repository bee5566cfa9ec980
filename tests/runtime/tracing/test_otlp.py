"""Stories as OpenTelemetry spans, as a collector gets them over HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from shoal.runtime.tracing.story import Story, StoryRow

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from shoal.runtime.tracing.otlp import export


def row(depth: int, kind: str, name: str, from_ms: float, to_ms: float, **more: Any) -> StoryRow:
    return StoryRow(
        depth=depth, kind=kind, name=name, broker="B1", from_ms=from_ms, to_ms=to_ms, **more
    )


def story(**attributes: Any) -> Story:
    return Story(
        key="p/1",
        label="mine",
        publisher="p",
        topic="a/b",
        published_us=1_700_000_000_000_000,
        bytes=3,
        attributes=attributes,
        headline="",
        missing=[],
        rows=[
            row(0, "publisher", "p", 0.0, 0.0, ended_ms=9.0, state="settled"),
            row(1, "broker", "B1", 0.0, 0.5),
            row(2, "client", "c", 0.6, 0.6, ended_ms=2.0, state="delivered", text="a/#"),
            row(2, "client", "d", 0.6, 0.6, state="dropped", text="a/b", why="its queue is full"),
            row(2, "client", "e", 0.6, 0.6, state="no", text="a/b where x > 1"),
            row(2, "broker", "B2", 2.5, 3.0),
        ],
        left_out=0,
    )


@contextmanager
def collector(code: int = 200) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector's endpoint, and what it was sent."""
    requests: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", requests
    finally:
        server.shutdown()
        server.server_close()


def spans_of(request: ExportTraceServiceRequest) -> dict[str, Any]:
    return {
        span.name: span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def test_a_story_is_one_trace_with_the_publisher_at_its_root() -> None:
    with collector() as (endpoint, requests):
        export([story()], endpoint)
    (request,) = requests
    spans = spans_of(request)
    assert set(spans) == {"publish a/b", "B1", "deliver c", "deliver d", "B2"}
    assert len({span.trace_id for span in spans.values()}) == 1
    root = spans["publish a/b"]
    assert not root.parent_span_id
    assert root.end_time_unix_nano - root.start_time_unix_nano == 9_000_000
    assert spans["B1"].parent_span_id == root.span_id
    assert spans["B2"].parent_span_id == spans["B1"].span_id
    assert spans["deliver c"].parent_span_id == spans["B1"].span_id
    dropped = spans["deliver d"]
    assert (dropped.status.code, dropped.status.message) == (2, "its queue is full")


def test_a_story_that_is_sent_twice_has_the_same_identifiers() -> None:
    with collector() as (endpoint, requests):
        export([story()], endpoint)
        export([story()], endpoint)
    first, second = ({name: s.span_id for name, s in spans_of(r).items()} for r in requests)
    assert first == second


def test_a_publisher_s_traceparent_is_the_parent() -> None:
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with collector() as (endpoint, requests):
        export([story(traceparent=given)], endpoint)
    spans = spans_of(requests[0])
    root = spans["publish a/b"]
    assert root.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert root.parent_span_id.hex() == "00f067aa0ba902b7"
    assert spans["B1"].parent_span_id == root.span_id


@pytest.mark.parametrize("given", ["", "00-xyz-1-01", "01-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_traceparent_that_is_none_is_passed_over(given: str) -> None:
    with collector() as (endpoint, requests):
        export([story(traceparent=given)], endpoint)
    assert not spans_of(requests[0])["publish a/b"].parent_span_id


def test_a_collector_that_refuses_is_an_error() -> None:
    with collector(400) as (endpoint, _), pytest.raises(OSError, match="does not take"):
        export([story()], endpoint)
