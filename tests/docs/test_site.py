"""The site builds without a warning, and every link and anchor of it has a target."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.blocks import PAGES, ROOT, anchors, targets

pytest.importorskip("furo")
pytest.importorskip("myst_parser")


class Page(HTMLParser):
    """A page's links, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        address = given.get("href") if tag == "a" else given.get("src")
        if address:
            self.links.add(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs"]
    done = subprocess.run(
        [*command, "-d", str(out / "trees"), ".", str(out / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_page_is_built(site: Path) -> None:
    for page in PAGES:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).exists(), page
    assert (site / "index.html").exists()


def test_links_have_targets(site: Path) -> None:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in pages:
                anchors = pages[target].anchors
                assert unquote(parts.fragment) in anchors, f"{path.relative_to(site)}: {link}"


def test_links_have_targets_on_a_git_host() -> None:
    """Pages are read there, too, where a folder has no page of its own."""
    for page in [*PAGES, *(ROOT / "docs/reference").glob("*.md")]:
        for target in targets(page):
            file, _, anchor = target.partition("#")
            found = (page.parent / file).resolve() if file else page
            assert found.is_file(), f"{page.relative_to(ROOT)}: {target}"
            if anchor:
                assert anchor in anchors(found), f"{page.relative_to(ROOT)}: {target}"
