"""A fault of a network file, or a warning about it, with its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class CheckFinding(NamedTuple):
    """`place` is the path of a key, and behind it the file that the key names.

    A fault keeps the network, or a part of it, from working; a warning does not.
    """

    place: str
    problem: str
    is_warning: bool = False
    # true for a problem whose sentence begins with the file
    is_place_last: bool = False

    @property
    def text(self) -> str:
        if self.is_place_last:
            return f"{self.problem} ({self.place})"
        return f"{self.place}: {self.problem}"


def once(findings: Iterable[CheckFinding]) -> list[CheckFinding]:
    """Each once, faults first, else in their order."""
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.is_warning)
