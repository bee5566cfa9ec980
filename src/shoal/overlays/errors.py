"""What is wrong with a system of somebody's own; light, as the command line always loads it."""

from __future__ import annotations


class SystemModuleError(Exception):
    """A module that `SHOAL_SYSTEMS` names has no system that works: which, why, what to do."""
