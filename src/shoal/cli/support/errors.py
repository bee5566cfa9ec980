"""What a command raises when its user made a mistake: printed as one message, exit code 2."""

from __future__ import annotations

# As shells have it for Ctrl-C.
STOPPED_EXIT_CODE = 130


class UserError(Exception):
    """Says what was wrong, where (file, line, column, key), and what to do.  Never a traceback."""
