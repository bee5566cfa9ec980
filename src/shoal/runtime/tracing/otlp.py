"""Stories as OpenTelemetry spans, to a collector over OTLP/HTTP (extra `otel`).

| in the story | span | kind, parent |
| --- | --- | --- |
| the message | `publish TOPIC`, until the network had acknowledged it | producer, see below |
| a broker | `BROKER`, from its arrival to the end of its handling | server, the broker before |
| a subscriber | `deliver CLIENT`, until acknowledged; an error if dropped | consumer, its broker |

The parent of the message is the publisher's `traceparent`, if it sent one as user property.
Identifiers are hashes of the message's key and the place in its story, so that a story which is
exported twice is one trace. Names of attributes follow OpenTelemetry's conventions for messaging.

Source: OpenTelemetry semantic conventions, messaging spans; W3C Trace Context, section 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from shoal.runtime.tracing.spans import DELIVERED, DROPPED, NO
from shoal.runtime.tracing.story import MISSING, Story, StoryRow

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

TRACE_PARENT = "traceparent"
_TRACE_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
# A trace that has nowhere to end is as long as this.
_SHORTEST_NS = 1_000


def export(stories: Sequence[Story], endpoint: str) -> None:
    """Send stories to a collector: `endpoint` is the URL of its /v1/traces.

    Headers, compression and certificates are those of the environment (OTEL_EXPORTER_OTLP_…).
    OSError if the collector does not take them; ModuleNotFoundError without the extra `otel`.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=10)
    try:
        spans = [span for story in stories for span in to_spans(story)]
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise OSError(f"the collector at {endpoint} does not take the spans")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def to_spans(story: Story) -> Iterator[ReadableSpan]:
    """The spans of a story, each behind its parent."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode

    kinds = {
        "publisher": SpanKind.PRODUCER,
        "broker": SpanKind.SERVER,
        "client": SpanKind.CONSUMER,
    }
    given = _TRACE_PARENT.fullmatch(str(story.attributes.get(TRACE_PARENT, "")))
    trace_id = int(given[1], 16) if given else _number(story.key, 16)
    above: list[SpanContext] = []
    if given:
        above.append(_context(trace_id, int(given[2], 16)))
    depth_of_first = len(above)
    resource = Resource.create({"service.name": "shoal"})
    for place, row in enumerate(story.rows):
        if row.state == NO:
            continue
        context = _context(trace_id, _number(f"{story.key} {place}", 8))
        del above[depth_of_first + row.depth :]
        is_error = row.state in (DROPPED, MISSING)
        start_ns = _ns(story, row.from_ms)
        yield ReadableSpan(
            name=_name(story, row),
            context=context,
            parent=above[-1] if above else None,
            resource=resource,
            attributes=_attributes(story, row),
            kind=kinds[row.kind],
            status=Status(StatusCode.ERROR, row.why) if is_error else Status(StatusCode.UNSET),
            start_time=start_ns,
            end_time=max(start_ns + _SHORTEST_NS, _ns(story, row.ended_ms or row.to_ms)),
        )
        if row.kind != "client":
            above.append(context)


def _context(trace_id: int, span_id: int) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(1))


def _number(text: str, size: int) -> int:
    """A hash that is not 0, which would be no identifier."""
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest()) or 1


def _ns(story: Story, ms: float) -> int:
    return 1_000 * story.published_us + round(1e6 * ms)


def _name(story: Story, row: StoryRow) -> str:
    if row.kind == "publisher":
        return f"publish {story.topic}"
    return row.name if row.kind == "broker" else f"deliver {row.name}"


def _attributes(story: Story, row: StoryRow) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "messaging.system": "shoal",
        "messaging.destination.name": story.topic,
        "messaging.message.id": story.key,
        "messaging.message.body.size": story.bytes,
        "shoal.broker": row.broker,
    }
    if row.kind == "client":
        found |= {
            "messaging.client.id": row.name,
            "messaging.destination.subscription.name": row.text,
            "shoal.state": row.state,
        }
        if row.state != DELIVERED and row.why:
            found["shoal.why"] = row.why
    if row.kind == "publisher":
        found["messaging.client.id"] = row.name
        if story.label:
            found["shoal.label"] = story.label
    return found
