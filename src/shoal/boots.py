"""Tells one boot of this machine from another."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# Of Linux; elsewhere every start may follow a reboot.
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """The identifier of this boot; empty where the system has none."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""
