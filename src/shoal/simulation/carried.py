"""Numbers of publications that messages and events carry."""

from __future__ import annotations

from typing import Any

from shoal.broker.effects import Received, Requested
from shoal.simulation.links.reliable import ReliableFrame


def publications_in(input: Any) -> int:
    """Return how many publications an event's argument brings to a broker, if it does."""
    match input:
        case Received(_, message) | Requested(_, message):
            return publications_of(message) or 0
    return 0


def publications_of(message: Any) -> int | None:
    """Return how many publications a message or request carries; None of those that are for
    control.
    """
    if type(message) is ReliableFrame:
        message = message.message or message
    return len(message.publications) if message.carries else None
