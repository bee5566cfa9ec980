"""The wire format: every message round-trips; anything else raises WireError with the reason."""

from __future__ import annotations

import contextlib
import struct
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker import wire
from shoal.broker.messages import (
    MOST_CARRIED,
    MOST_TOGETHER,
    Advertise,
    Carrier,
    Message,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Together,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.wire import COMMON, HEAD_BYTES, Codec, Form, FrameReader, Vocabulary, WireError
from shoal.clients.front_ends import DeliveriesReported, StandsFor, Stayed, Wants, WhoHad, WhoWants
from shoal.clients.messages import MESSAGES as CLIENTS_MESSAGES
from shoal.model import (
    And,
    Constant,
    Expression,
    Filter,
    MessageId,
    Not,
    Operator,
    Or,
    Publication,
    Subscription,
    predicate,
)
from shoal.overlays.publisher_relocation.grape.messages import SessionTraces, TraceInformationAnswer
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.links.reliable import ReliableFrame
from tests.broker.test_machine import IDS, MESSAGES, NAMES, ROUTED, tuples
from tests.examples import examples
from tests.strategies import filters

SYSTEMS_MESSAGES: Vocabulary = tuple(
    dict.fromkeys(entry for system in SYSTEMS.values() for entry in system.messages)
)
EVERY: Vocabulary = COMMON + CLIENTS_MESSAGES + SYSTEMS_MESSAGES
CODEC = Codec(EVERY)
# Messages between a front end and its broker stay on one machine.
NEVER_WRITTEN = {StandsFor, WhoHad, DeliveriesReported, WhoWants, Wants, Stayed}
FIGURES = st.integers(0, 2**63 - 1)
TRACES = tuples(
    st.builds(
        BrokerTrace,
        broker=NAMES,
        neighbours=tuples(NAMES),
        bits=st.one_of(st.integers(0, 2**65_536 - 1), st.integers(0, 2**70)),
        deliveries=FIGURES,
        input_queue_us=FIGURES,
        matching_us=FIGURES,
        output_queue_us=tuples(st.tuples(NAMES, FIGURES)),
        client_output_us=FIGURES,
    )
)
# Strategies for a machine's test make numbers that no broker writes; these are all that one writes.
WRITTEN: dict[type[Message], st.SearchStrategy[Message]] = {
    kind: strategy for kind, strategy in MESSAGES.items() if kind not in NEVER_WRITTEN
} | {
    PublicationBatch: st.builds(PublicationBatch, tuples(ROUTED), st.integers(0, 2**31 - 1)),
    TraceInformationAnswer: st.builds(
        TraceInformationAnswer,
        IDS,
        TRACES,
    ),
    SessionTraces: st.builds(SessionTraces, IDS, NAMES, TRACES),
}
JOINED = st.one_of([WRITTEN[kind] for kind in (Advertise, Unadvertise, Subscribe, Unsubscribe)])
WRITTEN[Together] = st.builds(Together, st.lists(JOINED, min_size=1, max_size=3).map(tuple))


def decode(frame: bytes) -> Message:
    (body,) = FrameReader().feed(frame)
    message: Message = CODEC.decode(body)
    return message


def frame_of(*, tag: str, fields: list[object]) -> bytes:
    return b"\x01" + msgspec.msgpack.encode([tag, *fields])


# --- round trips ------------------------------------------------------------------------------


def test_every_message_is_in_a_vocabulary() -> None:
    known = {each.message if isinstance(each, Form) else each for each in EVERY}
    assert known == set(WRITTEN)


@pytest.mark.parametrize("kind", WRITTEN)
@given(st.data())
@settings(max_examples=examples(40))
def test_a_message_is_the_same_after_the_wire(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(WRITTEN[kind])
    frame = CODEC.encode(message)
    assert CODEC.size_of(message) == len(frame)
    there = decode(frame)
    assert type(there) is kind
    assert repr(there) == repr(message)  # tells -0.0 from 0, 1 from True, and finds NaN equal


@given(filters())
def test_a_filter_is_the_same_after_the_wire(filter: Filter) -> None:
    there = decode(CODEC.encode(Subscribe(Subscription(id="s", client="c", filter=filter))))
    assert isinstance(there, Subscribe)
    assert repr(there.subscription.filter) == repr(filter)
    assert hash(there.subscription.filter) == hash(filter)


VALUES = [
    2**63 - 1, -(2**63), 2**53 + 1, 0, -0.0, 5e-324, 1.7976931348623157e308, float("inf"),
    float("-inf"), float("nan"), True, False, 1, 1.0, "", "\0", "a\0b", "𝄞", "\ud7ff",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_the_same_after_the_wire(value: bool | float | str) -> None:
    there = decode(CODEC.encode(publication_of({"x": value})))
    assert isinstance(there, Publish)
    found = there.publications[0].attributes["x"]
    assert type(found) is type(value)
    assert struct.pack("d", found) == struct.pack("d", value) if value != value else found == value
    assert repr(found) == repr(value)


def publication_of(attributes: dict[str, object]) -> Publish:
    fields = {"publisher": "P", "sequence": 1, "published_us": 2, "attributes": attributes}
    return Publish((Publication(**fields),))  # type: ignore[arg-type]


# --- unwritable messages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Unsubscribe("\ud800"), "Unsubscribe cannot be written: 'utf-8' codec can't encode"),
        (publication_of({"x": 2**64}), "Publish cannot be written: "),
        (publication_of({"x": object()}), "Publish cannot be written: object cannot be encoded"),
        (ReliableFrame(0, 0, None), "Frame is no message of this network"),
        (Rejected("x" * 1_000), "Rejected takes 1014 bytes, more than 1000"),
    ],
    ids=lambda each: "" if isinstance(each, str) else type(each).__name__,
)
def test_unwritable_messages_are_errors(
    message: Message, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 1_000)
    with pytest.raises(WireError, match=problem):
        CODEC.encode(message)


def deep(levels: int) -> Expression:
    expression: Expression = Constant(True)
    for _ in range(levels):
        expression = Not(expression)
    return expression


def wide(parts: int) -> Expression:
    return Or(tuple(predicate("a", Operator.EQ, number) for number in range(parts)))


def subscribe(expression: Expression) -> Subscribe:
    return Subscribe(Subscription(id="s", client="c", filter=Filter(expression)))


def test_filters_have_limits() -> None:
    for fits in (deep(wire.MAX_DEPTH - 1), wide(wire.MAX_PARTS - 1)):
        assert decode(CODEC.encode(subscribe(fits))) == subscribe(fits)
    with pytest.raises(WireError, match="nested more than 256 deep"):
        CODEC.encode(subscribe(deep(wire.MAX_DEPTH)))
    with pytest.raises(WireError, match="more than 4000 parts"):
        CODEC.encode(subscribe(wide(wire.MAX_PARTS)))


# --- unreadable messages ----------------------------------------------------------------------


def subscription_with(expression: object) -> bytes:
    return frame_of(tag="Subscribe", fields=[["s", "c", expression]])


def batch_with(attributes: object, hops: int = 1) -> bytes:
    routed = [["P", 1, 2, attributes], ["B", "P", 1], None]
    return frame_of(tag="PublicationBatch", fields=[[routed], hops])


PROBLEMS = {
    "no byte": (b"", "an empty frame; this broker reads version 1"),
    "other version": (b"\x03" + msgspec.msgpack.encode(["Resume"]), "version 3; this broker reads"),
    "no message": (b"\x01", "truncated"),
    "no MessagePack": (b"\x01\xc1", "malformed"),
    "more than one": (frame_of(tag="Goodbye", fields=[]) + b"\xc0", "trailing characters"),
    "other shape": (b"\x01\x07", "Expected `array`, got `int`"),
    "unknown tag": (frame_of(tag="Explode", fields=[]), "Invalid value 'Explode'"),
    "missing field": (frame_of(tag="Unsubscribe", fields=[]), "at least length 2, got 1"),
    "wrong type": (frame_of(tag="Unsubscribe", fields=[7]), r"Expected `str`, got `int` - at"),
    "no UTF-8": (b"\x01\x92\xabUnsubscribe\xa1\xff", "utf-8"),
    "big attribute": (batch_with({"x": 2**63}), "9223372036854775808 does not fit in 64 bits"),
    "odd attribute": (batch_with({"x": [1]}), "got `array`"),
    "nameless attribute": (batch_with({"": 1}), "an attribute without a name"),
    "many attributes": (batch_with({str(n): n for n in range(257)}), "257 attributes, more than"),
    "hops below": (batch_with({}, -1), "-1 is no number of hops"),
    "hops above": (batch_with({}, 2**31), "is no number of hops"),
    "operator": (subscription_with(["predicate", "a", "~", 1, "number"]), "Invalid enum value '~'"),
    "operand": (subscription_with(["predicate", "a", "LIKE", 1, "number"]), "must be a string"),
    "NaN": (subscription_with(["predicate", "a", "=", float("nan"), "number"]), "NaN cannot be"),
    "kind": (subscription_with(["predicate", "a", "=", 1, "string"]), "operand is not of kind"),
    "no list": (subscription_with(["predicate", "a", "IN", [], "number"]), "take a list of values"),
    "depth": (subscription_with(msgspec.to_builtins(deep(256))), "nested more than 256 deep"),
    "width": (subscription_with(msgspec.to_builtins(wide(4_000))), "more than 4000 parts"),
    "abyss": (b"\x01" + b"\x91" * 100_000 + b"\xc0", "."),
    "abyss in a filter": (
        b"\x01\x92\xa9Subscribe\x93\xa1s\xa1c" + b"\x92\xa3not" * 100_000 + b"\xc0",
        "nested too deeply",
    ),
    "negative figure": (
        frame_of(
            tag="TraceInformationAnswer",
            fields=[["B", "P", 1], [["B", [], b"", -1, 0, 0, [], 0]]],
        ),
        "the trace of 'B' has a negative figure",
    ),
    "too many bits": (
        frame_of(
            tag="TraceInformationAnswer",
            fields=[["B", "P", 1], [["B", [], b"x" * 8_193, 1, 0, 0, [], 0]]],
        ),
        "the trace of 'B' has 8193 bytes of bits",
    ),
}


class Floating(Carrier, frozen=True):
    """A carrier of a system of the test."""

    towards: str


def test_publications_of_any_carrier_are_checked() -> None:
    codec = Codec((Floating,))

    def body(attributes: object) -> bytes:
        routed = [["P", 1, 2, attributes], ["B", "P", 1], None]
        return frame_of(tag="Floating", fields=[[routed], "B2"])

    assert codec.decode(body({"x": 1})).towards == "B2"
    with pytest.raises(WireError, match="an attribute without a name"):
        codec.decode(body({"": 1}))


@pytest.mark.parametrize("name", PROBLEMS)
def test_invalid_bodies_are_errors(name: str) -> None:
    body, problem = PROBLEMS[name]
    with pytest.raises(WireError, match=problem):
        CODEC.decode(body)


@given(st.binary(max_size=60))
def test_random_bytes_raise_only_wire_errors(body: bytes) -> None:
    for garbage in (body, b"\x01" + body):
        with contextlib.suppress(WireError):
            CODEC.decode(garbage)


@given(st.one_of(list(WRITTEN.values())), st.randoms(use_true_random=False))
@settings(max_examples=examples(80))
def test_broken_messages_raise_only_wire_errors(message: Message, random: Random) -> None:
    body = bytearray(CODEC.encode(message)[HEAD_BYTES:])
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(body))
        match random.randrange(3):
            case 0:
                body[place] = random.randrange(256)
            case 1:
                del body[place:]
                body += b"\x00"
            case _:
                body.insert(place, random.randrange(256))
    try:
        read = CODEC.decode(bytes(body))
    except WireError:
        return
    CODEC.encode(read)  # whatever is read can be passed on


# --- frames -----------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 30)))
def test_frames_read_back_equal(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(wire.framed, bodies))
    reader, found, start = FrameReader(), [], 0
    for size in cuts:
        found += reader.feed(stream[start : start + size])
        start += size
    found += reader.feed(stream[start:])
    assert found == bodies
    assert reader.buffered_bytes == 0


def test_a_too_long_frame_is_refused_by_its_header() -> None:
    reader = FrameReader(max_frame_bytes=10)
    good, long = wire.framed(b"1234567890"), wire.framed(b"12345678901")
    assert list(reader.feed(good[:15])) == []
    assert list(reader.feed(good[15:] + long[:11])) == [b"1234567890"]
    with pytest.raises(WireError, match="a frame of 11 bytes is announced, more than 10"):
        list(reader.feed(long[11:12]))


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(0), st.integers(1, 255)
)
def test_a_damaged_byte_anywhere_is_detected(bodies: list[bytes], at: int, flip: int) -> None:
    """Frames before it are read; none behind it is, also if a length is damaged."""
    frames = [wire.framed(body) for body in bodies]
    stream = bytearray(b"".join(frames))
    at %= len(stream)
    stream[at] ^= flip
    lengths = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    whole = sum(length <= at for length in lengths)
    reading = FrameReader().feed(bytes(stream))
    assert [next(reading) for _ in range(whole)] == bodies[:whole]
    with pytest.raises(WireError, match="a damaged"):
        next(reading)
    with pytest.raises(WireError, match="a damaged"):
        wire.first_frame(bytes(stream[sum(map(len, frames[:whole])) :]), 100)


def written(message: msgspec.Struct) -> bytes:
    """A message's body as another program may write it, without our limits."""
    return bytes((wire.VERSION,)) + msgspec.msgpack.encode(message)


@pytest.mark.parametrize("count", [MOST_CARRIED, MOST_CARRIED + 1])
def test_too_many_publications_in_a_frame_are_refused(count: int) -> None:
    """2,500,000 in a frame of 112 MiB would occupy a broker for six seconds."""
    publication = Publication(publisher="P", sequence=1, published_us=1, attributes={})
    routed = RoutedPublication(publication, MessageId("B", "P", 1))
    batches = (PublicationBatch((routed,) * count, hops=1), Publish((publication,) * count))
    for batch in batches:
        if count == MOST_CARRIED:
            assert CODEC.decode(written(batch)) == batch
            assert CODEC.decode(CODEC.encode(batch)[wire.HEAD_BYTES :]) == batch
        else:
            with pytest.raises(WireError, match="`array` of length <= 4096"):
                CODEC.decode(written(batch))
            with pytest.raises(WireError, match="4097 publications, more than 4096"):
                CODEC.encode(batch)


def test_too_many_combined_messages_are_refused() -> None:
    body = msgspec.Raw(msgspec.msgpack.encode(Unsubscribe("s")))
    most = CODEC.decode(written(wire._Together((body,) * MOST_TOGETHER)))
    assert most == Together((Unsubscribe("s"),) * MOST_TOGETHER)
    with pytest.raises(WireError, match="`array` of length <= 256"):
        CODEC.decode(written(wire._Together((body,) * (MOST_TOGETHER + 1))))
    with pytest.raises(WireError, match="257 joined messages, more than 256"):
        CODEC.encode(Together((Unsubscribe("s"),) * (MOST_TOGETHER + 1)))


def test_too_many_large_filters_combined_are_refused() -> None:
    """256 of the largest would occupy a broker for four seconds."""
    tests = tuple(predicate("n", Operator.NE, number) for number in range(wire.MAX_PARTS - 1))
    large = Subscribe(Subscription(id="s", client="c", filter=Filter(And(tests))))
    both = Together((large, large))
    assert CODEC.decode(CODEC.encode(both)[HEAD_BYTES:]) == both
    body = msgspec.Raw(CODEC.encode(large)[HEAD_BYTES + 1 :])
    nothing = msgspec.Raw(b"\xc0")  # never reached
    with pytest.raises(WireError, match="with over 8000 tests"):
        CODEC.decode(written(wire._Together((body, body, body, nothing))))


def test_a_vocabulary_bounds_the_messages_read() -> None:
    frame = CODEC.encode(TraceInformationAnswer(MessageId("B", "P", 1), ()))
    with pytest.raises(WireError, match="Invalid value 'TraceInformationAnswer'"):
        Codec(COMMON).decode(frame[HEAD_BYTES:])
