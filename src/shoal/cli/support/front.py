"""What `shoal` itself can be told, before any command."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"shoal {metadata.version('shoal')}")
        raise typer.Exit


def front(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Say which this is."),
    ] = False,
) -> None:
    """Keeps `shoal` a group of commands whatever their number."""
