"""Events of a network as an operator reads them, and the rows of the trace that have one."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from shoal.model import BrokerId, ClientId


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a network as an operator reads it.

    `at_us` is when it happened, in µs since 1970. `kind` is one word for filters and symbols
    ("move", "stay", "takeover", "links", …), `text` a sentence without its full stop, `why` its
    reason with figures, empty if there is none. `client`, `source` and `target` name what it is
    about, as far as it is about a client or goes from one broker to another.
    """

    at_us: int
    kind: str
    text: str
    why: str = ""
    client: ClientId = ""
    source: BrokerId = ""
    target: BrokerId = ""


@runtime_checkable
class HappeningRow(Protocol):
    """A row of the trace that an operator wants to see as it comes."""

    def happening(self) -> Happening:
        """The event in words."""
