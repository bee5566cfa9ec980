"""Ending a client's connection so that the client hears what it was told last.

A socket that is closed while something that came has not been read resets its connection, and a
client that is still sending notices that before it reads: why it was let go, where it was to go,
and even what was acknowledged are lost on it.  So the broker only says that it is through, throws
away what still comes, and closes when the client does, or a moment later.
"""

from __future__ import annotations

import asyncio

# Long enough for a client to read what was said and close; one that does not is cut off.
LINGER_S = 1.0


def take_leave(transport: asyncio.Transport) -> None:
    """End a connection behind what was written; the caller ignores what still comes."""
    asyncio.get_running_loop().call_later(LINGER_S, transport.close)
    if transport.can_write_eof():
        transport.write_eof()
    transport.resume_reading()
