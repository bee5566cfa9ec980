"""The data types of MQTT packets: integers, variable byte integers, strings, binary data.

A `FieldReader` reads one packet's bytes from front to end and raises MqttError, with the name of
the field, where they violate the standard; the `write_...` functions are its reverse.

>>> reader = FieldReader(write_string("a/b") + write_variable(321), "PUBLISH")
>>> reader.string("topic"), reader.variable("length"), reader.at_end
('a/b', 321, True)

Source: MQTT Version 5.0, section 1.5.
"""

from __future__ import annotations

import re

from shoal.mqtt.codec.errors import malformed

MAX_STRING_BYTES = 65_535
MAX_VARIABLE = 268_435_455
# The number of topics cached by their bytes, and of bytes cached by their topics, for all
# connections, and the largest topic that is cached: 1 MB of each.
REMEMBERED_TOPICS = 4_096
REMEMBERED_TOPIC_BYTES = 256
# The standard advises against control characters in any string; the broker refuses them in topics,
# topic filters and user names, which it writes to logs and terminals.
CONTROL_CHARACTERS = re.compile("[\x01-\x1f\x7f-\x9f]")


class FieldReader:
    """Reads `data[position:end]`; `packet` names it in errors."""

    __slots__ = ("_data", "_packet", "end", "position")

    def __init__(self, data: bytes, packet: str, position: int = 0, end: int | None = None) -> None:
        self._data = data
        self._packet = packet
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def at_end(self) -> bool:
        return self.position >= self.end

    def take(self, size: int, what: str) -> bytes:
        """The next `size` bytes."""
        start = self.position
        if start + size > self.end:
            raise malformed(f"{self._packet} ends within its {what}")
        self.position = start + size
        return self._data[start : self.position]

    def byte(self, what: str) -> int:
        start = self.position
        if start >= self.end:
            raise malformed(f"{self._packet} ends before its {what}")
        self.position = start + 1
        return self._data[start]

    def two_bytes(self, what: str) -> int:
        return int.from_bytes(self.take(2, what), "big")

    def variable(self, what: str) -> int:
        """A variable byte integer, in as few bytes as it needs [MQTT-1.5.5-1]."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte(what)
            value |= (byte & 127) << shift
            if byte < 128:
                if byte == 0 and shift:
                    raise malformed(f"{self._packet}: {what} is written longer than needed")
                return value
        raise malformed(f"{self._packet}: {what} is longer than four bytes")

    def binary(self, what: str) -> bytes:
        data, start = self._data, self.position + 2
        if start > self.end:
            raise malformed(f"{self._packet} ends within its {what}")
        stop = start + (data[start - 2] << 8 | data[start - 1])
        if stop > self.end:
            raise malformed(f"{self._packet} ends within its {what}")
        self.position = stop
        return data[start:stop]

    def string(self, what: str) -> str:
        text, self.position = read_string(self._data, self.position, self.end, what)
        return text

    def name(self, what: str) -> str:
        text, self.position = read_name(self._data, self.position, self.end, what)
        return text

    def part(self, what: str) -> tuple[bytes, int, int]:
        """The field behind the variable byte integer that states its length.

        Returns all bytes, and the start and the end of the field in them.
        """
        size = self.variable(f"{what}' length")
        start = self.position
        if start + size > self.end:
            raise malformed(f"{self._packet} ends within its {what}")
        self.position = start + size
        return self._data, start, self.position

    def rest(self) -> bytes:
        start, self.position = self.position, self.end
        return self._data[start : self.end]

    def expect_end(self) -> None:
        if self.position < self.end:
            raise malformed(f"{self._packet} has {self.end - self.position} bytes too many")


def read_string(data: bytes, position: int, end: int, what: str) -> tuple[str, int]:
    """A string and the position behind it; UTF-8 without surrogates and U+0000.

    [MQTT-1.5.4-1, MQTT-1.5.4-2]
    """
    start = position + 2
    if start > end:
        raise malformed(f"the packet ends within its {what}")
    stop = start + (data[position] << 8 | data[position + 1])
    if stop > end:
        raise malformed(f"the packet ends within its {what}")
    try:
        text = str(data[start:stop], "utf-8")
    except UnicodeDecodeError as error:
        raise malformed(f"{what} is not UTF-8 at byte {error.start}") from None
    if "\0" in text:
        raise malformed(f"{what} contains U+0000")
    return text, stop


def read_name(data: bytes, position: int, end: int, what: str) -> tuple[str, int]:
    """Like `read_string`, without control characters [MQTT-1.5.4]."""
    text, stop = read_string(data, position, end, what)
    if not text.isprintable():
        found = CONTROL_CHARACTERS.search(text)
        if found is not None:
            raise malformed(f"{what} contains U+{ord(found[0]):04X}, a control character")
    return text, stop


def write_string(text: str) -> bytes:
    """Encode a string; ValueError for text that MQTT cannot carry."""
    if "\0" in text:
        raise ValueError("MQTT strings cannot contain U+0000")
    return write_binary(text.encode("utf-8"))


def write_binary(data: bytes) -> bytes:
    """Encode binary data; ValueError above MAX_STRING_BYTES."""
    if len(data) > MAX_STRING_BYTES:
        raise ValueError(f"{len(data)} bytes; MQTT strings and binary data have at most 65535")
    return len(data).to_bytes(2, "big") + data


def write_variable(value: int) -> bytes:
    """A variable byte integer; ValueError above MAX_VARIABLE."""
    if 0 <= value < 128:
        return value.to_bytes(1, "big")
    if 0 <= value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    if not 0 <= value <= MAX_VARIABLE:
        raise ValueError(f"{value} does not fit in four bytes of seven bits")
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
