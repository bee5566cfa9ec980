"""Shared parts of a scenario's tables: their base class, types of values, and the error."""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
# The page that explains the keys of a scenario.
PAGE = "docs/reference/scenario.md"


class ScenarioError(ValueError):
    """A scenario that its workload cannot serve; says which key."""


class ScenarioSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario."""
