"""A forked broker process (`runtime/forks.py`): the modules it has loaded, and its function."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Sequence
from pathlib import Path

from shoal.cli.support.imports import uncollected

# Of one that `python -m` started, forks import the command's module once more.
warnings.filterwarnings("ignore", ".*shoal.cli.main.* found in sys.modules", RuntimeWarning)

with uncollected():
    from shoal import language
    from shoal.cli.commands.serve import serve
    from shoal.cli.main import explained

    language.prepare()

    for _module in (
        "numpy.typing",
        "shoal.cli.support.live.networks",
        "shoal.runtime.broker_service",
        "shoal.runtime.operations.logs",
        "shoal.runtime.serving",
        "uvloop",
    ):
        with contextlib.suppress(ImportError):  # uvloop need not be there
            importlib.import_module(_module)


def run(network_file: str, broker: str, joins: Sequence[str] = ()) -> None:
    """Run one broker of a network, as `shoal serve` does with `--join` for each of `joins`."""
    with explained():
        serve(Path(network_file), broker, list(joins))
