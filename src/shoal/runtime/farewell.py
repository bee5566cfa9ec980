"""Ending a client's connection so that the client hears what it was told last.

A socket that is closed while something that came has not been read resets its connection, and a
client that is still sending notices that before it reads: why it was let go, where it was to go,
and even what was acknowledged are lost on it.  So the broker only says that it is through, goes
on reading, and closes when the client does, or a moment later.
"""

from __future__ import annotations

import asyncio

# Long enough for a client to read what was said and close; one that does not is cut off.
LINGER_S = 1.0


def half_close(transport: asyncio.Transport) -> None:
    """Say behind what was written that no more will be, and read on."""
    if transport.can_write_eof():
        transport.write_eof()
    transport.resume_reading()


def close_soon(transport: asyncio.Transport) -> None:
    """Close what is half closed; the caller ignores what still comes."""
    asyncio.get_running_loop().call_later(LINGER_S, transport.close)
