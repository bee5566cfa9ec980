"""The link protocol: the messages of brokers over a link, and their meaning.

A broker has one link protocol and uses every message of it with every neighbour; the controls of
brokers' MQTT sides (`mqtt/federation/controls.py`) are a part of it. Each end states its protocol
in `Hello`, and refuses an end with another one.

A last field with a default may be added within a protocol: a broker that does not know the field
skips it, so the message must mean the same without. Any other change of messages is another
`PROTOCOL`, and another format of spools, which keep messages on disk. `Hello` and
`RefuseConnection` change by such fields only, so that brokers of two protocols can still refuse
each other with a reason.
"""

from __future__ import annotations

from shoal.broker.wire import WireError
from shoal.model import BrokerId

PROTOCOL = 1


def check_protocol(broker: BrokerId, ours: int, other: BrokerId, theirs: int) -> None:
    """Raise WireError, which names both brokers, unless both have one protocol.

    >>> check_protocol("B1", 1, "B2", 1)
    >>> check_protocol("B1", 1, "B2", 2)
    Traceback (most recent call last):
    shoal.broker.wire.WireError: B2 speaks link protocol 2, B1 speaks 1: start both with one version
    """
    if theirs != ours:
        raise WireError(
            f"{other} speaks link protocol {theirs}, {broker} speaks {ours}: "
            "start both with one version"
        )
