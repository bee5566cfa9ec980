"""Several studies on one page: counted claims, and missed ones."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shoal.report.overview_pages import overview_markdown, overview_page, write_overview
from tests.report.test_study_pages import DELAY, LOAD, STUDY

OWN = msgspec.structs.replace(LOAD, id="own", verdict="beaten", is_own=True)
AGAIN = msgspec.structs.replace(DELAY, id="again", is_again=True)
FLIGHTS = msgspec.structs.replace(DELAY, dataset="flights", reason="", reading="")
STUDIES = {
    "one": msgspec.structs.replace(STUDY, claims=(LOAD, DELAY, OWN, AGAIN, FLIGHTS)),
    "two": msgspec.structs.replace(STUDY, title="Another: the paper's", claims=(LOAD,)),
}


def test_claims_are_counted_by_paper_and_data() -> None:
    text, html = overview_markdown(STUDIES), overview_page(STUDIES)
    heads = "Met | Beaten | Missed | Direction only | Not comparable | Not run"
    assert f"| Data | Judged | All | {heads} |" in text
    assert "| quotes | the paper's claims | 2 | 1 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| flights | the paper's claims | 1 | 0 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| quotes | aims of our own | 1 | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "## [A <study>](one/RESULTS.md)" in text
    assert "## [Another](two/RESULTS.md)" in text
    assert text.count("the paper's claims") == 3
    assert html.count("the paper&#x27;s claims") + html.count("the paper's claims") == 3
    assert "<study>" not in html


def test_missed_claims_have_a_reason() -> None:
    text, html = overview_markdown(STUDIES), overview_page(STUDIES)
    assert text.count("Missed:") == 1
    assert "| quotes | 68 % | 71 % | Read as: the best. links differ |" in text
    assert "Not counted" not in text
    assert html.count("<h3>Missed</h3>") == 1
    assert html.count('class="verdict missed"') == 2
    assert html.count('class="reason"') == 1


def test_a_continued_claim_is_shown_with_its_first_part() -> None:
    more = msgspec.structs.replace(DELAY, id="more", claim="... at 63 brokers")
    study = msgspec.structs.replace(
        STUDY, claims=(msgspec.structs.replace(LOAD, claim="first"), more)
    )
    assert "| first ... at 63 brokers | quotes |" in overview_markdown({"one": study})


def test_a_continued_claim_keeps_its_first_part_on_other_data() -> None:
    claims = [
        msgspec.structs.replace(LOAD, id="best", claim="above the best"),
        msgspec.structs.replace(DELAY, id="more", claim="... others"),
        msgspec.structs.replace(LOAD, id="last", claim="another"),
        msgspec.structs.replace(DELAY, id="more", claim="... others", dataset="flights"),
    ]
    text = overview_markdown({"one": msgspec.structs.replace(STUDY, claims=tuple(claims))})
    assert "| above the best ... others | quotes |" in text
    assert "| above the best ... others | flights |" in text
    assert "another ..." not in text


def test_the_page_links_to_the_studies(tmp_path: Path) -> None:
    write_overview(tmp_path, STUDIES)
    assert {path.name for path in tmp_path.iterdir()} == {"RESULTS.md", "index.html"}
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(f'href="{name}/index.html"' in html for name in STUDIES)
