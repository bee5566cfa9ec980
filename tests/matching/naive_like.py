"""LIKE, naively: character by character, with a return to the last `%` on failure."""

from __future__ import annotations

from shoal.model.like import Wildcard, elements


def like(text: str, pattern: str) -> bool:
    """Whether the whole text has the shape of a canonical pattern, letter case included."""
    parts = [
        piece
        for element in elements(pattern)
        for piece in (element if isinstance(element, str) else (element,))
    ]
    place = at = 0
    run_place, run_at = -1, 0  # the last ANY_RUN, and its reach so far
    while at < len(text):
        part = parts[place] if place < len(parts) else None
        if part is Wildcard.ANY_RUN:
            run_place, run_at = place, at
            place += 1
        elif part is Wildcard.ANY_ONE or part == text[at]:
            place += 1
            at += 1
        elif run_place >= 0:
            run_at += 1
            place, at = run_place + 1, run_at
        else:
            return False
    return all(part is Wildcard.ANY_RUN for part in parts[place:])
