"""`python -m tools.reference` writes the pages; with `--check` it names stale ones."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.reference.pages import WRITTEN, pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that differ from the code, or that it does not make."""
    made = dict(pages())
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    there = {name: text for name, text in there.items() if name not in WRITTEN}
    return sorted(name for name in made | there if made.get(name) != there.get(name))


def main() -> None:
    if "--check" in sys.argv[1:]:
        if found := stale():
            sys.exit(f"stale, run `make docs`: {', '.join(found)}")
        return
    FOLDER.mkdir(exist_ok=True)
    for name in stale():
        path = FOLDER / name
        made = pages().get(name)
        path.unlink() if made is None else path.write_text(made, encoding="utf-8")
        print(f"{'removed' if made is None else 'wrote'} {path.relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
