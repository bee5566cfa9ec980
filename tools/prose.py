"""Measure the prose of docstrings and pages: `python -m tools.prose NAME=PATH …`.

A path is a folder, a Python file or a Markdown page; without arguments it measures each package of
`src/shoal` and `docs`.  Code, tables and headings are left out.

| column | meaning |
| --- | --- |
| sentences, words | how many there are |
| length | mean number of words in a sentence |
| relative | percentage of sentences that begin with a relative clause ("Who is away …") |
| actors | "who", "nobody" and their like in 1,000 words: pronouns that hide the actor |

The figures help a reader to find text to rewrite; they are no gate.

>>> row = measure(["Who is away waits. A broker resends the rest."])
>>> row.sentences, round(row.relative), round(row.actors)
(2, 50, 111)
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RELATIVE = re.compile(r"(who|whom|whose|what|whatever|whoever|where|which|whichever)\b", re.I)
ACTORS = re.compile(r"\b(who|whom|whose|whoever|nobody|somebody|everybody|anybody)\b", re.I)
_NO_PROSE = ("|", "#", ">>>", "...", "<", "==", "--", "![")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


class Prose(NamedTuple):
    """Figures of some texts."""

    sentences: int
    words: int
    length: float
    relative: float
    actors: float


def measure(texts: Iterable[str]) -> Prose:
    """Count the sentences of texts; a sentence has at least three words."""
    found = [sentence for text in texts for sentence in sentences(text)]
    words = sum(len(_WORD.findall(sentence)) for sentence in found)
    relative = sum(RELATIVE.match(sentence) is not None for sentence in found)
    actors = sum(len(ACTORS.findall(sentence)) for sentence in found)
    return Prose(
        len(found),
        words,
        words / max(1, len(found)),
        100 * relative / max(1, len(found)),
        1_000 * actors / max(1, words),
    )


def sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring or a page, without code, tables and headings."""
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    lines = []
    for line in text.splitlines():
        stripped = line.strip()
        is_code = line.startswith("    ") and not stripped[:1].isalpha()
        is_prose = not (stripped.startswith(_NO_PROSE) or is_code)
        lines.append(re.sub(r"^([-*+]|\d+\.)\s+", "\n", stripped) if is_prose else "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))
    text = re.sub(r"[*_]{1,2}", "", re.sub(r"`+[^`]*`+", "X", text))
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z\"(])", " ".join(paragraph.split())):
            if len(_WORD.findall(sentence)) >= 3:
                yield sentence


def texts(path: Path) -> Iterator[str]:
    """Every docstring below a path, and every Markdown page."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.suffix == ".md":
            yield file.read_text()
        elif file.suffix == ".py":
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(
                    node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
                ):
                    yield ast.get_docstring(node) or ""


def main() -> None:
    """Print a row for each argument, or for each package and the documentation."""
    given = dict(each.split("=", 1) for each in sys.argv[1:])
    packages = sorted(path.parent for path in (ROOT / "src/shoal").glob("*/__init__.py"))
    paths = {name: Path(path) for name, path in given.items()} or {
        **{path.name: path for path in packages},
        "docs": ROOT / "docs",
    }
    print(f"{'text':16}{'sentences':>10}{'words':>9}{'length':>8}{'relative':>10}{'actors':>8}")
    for name, path in paths.items():
        row = measure(texts(path))
        print(
            f"{name:16}{row.sentences:10,}{row.words:9,}{row.length:8.1f}"
            f"{row.relative:8.1f} %{row.actors:8.1f}"
        )


if __name__ == "__main__":
    main()
