"""The places of brokers on a live ring, in lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# Systems whose brokers have places, which they can change.
RINGS = ("dynatops", "bayeux", "geops", "hybrid")


def places(network: NetworkFile, caller: Caller) -> list[str]:
    """Return the places that brokers report; UserError names a broker that does not answer, or says
    that none is on a ring.
    """
    from shoal.cli.systems.dynatops.asking import ask_places, latest_of
    from shoal.cli.systems.dynatops.words import ring_in_words

    answers = asyncio.run(ask_places(network, caller))
    said = latest_of(answers)
    manager = next(
        (name for name, each in answers.items() if each and each["is_manager"]), "nobody"
    )
    return list(ring_in_words(said, manager))
