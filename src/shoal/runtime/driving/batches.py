"""Runs of publications that came the same way, handled as one batch each."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.broker.effects import Input, Received, Requested
from shoal.broker.messages import Carrier, Message, Publish

# Publications handled in one go; the loop must come back to its sockets meanwhile.
MAX_BATCH = 1_024


def joined(messages: Sequence[Message]) -> list[tuple[Message, int]]:
    """The messages, with runs of publications that came the same way as one batch each.

    With each, how many of them it is.
    """
    found: list[tuple[Message, int]] = []
    run: list[Carrier] = []
    length = 0
    for message in messages:
        if isinstance(message, Carrier):
            if run and not (length < MAX_BATCH and _is_alike(message, run[0])):
                found.append((_batch(run), len(run)))
                run, length = [], 0
            run.append(message)
            length += len(message.publications)
        else:
            if run:
                found.append((_batch(run), len(run)))
                run, length = [], 0
            found.append((message, 1))
    if run:
        found.append((_batch(run), len(run)))
    return found


def _is_alike(carrier: Carrier, other: Carrier) -> bool:
    if type(carrier) is not type(other) or carrier.route != other.route:
        return False
    # A traced publication travels alone.
    return not (is_traced(carrier) or is_traced(other))


def is_traced(carrier: Carrier) -> bool:
    """Return whether the first publication, and so the only one, is traced."""
    publications = carrier.publications
    return bool(publications) and publications[0].publication.traced


def _batch(run: list[Carrier]) -> Carrier:
    if len(run) == 1:
        return run[0]
    return run[0].with_publications(tuple(one for each in run for one in each.publications))


def brings_traced(input: Input) -> bool:
    """Return whether an input that brings publications brings a traced one, alone."""
    if type(input) is Received:
        return is_traced(input.message)  # type: ignore[arg-type]
    return bool(input.request.publications[0].traced)  # type: ignore[union-attr]


def publications_in(input: Input) -> int:
    """Return how many publications an input brings."""
    kind = type(input)
    if kind is Received:
        message = input.message  # type: ignore[union-attr]
        return len(message.publications) if isinstance(message, Carrier) else 0
    if kind is Requested:
        request = input.request  # type: ignore[union-attr]
        return len(request.publications) if type(request) is Publish else 0
    return 0
