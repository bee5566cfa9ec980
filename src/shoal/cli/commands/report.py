"""`shoal report`: one HTML page about one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_exist
from shoal.cli.support.table_places import local


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders that `shoal simulate` wrote; the first is the reference."),
    ],
    summary: Annotated[
        Path | None,
        typer.Option(
            help="The folder that `shoal summarise` wrote for these runs.",
            show_default="`summary`, beside the first run or beside the folder it is in",
        ),
    ] = None,
    replays: Annotated[
        list[Path] | None,
        typer.Option(
            "--replay",
            help="Output of `shoal replay --out`; repeatable, the first is the reference.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
) -> None:
    """Write one HTML report about runs; it opens offline."""
    from shoal.report.inputs import ReportError, read_runs
    from shoal.report.page import render
    from shoal.report.replays import read_replay

    runs = [local(each) for each in runs]
    summary = None if summary is None else local(summary)
    try:
        live = [read_replay(path) for path in replays or ()]
        page = render(read_runs(runs, summary or _summary_near(runs[0])), title, live)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    except ReportError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{out}: cannot write the report: {error.strerror}") from None
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    typer.echo(f"{out}: {number}, {len(page) // 1000:,} kB")


def _summary_near(run: Path) -> Path:
    check_exist(run)
    folder = run.resolve().parent
    for place in (folder, folder.parent):
        if (place / "summary" / "runs.parquet").exists():
            return place / "summary"
    raise UserError(
        f"no folder called summary in {folder} or {folder.parent}; "
        "make one with `shoal summarise`, or name it with --summary"
    )
