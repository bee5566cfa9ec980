"""The link protocol: which messages brokers send over a link, and what these mean.

A broker speaks one link protocol and sends every message of it to every neighbour; what brokers'
MQTT sides say to each other (`mqtt/federation/controls.py`) is a part of it.  Each end says in
`Hello` which one it speaks, and refuses an end that speaks another.

A field that comes last and has a default may be added within a protocol: a broker that does not
know the field skips it, so the message must mean the same without.  Any other change of messages
is another `PROTOCOL`, and another format of spools, which keep messages on disk.  `Hello` and
`Refuse` change by such fields only, so that brokers of two protocols can still refuse each other
in words.
"""

from __future__ import annotations

from shoal.broker.wire import WireError
from shoal.model import BrokerId

PROTOCOL = 1


def check_protocol(broker: BrokerId, ours: int, other: BrokerId, theirs: int) -> None:
    """WireError, which names both brokers, unless both speak one protocol.

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
