"""The console's pages, which a checkout builds and a wheel has."""

from __future__ import annotations

from shoal.cli.support.errors import UserError


def check_console() -> None:
    """UserError with what to do unless the pages are there."""
    from shoal.console.serving import NOT_BUILT, is_built

    if not is_built():
        raise UserError(NOT_BUILT)
