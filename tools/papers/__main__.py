"""`python -m tools.papers` writes the tables; with `--check` it names stale pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shoal.report.study import StudyError
from tools.papers.kept import FOLDER, ROOT, keep, read_kept
from tools.papers.tables import Scales, all_claims, contents, counts, shown_claims

MADE = "<!-- Made from evaluations/ by `make papers`; a test says when it is stale. -->"
OVERVIEW = ROOT / "PAPERS.md"
PAGES = ROOT / "docs" / "background" / "papers" / "claims"


def made(kept: Mapping[str, Scales], overview: str) -> Mapping[Path, str]:
    """Return each page's text; `overview` is `PAPERS.md` as it is, of which the tables change.

    ValueError if it has no place for one.
    """
    measured = {study: scales for study, scales in kept.items() if scales}
    tables = {study: shown_claims(study, scales) for study, scales in measured.items()}
    for name, lines in {"counts": counts(measured), **tables}.items():
        overview = _replaced(overview, name, lines)
    pages = {study: all_claims(study, scales) for study, scales in measured.items()}
    pages["README"] = contents(measured)
    texts = {PAGES / f"{name}.md": "\n".join([MADE, *lines]) for name, lines in pages.items()}
    return {OVERVIEW: overview, **texts}


def _replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """The text with these lines between the marks of that name."""
    begin, end = f"<!-- table {name} -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = text.partition(begin)
    _, ended, behind = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"PAPERS.md has no place for a table: {begin.strip()} … {end.strip()}")
    table = "\n".join(lines).rstrip("\n") + "\n"
    return f"{before}{begin}{table}{end}{behind}"


def stale() -> Iterator[tuple[Path, str]]:
    """Pages that differ from what the findings make, with what they should be."""
    for path, text in made(read_kept(), OVERVIEW.read_text(encoding="utf-8")).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.papers", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name stale pages")
    commands = parser.add_subparsers(dest="command")
    keeping = commands.add_parser("keep", help="keep the findings of `shoal reproduce`")
    keeping.add_argument("measured", type=Path, help="the folder of `all`, or of a study")
    keeping.add_argument("--commit", required=True, help="the commit that measured")
    asked = parser.parse_args()
    try:
        if asked.command == "keep":
            for path in keep(asked.measured, asked.commit, FOLDER):
                print(f"kept {path.relative_to(ROOT)}")
        found = list(stale())
    except (StudyError, ValueError) as error:
        sys.exit(str(error))
    if asked.check and found:
        sys.exit(f"stale, run `make papers`: {', '.join(path.name for path, _ in found)}")
    for path, text in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
