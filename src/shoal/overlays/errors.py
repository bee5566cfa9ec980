"""Errors of plug-in systems; light, as the command line always loads it."""

from __future__ import annotations


class SystemModuleError(Exception):
    """A module named in `SHOAL_SYSTEMS` has no valid system: the module, the reason, the remedy."""
