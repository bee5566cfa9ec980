"""Rows as tasks stage them: one publication each.

>>> rows = [StagedRow("a/b", b"hi")]
>>> decode_rows(encode_rows(rows)) == rows
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec


class StagedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publication that waits."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    content_type: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()


_encoder = msgspec.msgpack.Encoder()
encode_rows: Callable[[Sequence[StagedRow]], bytes] = _encoder.encode
# Raises ValueError (msgspec's) for anything else.
decode_rows: Callable[[bytes], list[StagedRow]] = msgspec.msgpack.Decoder(list[StagedRow]).decode
