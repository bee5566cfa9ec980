"""`shoal match`: try filters on publications, from files of JSON lines."""

from __future__ import annotations

import difflib
import enum
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.errors import UserError
from shoal.cli.match_files import (
    ReadPublication,
    ReadSubscription,
    read_publications,
    read_subscriptions,
    track,
)


class Engine(enum.StrEnum):
    """What does the matching; all answer the same."""

    INDEX = "index"
    NAIVE = "naive"
    SPARK_SQL = "spark-sql"


class Syntax(enum.StrEnum):
    """The language that filters are written in."""

    SQL = "sql"
    PADRES = "padres"


def match(
    subscriptions: Annotated[
        Path, typer.Option(help='JSON lines {"id": "s1", "filter": "carrier = \'UA\'"}.')
    ],
    publications: Annotated[
        Path, typer.Option(help='JSON lines {"id": "p1", "attributes": {...}}; - is stdin.')
    ],
    engine: Annotated[Engine, typer.Option(help="What does the matching.")] = Engine.INDEX,
    syntax: Annotated[Syntax, typer.Option(help="The language of the filters.")] = Syntax.SQL,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Report broken lines and go on without them.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each pair why it does not match.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Only this subscription; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --explain: a JSON object per pair.")
    ] = False,
) -> None:
    """Try filters: which subscriptions does each publication match?

    Prints one line per publication, in input order, with the sorted ids of its subscriptions.

    All lines are read first: a broken one stops the command with nothing printed, unless
    --skip-bad.

    With --explain it prints instead, for each publication and subscription, which tests failed
    or were unknown, and the values found. --only late-united asks about that subscription alone.
    """
    if as_json and not explain:
        raise UserError("--json goes with --explain; without it every line is JSON already")
    if explain and engine is not Engine.INDEX:
        raise UserError(
            f"--explain goes by the definitions, not by an engine; leave out --engine {engine}"
        )
    wanted = read_subscriptions(subscriptions, padres=syntax is Syntax.PADRES)
    given = read_publications(publications)
    complaints = [*wanted.complaints, *given.complaints]
    if complaints and not skip_bad:
        raise UserError(complaints[0])
    for complaint in complaints:
        print(f"shoal: skipped {complaint}", file=sys.stderr)
    if complaints:
        print(
            f"shoal: skipped {len(wanted.complaints)} broken subscription lines and "
            f"{len(given.complaints)} broken publication lines",
            file=sys.stderr,
        )
    subscriptions_asked = _chosen(wanted.records, only) if only else wanted.records
    if explain:
        from shoal.cli.match_explanations import explanations

        for explanation in explanations(subscriptions_asked, given.records, as_json=as_json):
            print(explanation)
        return
    answers = _match(engine, subscriptions_asked, given.records)
    for publication, ids in zip(given.records, answers, strict=True):
        line = {"publication": publication.id, "subscriptions": sorted(ids)}
        print(json.dumps(line, ensure_ascii=False))


def _chosen(
    subscriptions: Sequence[ReadSubscription], only: Sequence[str]
) -> list[ReadSubscription]:
    """The subscriptions of these ids, in the order of the file."""
    known = {each.id: None for each in subscriptions}
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
) -> list[list[str]]:
    if engine is Engine.SPARK_SQL:
        return _match_by_spark(subscriptions, publications)
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


def _match_by_spark(
    subscriptions: Sequence[ReadSubscription], publications: Sequence[ReadPublication]
) -> list[list[str]]:
    from rich.console import Console

    from shoal.pipeline.java import JavaNotFoundError
    from shoal.pipeline.matching_job import matching_pairs, publications_frame
    from shoal.pipeline.session import spark_session

    answers: list[list[str]] = [[] for _ in publications]
    try:
        with (
            Console(stderr=True).status("Spark SQL evaluates the filters"),
            spark_session("shoal match") as spark,
        ):
            frame = publications_frame(spark, [each.attributes for each in publications])
            texts = [(each.id, each.text) for each in subscriptions]
            for row in matching_pairs(frame, texts, key_columns=["number"]).toLocalIterator():
                answers[row["number"]].append(row["subscription"])
    except JavaNotFoundError as error:
        raise UserError(str(error)) from error
    return answers
