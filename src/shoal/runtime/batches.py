"""Runs of publications that came the same way, handled as one batch each."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.broker.messages import Message, PublicationBatch

# Publications handled in one go; the loop must come back to its sockets meanwhile.
MAX_BATCH = 1_024


def joined(messages: Sequence[Message]) -> list[tuple[Message, int]]:
    """The messages, with runs of publications that came the same way as one batch each.

    With each, how many of them it is.
    """
    found: list[tuple[Message, int]] = []
    run: list[PublicationBatch] = []
    length = 0
    for message in messages:
        if type(message) is PublicationBatch:
            if run and (message.hops != run[0].hops or length >= MAX_BATCH):
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


def _batch(run: list[PublicationBatch]) -> PublicationBatch:
    if len(run) == 1:
        return run[0]
    return PublicationBatch(tuple(one for each in run for one in each.publications), run[0].hops)
