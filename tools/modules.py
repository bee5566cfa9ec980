"""`python -m tools.modules overlays/octopia` prints a package's modules with first lines.

Without a package it prints the packages. The text is the first line of each docstring, so it is
never older than the code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "shoal"


def first_line(path: Path) -> str:
    """The first line of a module's docstring; of a folder, its package's."""
    file = path / "__init__.py" if path.is_dir() else path
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else ""


def modules(folder: Path, *, and_within: bool) -> Iterator[tuple[str, str]]:
    """Name and first line of the modules in a package; sub-packages end with a slash, and come
    last.
    """
    there = [each for each in sorted(folder.iterdir()) if each.name != "__init__.py"]
    for path in there:
        if path.suffix == ".py":
            yield path.name, first_line(path)
    for path in there:
        if (path / "__init__.py").exists():
            yield f"{path.name}/", first_line(path)
            if and_within:
                for name, line in modules(path, and_within=True):
                    yield f"  {name}", line


def main() -> None:
    package = sys.argv[1] if len(sys.argv) > 1 else ""
    folder = SOURCES / package.removeprefix("src/shoal/")
    if not (folder / "__init__.py").exists():
        sys.exit(f"no package {package!r} in src/shoal")
    found = list(modules(folder, and_within=bool(package)))
    width = max(len(name) for name, _ in found)
    print(first_line(folder), "", sep="\n")
    for name, line in found:
        print(f"{name:<{width}}  {line}")


if __name__ == "__main__":
    main()
