"""Errors for a user's mistake: printed as one message, exit code 2."""

from __future__ import annotations

# Some of a study's runs failed.
FAILED_EXIT_CODE = 1
# As shells have it for Ctrl-C.
STOPPED_EXIT_CODE = 130


class UserError(Exception):
    """A user's mistake: its place (file, line, column, key), and the remedy. Never a traceback."""
