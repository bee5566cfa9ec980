"""Batches of bytes in a file that grows: each is there whole, or not at all.

A batch: length, CRC-32 of the bytes, CRC-32 of these two, 4 bytes each; the bytes.

>>> data = framed(b"one") + framed(b"two")[:-1]
>>> batch_at(data, 0), batch_at(data, HEAD_BYTES + 3), is_torn(data, HEAD_BYTES + 3)
(b'one', None, True)
"""

from __future__ import annotations

from zlib import crc32

HEAD_BYTES = 12


def framed(batch: bytes) -> bytes:
    """A batch as it stands in a file."""
    head = len(batch).to_bytes(4, "big") + crc32(batch).to_bytes(4, "big")
    return head + crc32(head).to_bytes(4, "big") + batch


def batch_at(data: bytes, position: int) -> bytes | None:
    """The batch that begins there; None if it is not whole."""
    length = length_at(data, position)
    if length is None:
        return None
    start = position + HEAD_BYTES
    batch = data[start : start + length]
    is_whole = len(batch) == length
    checksum = int.from_bytes(data[position + 4 : position + 8], "big")
    return batch if is_whole and crc32(batch) == checksum else None


def length_at(data: bytes, position: int) -> int | None:
    """The bytes of the batch that begins there; None if its head is not whole."""
    head = data[position : position + HEAD_BYTES]
    if len(head) < HEAD_BYTES or crc32(head[:8]) != int.from_bytes(head[8:], "big"):
        return None
    return int.from_bytes(head[:4], "big")


def is_torn(data: bytes, position: int) -> bool:
    """Return whether the bytes there are a last batch that a crash cut short.

    After a power cut the end of a file may be zeros that were never overwritten.
    """
    start = position + HEAD_BYTES
    head = data[position:start]
    end = start
    if len(head) == HEAD_BYTES and crc32(head[:8]) == int.from_bytes(head[8:], "big"):
        end += int.from_bytes(head[:4], "big")
    return not any(data[end:])
