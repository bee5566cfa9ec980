"""`shoal match`: try filters on publications, from JSON lines or tables, by Spark if asked."""

from __future__ import annotations

import difflib
import enum
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from shoal.cli.matching.files import (
    ReadFile,
    ReadPublication,
    ReadSubscription,
    is_source,
    is_table,
    kind_complaints,
    read_publications,
    read_subscriptions,
    track,
    warn,
)
from shoal.cli.matching.tables import (
    OnceOption,
    PairsOption,
    PartitionOption,
    SourceOption,
    SparkOptions,
    StreamOption,
    match_by_spark,
    table_errors,
)
from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_exist
from shoal.cli.support.spark import (
    AddOption,
    ConfOption,
    MasterOption,
    MemoryOption,
    OverwriteOption,
    adding_errors,
)
from shoal.cli.support.table_places import SparkPlace, input_place, output_place, put_output
from shoal.frames.table_places import COPIES, named


class Engine(enum.StrEnum):
    """Matching engines; all give the same answer."""

    INDEX = "index"
    NAIVE = "naive"
    SPARK = "spark"
    SPARK_SQL = "spark-sql"

    @property
    def is_spark(self) -> bool:
        return self in (Engine.SPARK, Engine.SPARK_SQL)


class Syntax(enum.StrEnum):
    """The language that filters are written in."""

    SQL = "sql"
    PADRES = "padres"


class LineOptions(NamedTuple):
    """Options about reading and answering JSON lines."""

    engine: Engine
    syntax: Syntax
    skip_bad: bool
    explain: bool
    only: Sequence[str]
    as_json: bool

    def given(self) -> str:
        """An option that was given and is for JSON lines only; empty if none was."""
        if self.syntax is not Syntax.SQL:
            return "--syntax"
        return "--skip-bad" if self.skip_bad else "--only" if self.only else ""

    def check(self) -> None:
        """UserError for options that do not go together."""
        if self.as_json and not self.explain:
            raise UserError("--json goes with --explain; without it every line is JSON already")
        if self.explain and self.engine is not Engine.INDEX:
            raise UserError(
                "--explain goes by the definitions, not by an engine; "
                f"leave out --engine {self.engine}"
            )


def match(
    subscriptions: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help='JSON lines {"id": "s1", "filter": "carrier = \'UA\'"}; or a table.',
        ),
    ],
    publications: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help='JSON lines {"id": "p1", "attributes": {...}}, - is stdin; a table; '
            "with --stream also MODULE:CLASS.",
        ),
    ],
    engine: Annotated[Engine, typer.Option(help="The matching engine.")] = Engine.INDEX,
    syntax: Annotated[Syntax, typer.Option(help="The language of the filters.")] = Syntax.SQL,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Report broken JSON lines and go on without them."),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each pair why it does not match.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Only this one of JSON lines; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --explain: a JSON object per pair.")
    ] = False,
    out: PairsOption = None,
    overwrite: OverwriteOption = False,
    add: AddOption = False,
    partition: PartitionOption = None,
    stream: StreamOption = False,
    once: OnceOption = False,
    source_options: SourceOption = None,
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Try filters: which subscriptions does each publication match?

    Prints one line per publication, in input order, with the sorted ids of its subscriptions.

    All lines are read first: a broken one stops the command with nothing printed, unless
    --skip-bad.

    With --explain it prints instead, for each publication and subscription, which tests failed
    or were unknown, and the values found. --only late-united asks about that subscription alone.

    Either file may be a table: a .parquet file, a folder of them, or a .csv with a header; also at
    a URI (file:///PATH, s3://BUCKET/PATH), a Delta or an Iceberg table. By Spark, any URI that it
    reads, and tables of its catalog (lake.db.flights); so for --out. Columns
    of subscriptions: id and filter, or id and a conjunction (symbol, price.low, price.high, ...).
    Columns of publications: id and an attribute each; null is missing. --out DIR takes pairs of any
    number, as Parquet. Tables that do not fit into memory are for --engine spark (the same index on
    its workers) or spark-sql.

    By Spark, with --partition auto, each worker holds only subscriptions that lie together on some
    attribute. With --stream, publications are a folder of Parquet, or a Python data source
    MODULE:CLASS: new publications are matched once, with their pairs in DIR/batch=N; an interrupted
    run continues after its last batch.

    With --add, DIR gets a folder part=N with the pairs of the files that are new in both folders.
    """
    lines = LineOptions(engine, syntax, skip_bad, explain, only or (), as_json)
    sql = engine is Engine.SPARK_SQL
    by_spark = engine.is_spark
    wanted = input_place(subscriptions, by_spark=by_spark)
    given = input_place(publications, by_spark=by_spark)
    tables = SparkOptions(
        None if out is None else output_place(out, overwrite=overwrite, by_spark=by_spark),
        overwrite,
        master,
        memory,
        sql,
        partition,
        stream,
        once,
        source_options or (),
        conf or (),
    )
    lines.check()
    _check_tables(lines, tables, wanted, given)
    if add:
        _add(lines, tables, wanted, given)
        return
    _run(lines, tables, wanted, given)


def _add(
    lines: LineOptions,
    tables: SparkOptions,
    subscriptions: Path | SparkPlace,
    publications: Path | SparkPlace,
) -> None:
    """Add the pairs of new publications and subscriptions to a folder of parts."""
    from shoal.frames.increments import additions

    places = publications, subscriptions, tables.out
    if tables.stream or tables.overwrite or tables.out is None:
        raise UserError("--add goes with --out DIR, without --overwrite and --stream")
    for place in places:
        if not isinstance(place, Path) or place in COPIES:
            raise UserError(f"{named(str(place))}: --add reads and writes folders, as paths")
    given, wanted, out = (Path(str(each)) for each in places)
    inputs = []
    for name, place in (("publications", given), ("subscriptions", wanted)):
        check_exist(place)
        inside = place / f"{name}.parquet"
        table = inside if inside.exists() else place
        ending = "" if table.is_dir() else "".join(table.suffixes)
        inputs.append((f"{name}{ending}", table))
    with adding_errors(), additions(out, *inputs) as todo:
        for each in todo:
            COPIES[each.target] = str(out)
            paths = [each.inputs[name] for name, _ in reversed(inputs)]
            _run(lines, tables._replace(out=each.target), *paths)
    if not todo:
        print(f"{out}: nothing is new")


def _run(
    lines: LineOptions,
    tables: SparkOptions,
    subscriptions: Path | SparkPlace,
    publications: Path | SparkPlace,
) -> None:
    """Read, match and print, by options that go together."""
    wanted, given = _read(lines, subscriptions, publications)
    if lines.only and not isinstance(wanted, Path | SparkPlace):
        wanted = _chosen(wanted, lines.only)
    if lines.engine.is_spark:
        _print(match_by_spark(wanted, given, tables))
        return
    assert not isinstance(wanted, SparkPlace)
    assert not isinstance(given, SparkPlace)
    assert isinstance(subscriptions, Path)
    assert isinstance(publications, Path)
    assert not isinstance(tables.out, SparkPlace)
    are_tables = isinstance(wanted, Path) or isinstance(given, Path)
    if tables.out is not None or (
        are_tables and lines.engine is Engine.INDEX and not lines.explain
    ):
        from shoal.cli.matching.frames import match_frames

        with table_errors(subscriptions=subscriptions, publications=publications):
            _print(match_frames(wanted, given, tables.out, overwrite=tables.overwrite))
        if tables.out is not None:
            put_output(tables.out, overwrite=tables.overwrite)
        return
    known: Sequence[str] = ()
    if isinstance(wanted, Path) or isinstance(given, Path):
        from shoal.cli.matching.frames import as_lines

        with table_errors(subscriptions=subscriptions, publications=publications):
            wanted, given, known = as_lines(wanted, given)
    if lines.explain:
        from shoal.cli.matching.explanations import explanations

        for explanation in explanations(wanted, given, as_json=lines.as_json):
            print(explanation)
        return
    warn(kind_complaints(wanted, given, known))
    names = [publication.id for publication in given]
    _print(zip(names, _match(lines.engine, wanted, given), strict=True))


def _check_tables(
    lines: LineOptions,
    tables: SparkOptions,
    subscriptions: Path | SparkPlace,
    publications: Path | SparkPlace,
) -> None:
    """UserError for tables and options that do not go with the engine or with each other."""
    is_spark = lines.engine.is_spark
    if is_spark:
        tables.check(publications)
    elif option := tables.given():
        raise UserError(f"{option} needs --engine spark or --engine spark-sql")
    for path in (subscriptions, publications):
        if isinstance(path, SparkPlace):
            continue
        if is_source(path) and not is_spark:
            raise UserError(f"{path} is a Python data source; that needs --engine spark")
        if is_table(path) and (option := lines.given()):
            raise UserError(f"{option} is for JSON lines, and {path} is a table")
    if tables.overwrite and tables.out is None:
        raise UserError("--overwrite goes with --out")
    if tables.out is not None and (lines.explain or lines.engine is Engine.NAIVE):
        raise UserError("--out writes pairs; --explain and --engine naive print")


def _print(answers: Iterable[tuple[object, Sequence[str | int]]]) -> None:
    for publication, ids in answers:
        line = {"publication": publication, "subscriptions": sorted(ids)}
        print(json.dumps(line, ensure_ascii=False, default=str))


def _read(
    lines: LineOptions, subscriptions: Path | SparkPlace, publications: Path | SparkPlace
) -> tuple[Path | SparkPlace | list[ReadSubscription], Path | SparkPlace | list[ReadPublication]]:
    """The lines of both files; a table's path."""
    wanted: ReadFile[ReadSubscription] | None = None
    given: ReadFile[ReadPublication] | None = None
    if isinstance(subscriptions, Path) and not is_table(subscriptions):
        wanted = read_subscriptions(subscriptions, padres=lines.syntax is Syntax.PADRES)
    if isinstance(publications, Path) and not is_table(publications):
        given = read_publications(publications)
    bad_subscriptions = wanted.complaints if wanted else []
    bad_publications = given.complaints if given else []
    complaints = [*bad_subscriptions, *bad_publications]
    warn(given.remarks if given else ())
    if complaints and not lines.skip_bad:
        raise UserError(complaints[0])
    for complaint in complaints:
        print(f"shoal: skipped {complaint}", file=sys.stderr)
    if complaints:
        print(
            f"shoal: skipped {len(bad_subscriptions)} broken subscription lines and "
            f"{len(bad_publications)} broken publication lines",
            file=sys.stderr,
        )
    return wanted.records if wanted else subscriptions, given.records if given else publications


def _chosen(
    subscriptions: Sequence[ReadSubscription], only: Sequence[str]
) -> list[ReadSubscription]:
    """The subscriptions of these ids, in the order of the file."""
    known = {str(each.id): None for each in subscriptions}
    for id in only:
        if id not in known:
            alike = difflib.get_close_matches(id, known, n=3, cutoff=0.5)
            hint = f"; there is {' and '.join(sorted(alike))}" if alike else ""
            raise UserError(f"--only {id}: no subscription has this id{hint}")
    return [each for each in subscriptions if each.id in only]


def _match(
    engine: Engine,
    subscriptions: Sequence[ReadSubscription],
    publications: Sequence[ReadPublication],
) -> list[list[str | int]]:
    from shoal.matching import MatchIndex, matches

    if engine is Engine.NAIVE:
        return [
            [each.id for each in subscriptions if matches(each.filter, publication.attributes)]
            for publication in track(publications, "matching")
        ]
    index = MatchIndex()
    for each in subscriptions:
        index.add(each.id, each.filter)
    return [index.match(each.attributes) for each in track(publications, "matching")]
