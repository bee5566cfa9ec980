"""Helpers of the Spark commands: a session with a spinner, and errors as messages."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_new
from shoal.cli.support.still import duration
from shoal.cli.support.table_places import (
    SparkPlace,
    input_place,
    output_place,
    put_output,
)
from shoal.cli.support.waiting import WaitDisplay, waiting
from shoal.frames.table_places import COPIES, is_uri, named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.progress import AskStages

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark master, or sc://HOST for Spark Connect; else that of Spark's own settings.",
        show_default="local[*]",
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--memory", help="Memory of Spark's driver.", show_default="4g if local"),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the output at --out.")]
AddOption = Annotated[
    bool, typer.Option("--add", help="Add a part to --out, of the inputs' files that are new.")
]
OutOption = Annotated[
    str, typer.Option("--out", metavar="PLACE", help="The folder to write, or a URI or a schema.")
]

Engine = Literal["auto", "spark"]
EngineOption = Annotated[
    Engine,
    typer.Option("--engine", help="auto: Spark, except for small inputs; spark: always Spark."),
]

_T = TypeVar("_T")
Place: TypeAlias = Path | SparkPlace

# A step that has taken less is not worth an estimate.
SOON_S = 3.0
# Size of tables (Parquet, mostly) that Spark processes in seconds.
BRIEF_BYTES = 10_000_000

_OWN_ERROR = re.compile(r"^shoal\.\S+Error: (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_WORKER_DIED = "Python worker exited unexpectedly"
_TRACEBACK = "Traceback (most recent call last):"
_UNREAD_FILE = re.compile(r"error while reading file file:/*(/\S+?)\.?\s")


@contextlib.contextmanager
def spark_command(
    name: str,
    *,
    master: str | None = None,
    memory: str | None = None,
    conf: Sequence[str] = (),
    inputs: Sequence[Path] = (),
) -> Iterator[tuple[SparkSession, WaitDisplay]]:
    """A session for one command and its status line; a user's mistakes become UserError.

    If the `inputs` are given and small, it is a session for little work.
    """
    settings = spark_settings(conf)
    _say_users_spark(master)
    # Before PySpark is imported, which takes a while by itself.
    with (
        waiting("starting Spark", _bytes_of(inputs)) as status,
        spark_mistakes(),
        only_session(
            f"shoal {name}",
            master=master,
            memory=memory,
            conf=settings,
            is_brief=_are_small(inputs),
        ) as spark,
        _stages(spark) as stages,
    ):
        status.follow(parts_done(stages))
        try:
            yield spark, status
        finally:
            status.follow(str)


@contextlib.contextmanager
def only_session(name: str, **options: Any) -> Iterator[SparkSession]:
    """A session, with the options of `spark_session`, in a process that does nothing without it."""
    from shoal.pipeline.interrupts import java_ends_with_it
    from shoal.pipeline.session import spark_session

    with java_ends_with_it(), spark_session(name, **options) as spark:
        yield spark


@contextlib.contextmanager
def spark_mistakes() -> Iterator[None]:
    """Turn users' mistakes, and Spark's failures, into UserError."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from shoal.pipeline.java import JavaNotFoundError

    try:
        yield
    except (JavaNotFoundError, ValueError) as error:
        raise UserError(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        raise UserError(spark_complaint(error)) from error


def spark_settings(conf: Sequence[str]) -> dict[str, str]:
    """Return the values of `--conf`; UserError for one that is no setting."""
    settings = {}
    for text in conf:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UserError(f"--conf {text}: give KEY=VALUE")
        settings[key] = value
    return settings


def _say_users_spark(master: str | None) -> None:
    """Say which Spark works, where neither an option nor shoal chose it."""
    from shoal.pipeline.user_settings import user_settings

    if master is None and user_settings().has_spark:
        # Only here: PySpark takes a while to import, and nothing would tell.
        from shoal.pipeline.session import which_spark

        say_engine(f"on Spark: {which_spark()}")


def _stages(spark: SparkSession) -> contextlib.AbstractContextManager[AskStages]:
    from shoal.pipeline.progress import stages_of

    return stages_of(spark)


def parts_done(stages: AskStages, now_s: Callable[[], float] = time.monotonic) -> Callable[[], str]:
    """Return a function that reports Spark's progress: `step 4: 9 of 16 parts, some 20 s more`,
    empty between steps.

    Spark is asked at most once a second, however often the line is drawn.  A step's time is
    estimated from its parts that are done.
    """
    said, asked_s = "", -math.inf
    began_s: dict[int, float] = {}

    def ask() -> str:
        nonlocal said, asked_s
        now = now_s()
        if now - asked_s < 1:
            return said
        asked_s = now
        said = ""
        for stage, done, parts in stages():
            passed_s = now - began_s.setdefault(stage, now)
            said = f"step {stage + 1}: {done} of {parts} parts"
            if done and passed_s >= SOON_S:
                said += f", some {duration(passed_s * (parts - done) / done)} more"
        return said

    return ask


class Making(NamedTuple):
    """Options about making tables: output and engine."""

    command: str
    out: str
    overwrite: bool
    engine: Engine
    master: str | None
    memory: str | None
    conf: Sequence[str]

    @property
    def by_spark(self) -> bool:
        """Return whether Spark was asked for."""
        return self.engine == "spark" or self.master is not None

    def input(self, given: str | Path) -> Place:
        """The place of an input; a store's is Spark's if that was asked for, else a copy."""
        return input_place(given, by_spark=self.by_spark)

    def output(self) -> Place:
        """The place of the output, as `input`."""
        return output_place(self.out, overwrite=self.overwrite, by_spark=self.by_spark)

    def make(
        self,
        doing: str,
        without: Callable[[Path], _T] | None,
        by_spark: Callable[[SparkSession], _T],
        out: Place,
        *,
        inputs: Sequence[Place] = (),
    ) -> _T:
        """Return the result of `without` Spark, or of `by_spark` if that is asked for, or needed.

        `out` is what `output` gave. A spinner names the work (`doing`); a user's mistake is a
        UserError. If the `inputs` are given and small, the session is one for little work.
        """
        paths = [each for each in inputs if isinstance(each, Path)]
        if isinstance(out, Path):
            check_new(out, overwrite=self.overwrite, inputs=paths)
        made = self._made(doing, without, by_spark, out, inputs)
        if isinstance(out, Path):
            put_output(out, overwrite=self.overwrite)
        return made

    def check_adds(self, given: Place, out: Place) -> tuple[Path, Path]:
        """The input and the output of `--add`, which are folders of this machine; or UserError."""
        if self.overwrite:
            raise UserError("--add keeps the parts that are there, so it cannot --overwrite")
        for place in (given, out):
            if not isinstance(place, Path) or place in COPIES:
                raise UserError(f"{named(str(place))}: --add reads and writes folders, as paths")
        assert isinstance(given, Path)
        assert isinstance(out, Path)
        return given, out

    def _made(
        self,
        doing: str,
        without: Callable[[Path], _T] | None,
        by_spark: Callable[[SparkSession], _T],
        out: Place,
        inputs: Sequence[Place],
    ) -> _T:
        paths = [each for each in inputs if isinstance(each, Path)]
        why = ""
        if self.engine == "auto":
            why = "--master" if self.master is not None else "there is no other way"
        if without is not None and isinstance(out, Path) and not self.by_spark:
            with waiting(doing, _bytes_of(paths)):
                from shoal.pipeline.small.tables import NeedsSparkError

                try:
                    made = without(out)
                except NeedsSparkError as error:
                    why = str(error) or "the input is large, or only Spark reads it"
                except ValueError as error:
                    raise UserError(str(error)) from error
                else:
                    say_engine("without Spark: the input is small")
                    return made
        with spark_command(
            self.command,
            master=self.master,
            memory=self.memory,
            conf=self.conf,
            inputs=paths if len(paths) == len(inputs) else [],
        ) as (spark, status):
            if why:
                say_engine(f"with Spark: {why}")
            check_lasts(spark, out)
            status.update(doing)
            return by_spark(spark)


@contextlib.contextmanager
def adding_errors() -> Iterator[None]:
    """Turn what is wrong with a folder to add to into UserError."""
    from shoal.frames.errors import TableError

    try:
        yield
    except TableError as error:
        raise UserError(str(error)) from None


def check_lasts(spark: SparkSession, out: Place | None) -> None:
    """UserError for a table in a catalog that ends with the command."""
    if not isinstance(out, SparkPlace) or is_uri(out.text):
        return
    from shoal.pipeline.session import has_passing_catalog

    if has_passing_catalog(spark, out.text):
        raise UserError(
            f"{out}: the catalog of this Spark ends with the command; name one that stays, by "
            "--conf spark.sql.catalogImplementation=hive, or a catalog of your own"
        )


def say_engine(text: str) -> None:
    """Say on stderr which engine works, and why it was chosen."""
    print(f"shoal: {text}", file=sys.stderr)


def _are_small(inputs: Sequence[Path]) -> bool:
    """Return whether these files and folders are known, and together small."""
    return bool(inputs) and _bytes_of(inputs) <= BRIEF_BYTES


def _bytes_of(inputs: Sequence[Path]) -> int:
    """Return how many bytes these files and folders have together."""
    return sum(
        file.stat().st_size
        for path in inputs
        for file in (path.rglob("*") if path.is_dir() else [path])
        if file.is_file()
    )


def spark_complaint(error: Exception) -> str:
    """Return Spark's failure in one line that names the file, if it is about one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    text = str(error).strip()
    if _WORKER_DIED in text:
        return "Spark could not do this: a process of its was killed, as when memory is short"
    # A stream's error holds that of the batch as text: this process' own, or a file's.
    if own := _OWN_ERROR.search(text):
        return own[1]
    causes = [*_CAUSE.findall(text), *_causes(error)]
    if unread := _UNREAD_FILE.search(text):
        why = f" ({causes[-1]})" if causes else ""
        return f"{unquote(unread[1])} cannot be read{why}; mend it or move it away"
    if isinstance(error, Py4JJavaError):
        reason = causes[-1]
    elif isinstance(error, PythonException):
        # The last line of the traceback has the error; the others have places only.
        reason = text.rpartition("\n")[2]
    elif (first := text.partition("\n")[0]).endswith(_TRACEBACK):
        # A process of Spark's that runs the user's Python, as a data source is.
        said = [line for line in text.splitlines() if line and not line.startswith((" ", "\t"))]
        error_line = next((line for line in said[1:] if not line.startswith("SQLSTATE")), "")
        reason = f"{first.removesuffix(_TRACEBACK).strip()} {error_line}"
    else:
        reason = first
    return f"Spark could not do this: {reason}"


def _causes(error: Exception) -> Iterator[str]:
    """Yield the messages of a Java error, down to the one about the data."""
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        if (message := cause.getMessage()) is not None:
            yield str(message).strip().partition("\n")[0]
        cause = cause.getCause()


def print_counts(title: str, counts: dict[str, object]) -> None:
    """A small table of names and figures on stdout."""
    console = Console(highlight=False)
    console.print(named(title), soft_wrap=True, markup=False)
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, value in counts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    console.print(table)
