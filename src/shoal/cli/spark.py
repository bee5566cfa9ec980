"""What the Spark commands share: a session with a spinner, and errors as messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from shoal.cli.errors import UserError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.sql import SparkSession

MasterOption = Annotated[str, typer.Option("--master", help="Spark master; local by default.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory for a local Spark.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is at --out already.")
]
OutOption = Annotated[Path, typer.Option("--out", help="The folder to write.")]

LOCAL_MASTER = "local[*]"
LOCAL_MEMORY = "4g"


@contextlib.contextmanager
def spark_command(
    name: str, out: Path | None, *, overwrite: bool, master: str, memory: str
) -> Iterator[tuple[SparkSession, Status]]:
    """A session for one command and its status line; what a user did wrong as UserError."""
    if out is not None and out.exists() and not overwrite:
        raise UserError(f"{out} exists already; give another --out, or --overwrite")
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException, PythonException

    from shoal.pipeline.java import JavaNotFoundError
    from shoal.pipeline.session import spark_session

    with Console(stderr=True).status("starting Spark") as status:
        try:
            with spark_session(f"shoal {name}", master=master, memory=memory) as spark:
                yield spark, status
        except (JavaNotFoundError, ValueError) as error:
            raise UserError(str(error)) from error
        except PythonException as error:
            # The last line of the traceback says what happened; the others only where.
            reason = str(error).strip().rpartition("\n")[2]
            raise UserError(f"Spark could not do this: {reason}") from error
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(f"Spark could not do this: {reason}") from error
        except Py4JJavaError as error:
            raise UserError(f"Spark could not do this: {_first_cause(error)}") from error


def _first_cause(error: Py4JJavaError) -> str:
    """The message at the bottom of a Java error, which says what happened where the data are."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage()).strip().partition("\n")[0]


def print_counts(title: str, counts: dict[str, object]) -> None:
    """A small table of names and figures on stdout."""
    console = Console(highlight=False)
    console.print(title, soft_wrap=True, markup=False)
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, value in counts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    console.print(table)
