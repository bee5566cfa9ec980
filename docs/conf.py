"""Configuration of the documentation site: `make docs` builds it into build/docs.

The source folder is the repository's root, so that a link between two pages is the same on the site
and on a Git host.  `README.md` is the first page.
"""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath
from typing import Any

project = "shoal"
author = "the shoal authors"
copyright = author
release = version = version_of("shoal")

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**"]
# Sphinx walks the source folder before it looks at `include_patterns`.
exclude_patterns = [".*", "build", "demo", "src", "tests", "tools", "benchmarks", "examples"]
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]
# Blocks of PADRES text, of Mermaid's kind or without a language are shown as they are.
suppress_warnings = ["misc.highlighting_failure"]

# Two hyphens begin an option, and quotes belong to it.
smartquotes = False

html_theme = "furo"
html_title = "shoal"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
# Addresses in examples are nobody's.
linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost|.*example\.org)"]
linkcheck_timeout = 10

KINDS = [
    "Overview <docs/README>",
    "docs/tutorials/README",
    "docs/how-to/README",
    "docs/reference/README",
]
KINDS += ["docs/background/README"]
PROJECT = ["PAPERS", "CONTRIBUTING"]
PROJECT += ["Architecture <ARCHITECTURE>", "SECURITY", "CHANGELOG"]
_LINK = re.compile(r"\]\(([\w/-]+)\.md\)")


def add_contents(_app: Any, page: str, text: list[str]) -> None:
    """Append the table of contents: a folder's README names its pages by links."""
    path = PurePosixPath(page)
    if page == root_doc:
        text[0] += _toctree("Documentation", KINDS) + _toctree("Project", PROJECT)
    elif path.name == "README" and path.parts[0] == "docs" and len(path.parts) > 2:
        text[0] += _toctree("", list(dict.fromkeys(_LINK.findall(text[0]))))


def _toctree(caption: str, pages: list[str]) -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "", "```{toctree}", *options, "", *pages, "```", ""])


def add_index(app: Any, error: Exception | None) -> None:
    """The first page again under the name that a web server looks for."""
    first = Path(app.outdir) / f"{root_doc}.html"
    if error is None and first.exists():
        shutil.copyfile(first, first.with_name("index.html"))


def setup(app: Any) -> None:
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_index)
