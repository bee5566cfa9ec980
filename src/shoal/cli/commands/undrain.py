"""`shoal undrain`: let a live broker take clients in again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.orders import give_order


def undrain(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    broker: Annotated[str, typer.Argument(help="Which of its brokers.")],
) -> None:
    """Let a drained broker take clients in again; those that have gone stay where they are."""
    asyncio.run(give_order(network_file, broker, "undrain"))
    print(f"{broker} takes clients in")
