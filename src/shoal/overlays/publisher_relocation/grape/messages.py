"""Messages between brokers to trace a publisher's session (relocation paper, 4.1).

Names are the paper's, spelled out: trace information request and answer (TIR, TIA). The others
are ours, for brokers' capacity and for subscribers that move.
"""

from __future__ import annotations

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Form, Vocabulary
from shoal.model import BrokerId, MessageId
from shoal.overlays.publisher_relocation.grape.parameters import MAX_TRACE_SESSION_LENGTH
from shoal.overlays.publisher_relocation.traces import BrokerTrace


class TraceInformationRequest(Message, frozen=True):
    """Downstream, to every neighbour that was sent a publication of the session."""

    session: MessageId


class TraceInformationAnswer(Message, frozen=True):
    """Upstream: the session's traces of the sender and all brokers below it."""

    session: MessageId
    traces: tuple[BrokerTrace, ...]


class PlaceRequest(Message, frozen=True):
    """Along the path to the chosen broker: is there room for the session's publisher (ours)?

    It makes `per_s` publications a second, of which that part passes the chosen broker already.
    """

    session: MessageId
    path: tuple[BrokerId, ...]
    per_s: float
    passing: float


class PlaceAnswer(Message, frozen=True):
    """Back along the path from its end: whether the publisher may come."""

    session: MessageId
    path: tuple[BrokerId, ...]
    has_room: bool


class SessionTraces(Message, frozen=True):
    """Downstream: all that is known of the session, and the broker where publications enter now."""

    session: MessageId
    entry: BrokerId
    traces: tuple[BrokerTrace, ...]


# --- on the wire ------------------------------------------------------------------------------


class _WrittenTrace(msgspec.Struct, frozen=True, array_like=True):
    """A `BrokerTrace` whose bits are bytes, little end first: integers there end at 64 bits."""

    broker: BrokerId
    neighbours: tuple[BrokerId, ...]
    bits: bytes
    deliveries: int
    input_queue_us: int
    matching_us: int
    output_queue_us: tuple[tuple[BrokerId, int], ...]
    client_output_us: int
    busy_percent: int = 0
    served_us: int = 0


class _WrittenAnswer(msgspec.Struct, frozen=True, array_like=True, tag="TraceInformationAnswer"):
    session: MessageId
    traces: tuple[_WrittenTrace, ...]


class _WrittenSession(msgspec.Struct, frozen=True, array_like=True, tag="SessionTraces"):
    session: MessageId
    entry: BrokerId
    traces: tuple[_WrittenTrace, ...]


def _write_trace(trace: BrokerTrace) -> _WrittenTrace:
    fields = msgspec.structs.asdict(trace)
    length = (trace.bits.bit_length() + 7) // 8
    return _WrittenTrace(**fields | {"bits": trace.bits.to_bytes(length, "little")})


def _read_trace(trace: _WrittenTrace) -> BrokerTrace:
    if len(trace.bits) > MAX_TRACE_SESSION_LENGTH // 8:
        raise ValueError(f"the trace of {trace.broker!r} has {len(trace.bits)} bytes of bits")
    fields = msgspec.structs.asdict(trace)
    return BrokerTrace(**fields | {"bits": int.from_bytes(trace.bits, "little")})


def _write(answer: TraceInformationAnswer) -> _WrittenAnswer:
    return _WrittenAnswer(answer.session, tuple(map(_write_trace, answer.traces)))


def _read(written: _WrittenAnswer) -> TraceInformationAnswer:
    return TraceInformationAnswer(written.session, tuple(map(_read_trace, written.traces)))


def _write_session(told: SessionTraces) -> _WrittenSession:
    return _WrittenSession(told.session, told.entry, tuple(map(_write_trace, told.traces)))


def _read_session(written: _WrittenSession) -> SessionTraces:
    traces = tuple(map(_read_trace, written.traces))
    return SessionTraces(written.session, written.entry, traces)


MESSAGES: Vocabulary = (
    TraceInformationRequest,
    Form(TraceInformationAnswer, _WrittenAnswer, _write, _read),
    Form(SessionTraces, _WrittenSession, _write_session, _read_session),
    PlaceRequest,
    PlaceAnswer,
)
