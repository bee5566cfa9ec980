"""The wire format: messages between brokers, in frames.

A frame is a head and a body. The body is the version of this format (1 byte) and one message in
MessagePack: a list of the message's tag and its fields. The head has three numbers of 4 bytes, big
endian: the length of the body, the checksum of the body, and the checksum of these two. So a
damaged length is found at once, before as many bytes have come. A damaged frame raises WireError.
The link then makes a new connection, on which the sender repeats the frame: TCP's own checksum has
16 bits, and is made anew by each middlebox.

A checksum is the lower half of XXH3.  For a body of 100 bytes, of 1 KB and of 1 MB xxhash takes
0.07, 0.05 and 9 µs; crc32c takes 0.12, 0.10 and 30 µs, and the standard library's crc32 0.25, 0.26
and 137 µs (medians on one machine).

Decoding is strict: bytes that are not a message of this network's system raise WireError, with a
reason, and no other error. Filters travel as their expressions, not as text: decoding one costs
microseconds, and yields the same expression, also where SQL cannot express it.

Another form of frames is another VERSION, other messages are another link protocol
(`links/protocol.py`): in both cases the link is refused, and the format of spools changes as well,
since they keep frames.

A codec gets its messages from the caller (`COMMON` and the messages of a system, see
`shoal.overlays.registry`). A message with a field that MessagePack lacks, such as an integer of a
thousand bits, brings a `Form`, which is encoded in its place.

>>> codec = Codec(COMMON)
>>> frame = codec.encode(Unsubscribe("s1"))
>>> [codec.decode(body) for body in FrameReader().feed(frame)]
[Unsubscribe(subscription_id='s1')]
>>> damaged = frame[:-1] + b"2"
>>> list(FrameReader().feed(damaged))
Traceback (most recent call last):
shoal.broker.wire.WireError: a damaged frame: the 17 bytes of its body have another checksum
>>> codec.decode(b"\\x01\\x92\\xabUnsubscribe\\x07")
Traceback (most recent call last):
shoal.broker.wire.WireError: Expected `str`, got `int` - at `$[1]`
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Annotated, Any, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from shoal.broker.messages import (
    MOST_CARRIED,
    MOST_TOGETHER,
    Advertise,
    Carrier,
    Goodbye,
    Message,
    Ping,
    Pong,
    PublicationBatch,
    Publish,
    Rejected,
    Subscribe,
    Together,
    Unadvertise,
    Unsubscribe,
)
from shoal.model import (
    INTEGER_MAX,
    And,
    Attributes,
    Constant,
    Expression,
    Filter,
    FilterError,
    Not,
    Or,
    Predicate,
    predicate,
)
from shoal.model.entities import MAX_ATTRIBUTES

VERSION = 1
# Twice the largest packet of MQTT, since attributes are added; a link accepts less (see
# `links.outbox.LinkLimits`).
MAX_FRAME_BYTES = 544 * 2**20
# Above the largest filter in SQL (`shoal.language.sql`): 1,000 predicates and the ANDs, ORs and
# NOTs between them, two of them deep for each of 100 parentheses.
MAX_PARTS = 4_000
MAX_DEPTH = 256
# Above any overlay; one more than a peer may claim must still fit into a message.
MAX_HOPS = 2**31

# A body's length and checksum; then their own checksum.
_LENGTH = Struct(">II")
_CHECKSUM = Struct(">I")
HEADER_BYTES = _LENGTH.size + _CHECKSUM.size
_HEAD = Struct(">III")
# The length of the head of a frame.
HEAD_BYTES = _HEAD.size
_LOWER_HALF = 0xFFFF_FFFF
_VERSION_BYTE = bytes((VERSION,))


class WireError(ValueError):
    """Bytes that are no message, or a message that cannot be encoded; with the reason."""


class Form(NamedTuple):
    """The encoded form of a message: a struct with the message's own tag."""

    message: type[Message]
    written: type[msgspec.Struct]
    write: Callable[[Any], msgspec.Struct]
    read: Callable[[Any], Message]


Vocabulary = tuple[type[msgspec.Struct] | Form, ...]


class _Together(msgspec.Struct, frozen=True, tag="Together", array_like=True):
    """Messages that are encoded one by one."""

    messages: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=MOST_TOGETHER)]


# The messages of every system's brokers and clients.
COMMON: Vocabulary = (
    Advertise,
    Unadvertise,
    Subscribe,
    Unsubscribe,
    Together,
    PublicationBatch,
    Publish,
    Ping,
    Pong,
    Goodbye,
    Rejected,
)


class Codec:
    """Encodes and decodes the messages of one vocabulary."""

    def __init__(self, vocabulary: Iterable[type[msgspec.Struct] | Form]) -> None:
        self._write: dict[type, Callable[[Any], msgspec.Struct]] = {}
        self._read: dict[type, Callable[[Any], Any]] = {
            PublicationBatch: _check_batch,
            Publish: check_publish,
            _Together: self._read_together,
        }
        kinds: list[Any] = []
        for entry in vocabulary:
            if isinstance(entry, Form):
                self._write[entry.message] = entry.write
                self._read[entry.written] = entry.read
                kinds.append(entry.written)
            elif entry is Together:
                self._write[Together] = self._write_together
                kinds.append(_Together)
            else:
                kinds.append(entry)
                if issubclass(entry, Carrier):
                    self._read.setdefault(entry, _check_carrier)
        self._encode = msgspec.msgpack.Encoder(enc_hook=_write_filter).encode
        self._known = frozenset(kinds)
        self._decode = msgspec.msgpack.Decoder(
            functools.reduce(operator.or_, kinds), dec_hook=_read_filter
        ).decode

    def encode(self, message: msgspec.Struct) -> bytes:
        """The frame of a message; WireError when it is too long or has fields that cannot
        travel."""
        return framed(_VERSION_BYTE + self._checked_body(message))

    def size_of(self, message: msgspec.Struct) -> int:
        """The length of that frame, in bytes; WireError as `encode`."""
        return HEADER_BYTES + len(_VERSION_BYTE) + len(self._checked_body(message))

    def _checked_body(self, message: msgspec.Struct) -> bytes:
        try:
            body = self._body(message)
        except WireError:
            raise
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise WireError(f"{type(message).__name__} cannot be written: {error}") from None
        length = len(body) + 1
        if length > MAX_FRAME_BYTES:
            raise WireError(
                f"{type(message).__name__} takes {length} bytes, more than {MAX_FRAME_BYTES}"
            )
        return body

    def decode(self, body: bytes) -> Any:
        """The message in a frame's body (version and message); WireError when it is none."""
        if not body or body[0] != VERSION:
            found = f"version {body[0]}" if body else "an empty frame"
            raise WireError(f"{found}; this broker reads version {VERSION}")
        try:
            return self._message(memoryview(body)[1:])
        except WireError:
            raise
        except RecursionError:
            raise WireError("nested too deeply") from None
        except ValueError as error:  # msgspec's own errors are among them
            raise WireError(str(error)) from None

    def _body(self, message: msgspec.Struct) -> bytes:
        if isinstance(message, Carrier | Publish) and len(message.publications) > MOST_CARRIED:
            found = f"{len(message.publications)} publications"
            raise WireError(f"{type(message).__name__} has {found}, more than {MOST_CARRIED}")
        write = self._write.get(type(message))
        written = message if write is None else write(message)
        if type(written) not in self._known:
            raise WireError(
                f"{type(message).__name__} is no message of this network; "
                "a system lists its own in SYSTEM.messages"
            )
        return self._encode(written)

    def _message(self, body: memoryview | msgspec.Raw) -> Any:
        message = self._decode(body)
        read = self._read.get(type(message))
        return message if read is None else read(message)

    def _write_together(self, message: Together) -> _Together:
        if len(message.messages) > MOST_TOGETHER:
            raise WireError(f"{len(message.messages)} joined messages, more than {MOST_TOGETHER}")
        return _Together(tuple(msgspec.Raw(self._body(each)) for each in message.messages))

    def _read_together(self, written: _Together) -> Together:
        found, tests = [], 0
        for each in written.messages:
            found.append(self._message(each))
            # Brokers send much less, except for one filter of the largest size.
            tests += sum(filter.length for filter in getattr(found[-1], "brings", ()))
            if tests > 2 * MAX_PARTS:
                raise WireError(f"joined messages with over {2 * MAX_PARTS} tests")
        if not all(isinstance(each, Message) and each.joins for each in found):
            raise WireError("joined messages that cannot be joined")
        if len({each.introduces for each in found}) != 1:
            raise WireError("no joined messages, or some that cannot be joined")
        return Together(tuple(found))


def framed(body: bytes) -> bytes:
    """The frame of a body."""
    length = _LENGTH.pack(len(body), _checksum(body))
    return length + _CHECKSUM.pack(_checksum(length)) + body


def _checksum(data: bytes) -> int:
    return xxh3_64_intdigest(data) & _LOWER_HALF


class FrameReader:
    """Cuts a stream of bytes into the bodies of frames."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._needed = 0  # bytes until the next frame is complete, as far as known

    @property
    def buffered_bytes(self) -> int:
        """The bytes of an incomplete frame; fewer than the longest frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The complete bodies, one by one.

        WireError after the last whole one for a frame that is damaged, or announced too long.
        """
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._needed:
                return
            data = bytes(buffer)
            buffer.clear()
        start, end = 0, len(data)
        self._needed = HEAD_BYTES
        while end - start >= HEAD_BYTES:
            body_start = start + HEAD_BYTES
            length, checksum = _read_head(data, start, self._max_frame_bytes)
            if end - body_start < length:
                self._needed = HEAD_BYTES + length
                break
            start = body_start + length
            yield _checked(data[body_start:start], checksum)
        buffer += data[start:]


def first_frame(data: bytes, max_frame_bytes: int) -> tuple[bytes, bytes] | None:
    """The body of the first frame and the bytes behind it; None when it is not complete.

    WireError for a frame that is damaged, or announced too long.
    """
    if len(data) < HEAD_BYTES:
        return None
    length, checksum = _read_head(data, 0, max_frame_bytes)
    end = HEAD_BYTES + length
    if len(data) < end:
        return None
    return _checked(data[HEAD_BYTES:end], checksum), data[end:]


def _read_head(data: bytes, start: int, max_frame_bytes: int) -> tuple[int, int]:
    """The length and the checksum of the body of a frame; WireError if the head is damaged."""
    length, checksum, checksum_of_both = _HEAD.unpack_from(data, start)
    if _checksum(data[start : start + _LENGTH.size]) != checksum_of_both:
        raise WireError("no frame, or a damaged one: its head has another checksum")
    if length > max_frame_bytes:
        raise WireError(f"a frame of {length} bytes is announced, more than {max_frame_bytes}")
    return length, checksum


def _checked(body: bytes, checksum: int) -> bytes:
    """The body; WireError when it is damaged."""
    if _checksum(body) != checksum:
        raise WireError(f"a damaged frame: the {len(body)} bytes of its body have another checksum")
    return body


def check_size(expression: Expression, maximum: int = MAX_PARTS) -> None:
    """Raise WireError for a filter whose expression is larger or deeper than what may travel."""
    left = maximum
    level = [expression]
    for _ in range(MAX_DEPTH):
        inner: list[Expression] = []
        for part in level:
            match part:
                case And(operands) | Or(operands):
                    inner += operands
                case Not(operand):
                    inner.append(operand)
            left -= 1
        if left < 0:
            raise WireError(f"a filter with more than {maximum} parts")
        if not inner:
            return
        level = inner
    raise WireError(f"a filter nested more than {MAX_DEPTH} deep")


def _write_filter(value: Any) -> Any:
    if isinstance(value, Filter):
        check_size(value.expression)
        return value.expression
    raise TypeError(f"{type(value).__name__} cannot be encoded")


def _read_filter(kind: type, value: Any) -> Any:
    if kind is not Filter:
        raise TypeError(f"{kind.__name__} cannot be encoded")
    return read_filter(msgspec.convert(value, Expression))


def read_filter(expression: Expression) -> Filter:
    """The filter of an encoded expression; WireError or FilterError if it is invalid."""
    check_size(expression)  # first: all other checks recurse as deep as the expression
    _check_predicates(expression)
    return Filter(expression)


def _check_predicates(expression: Expression) -> None:
    """Raise FilterError unless every predicate is one that `predicate` makes."""
    match expression:
        case Predicate(attribute, test, operand, kind):
            if predicate(attribute, test, operand).kind is not kind:
                raise FilterError(f"attribute {attribute!r}: the operand is not of kind {kind}")
        case And(operands) | Or(operands):
            for one in operands:
                _check_predicates(one)
        case Not(operand):
            _check_predicates(operand)
        case Constant():
            pass


def _check_batch(message: PublicationBatch) -> PublicationBatch:
    if not 0 <= message.hops < MAX_HOPS:
        raise WireError(f"{message.hops} is no number of hops")
    _check_carrier(message)
    return message


def _check_carrier(carrier: Carrier) -> Carrier:
    for routed in carrier.publications:
        _check_attributes(routed.publication.attributes)
    return carrier


def check_publish(message: Publish) -> Publish:
    """Raise WireError for publications with invalid attributes."""
    for publication in message.publications:
        _check_attributes(publication.attributes)
    return message


def _check_attributes(attributes: Attributes) -> None:
    """Check what `shoal.model.check_attributes` refuses beyond the types."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise WireError(f"{len(attributes)} attributes, more than {MAX_ATTRIBUTES}")
    if "" in attributes:
        raise WireError("an attribute without a name")
    for value in attributes.values():
        if type(value) is int and value > INTEGER_MAX:
            raise WireError(f"integer {value} does not fit in 64 bits")
