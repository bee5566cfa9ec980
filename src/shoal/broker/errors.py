"""Errors of the broker's protocol."""

from __future__ import annotations


class ProtocolError(Exception):
    """A peer or client sent a message that the protocol does not allow; the broker refuses it."""


def unexpected(message: object, sender: str) -> ProtocolError:
    """The error for a message that this sender must not send."""
    return ProtocolError(f"{type(message).__name__} is not expected from {sender}")
