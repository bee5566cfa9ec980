"""The examples of a page: its fenced blocks, and the commands and files in them.

In a console block a line that begins with `$ ` is a command, and its output follows; without such a
line every line is a command. Two spaces and `#` begin a comment for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.reference.pages import MADE
from tools.reference.tables import anchor

ROOT = Path(__file__).parents[2]
# Handwritten pages; `make docs` makes the others.
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if MADE not in path.read_text(encoding="utf-8")
)

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(^|\s{2,})#.*$")
_FILE = re.compile(r"`([\w-]+\.(?:toml|csv))`")


class Command(NamedTuple):
    """One command, and its output where the page shows it."""

    text: str
    output: str


class Block(NamedTuple):
    """A fenced block, and the file that the sentence before it names, if any."""

    page: str
    line: int
    language: str
    text: str
    file: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block."""
        joined = self.text.replace("\\\n", "")
        has_prompts = any(line.startswith("$ ") for line in joined.splitlines())
        found: list[Command] = []
        for line in joined.splitlines():
            if line.startswith("$ ") or not has_prompts:
                text = _COMMENT.sub("", line.removeprefix("$ ")).strip()
                found += [Command(text, "")] if text else []
            else:
                found[-1] = Command(found[-1].text, f"{found[-1].output}{line}\n")
        return found


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        before = text[: found.start()].rstrip().rpartition("\n\n")[2].strip()
        files = _FILE.findall(before) if before.endswith(":") else []
        language, body = found.groups()
        named = files[0] if language in ("toml", "text") and files else ""
        line = text.count("\n", 0, found.start()) + 1
        yield Block(str(page.relative_to(ROOT)), line, language, body, named)


def targets(page: Path) -> list[str]:
    """The targets of a page's links within this repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text(encoding="utf-8")))
    return [target for target in found if not target.startswith("http")]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings on a Git host."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor(title.strip()) for title in titles}
