"""The constants of topic-connected overlays.

>>> TcoParameters(goal="few")
Traceback (most recent call last):
ValueError: goal: 'few' is neither fan-out nor links
"""

from __future__ import annotations

from shoal.overlays.dynatops.parameters import ViewParameters


class TcoParameters(ViewParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of topic-connected overlays; ValueError names what is out of bounds.

    goal  fan-out: no broker has many neighbours; links: there are few links in all
    """

    goal: str = "fan-out"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.goal not in ("fan-out", "links"):
            raise ValueError(f"goal: {self.goal!r} is neither fan-out nor links")
