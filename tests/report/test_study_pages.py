"""A study's pages: every claim is there, data never become markup, figures are files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from shoal.report import pdf
from shoal.report.latex import latex
from shoal.report.pdf import pdf_of, write_pdfs
from shoal.report.plots import COLOURS, plot
from shoal.report.study import (
    Figure,
    StudyError,
    StudyFinding,
    StudyGroup,
    StudyLine,
    StudyReport,
    StudyTable,
    count_verdicts,
    read_study,
    reason,
)
from shoal.report.study_pages import claim_tables, markdown, page, write_pages

LOAD = StudyFinding(
    id="load",
    section="Load",
    dataset="quotes",
    claim="cuts the <load> | rate",
    paper="68 %",
    ours="71 %",
    verdict="met",
    reason="",
    band="5 points",
)
DELAY = msgspec.structs.replace(
    LOAD, id="delay", section="Delay", verdict="missed", reason="links differ", reading="the best"
)
FIGURE = Figure(
    id="quotes-5a",
    title="5a <Rate>",
    caption="wide area",
    x_label="X",
    y_label="messages/s",
    lines=(
        StudyLine(name="baseline", points=((1, 4.0), (16, 5.0), (63, None))),
        StudyLine(name="load100 & more", points=((1, 1.0), (16, 2.0), (63, 3.0))),
    ),
)
STUDY = StudyReport(
    title="A <study>",
    scale="small",
    facts=("quotes",),
    notes=("A note.",),
    claims=(LOAD, DELAY),
    tables=(
        StudyTable(
            title="Regret", caption="of choices", columns=("a", "b"), rows=(("1", "2 | 3"),)
        ),
    ),
    groups=(StudyGroup(title="Figure 5", figures=(FIGURE,)),),
)


def test_every_claim_has_a_row_in_both() -> None:
    text, html = markdown(STUDY), page(STUDY)
    assert "| Claim | The paper | Met within | Ours | Reading, likely reason |" in text
    assert "| cuts the <load> \\| rate | 68 % | 5 points | met: 71 % |  |" in text
    assert "| **missed**: 71 % | Read as: the best. links differ |" in text
    assert "Of the paper's 2 claims 1 met, 1 missed." in text
    assert "cuts the &lt;load&gt; | rate" in html
    assert "<load>" not in html
    assert '<span class="verdict missed">missed</span>' in html
    assert html.count('class="reason"') == 1
    assert count_verdicts(STUDY.claims) == {"met": 1, "missed": 1}


def test_claims_are_tables_for_latex() -> None:
    (load, delay) = claim_tables(STUDY)
    assert (load.title, load.columns) == ("Load", ("Claim", "The paper", "Ours"))
    assert load.rows == (("cuts the <load> | rate", "68 %", "met: 71 %"),)
    assert delay.rows[0][2] == "missed: 71 %"
    text = latex([load, delay])
    assert r"cuts the $<$load$>$ $|$ rate & 68 \% & met: 71 \% \\" in text


def test_figures_are_pdf_files_beside_their_drawings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same drawing gives the same bytes; one that is gone has no PDF any more."""
    write_pages(tmp_path, STUDY)
    folder = tmp_path / "figures"
    (folder / "old.pdf").touch()
    assert write_pdfs(folder) == 1
    (made,) = folder.glob("*.pdf")
    assert made.stem == "quotes-5a"
    first = made.read_bytes()
    assert first.startswith(b"%PDF-")
    assert write_pdfs(folder) == 1
    assert made.read_bytes() == first
    with pytest.raises(ValueError, match="no drawing"):
        pdf_of("nothing")
    monkeypatch.setattr(pdf, "can_draw", lambda: False)
    assert write_pdfs(folder) == 0
    assert not made.exists()  # the drawing beside it may be another one


def test_one_aim_is_singular() -> None:
    own = msgspec.structs.replace(LOAD, id="own", is_own=True)
    study = msgspec.structs.replace(STUDY, claims=(LOAD, own))
    assert "Of the paper's 1 claim 1 met; of our own 1 aim 1 met." in markdown(study)


def test_a_claim_has_one_row_whatever_the_data_sets() -> None:
    again = [msgspec.structs.replace(one, dataset="flights", ours="9 %") for one in STUDY.claims]
    study = msgspec.structs.replace(STUDY, claims=(*STUDY.claims, *again))
    text, html = markdown(study), page(study)
    assert "| Claim | The paper | Met within | Ours, quotes | Ours, flights |" in text
    assert (
        "| 68 % | 5 points | **missed**: 71 % | **missed**: 9 % | Read as: the best. links differ |"
        in text
    )
    assert html.count(' id="delay"') == html.count('class="reason"') == 1
    assert '<td colspan="5">Read as: the best. links differ</td>' in html
    for heading in ("The paper", "Met within", "Ours, quotes", "Ours, flights"):
        assert html.count(f'<td data-heading="{heading}">') == 2
    for line in ("Quotes", "Flights"):
        assert f"{line}: of the paper's 2 claims 1 met, 1 missed." in text
        assert f"{line}: of the paper's 2 claims 1 met, 1 missed." in html
    only = msgspec.structs.replace(study, claims=study.claims[:3])
    assert (
        "| 68 % | 5 points | **missed**: 71 % |  | Read as: the best. links differ |"
        in markdown(only)
    )


def test_a_second_reading_is_shown_and_not_counted() -> None:
    second = msgspec.structs.replace(LOAD, id="again", is_again=True)
    other = msgspec.structs.replace(second, dataset="flights", reading="the mean")
    study = msgspec.structs.replace(STUDY, claims=(*STUDY.claims, second, other))
    text = markdown(study)
    assert "Quotes: of the paper's 2 claims 1 met, 1 missed." in text
    assert "Read as, flights: the mean. Not counted: another reading of a claim above." in text


def test_data_sets_of_one_reading_share_a_sentence() -> None:
    claims = [
        msgspec.structs.replace(LOAD, dataset=dataset, reading=reading)
        for dataset, reading in (("a", "best"), ("b", "mean"), ("c", "best"))
    ]
    assert reason(claims) == "Read as, a; c: best. Read as, b: mean."


def test_numbers_are_right_aligned() -> None:
    html = page(STUDY)
    assert '<td class="number">1</td>' in html
    words = StudyTable(title="", caption="", columns=("a", "b"), rows=(("word", "5 %"), ("4", "")))
    html = page(msgspec.structs.replace(STUDY, tables=(words,)))
    assert '<td>word</td><td class="number">5 %</td>' in html


def test_missing_measurements_are_named_in_place() -> None:
    table = StudyTable(title="Regret", caption="", columns=("a column", "b"), rows=())
    figure = msgspec.structs.replace(FIGURE, lines=())
    study = msgspec.structs.replace(
        STUDY, tables=(table,), groups=(StudyGroup(title="Figure 5", figures=(figure,)),)
    )
    assert page(study).count("nothing was measured") == 2
    assert "a column" not in page(study)
    assert "nothing was measured" in markdown(study)


def test_numbers_stay_with_their_units() -> None:
    claim = msgspec.structs.replace(LOAD, paper="19 MB", band="5 % more", ours="X = 5: 4 ms")
    html = page(msgspec.structs.replace(STUDY, claims=(claim,)))
    for text in ("19 MB", "5 %", "X = 5", "4 ms"):
        assert text.replace(" ", "\N{NO-BREAK SPACE}") in html


def test_linked_files_are_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.svg").touch()
    write_pages(tmp_path, STUDY)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["quotes-5a.svg"]
    assert "![5a <Rate>](figures/quotes-5a.svg)" in (tmp_path / "RESULTS.md").read_text()
    ElementTree.parse(tmp_path / "figures" / "quotes-5a.svg")
    assert (tmp_path / "index.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("x_scale", ["steps", "linear", "log"])
@pytest.mark.parametrize("y_scale", ["linear", "log"])
@pytest.mark.parametrize(
    "lines",
    [
        (),
        (StudyLine(name="empty", points=()),),
        (StudyLine(name="gap", points=((1, None),)),),
        (StudyLine(name="one", points=((5, 5.0),)),),
        (StudyLine(name="nought", points=((0, 0.0), (0, 0.0))),),
        (StudyLine(name="below", points=((1, -4.0), (2, 4.0))),),
        tuple(StudyLine(name=f"line {n}", points=((1, 1.0), (1_000, 1e6))) for n in range(14)),
    ],
)
def test_any_figure_can_be_drawn(x_scale: str, y_scale: str, lines: tuple[StudyLine, ...]) -> None:
    figure = msgspec.structs.replace(FIGURE, lines=lines, x_scale=x_scale, y_scale=y_scale)
    drawing = ElementTree.fromstring(plot(figure))
    assert "nan" not in plot(figure)
    assert drawing.attrib["role"] == "img"


def test_a_series_looks_the_same_in_every_figure() -> None:
    one = StudyLine(name="a", points=((1, 1.0),), look=2)
    other = StudyLine(name="b", points=((1, 1.0),))
    alone = plot(msgspec.structs.replace(FIGURE, lines=(one,)))
    second = plot(msgspec.structs.replace(FIGURE, lines=(other, one)))
    assert COLOURS[2] in alone
    assert COLOURS[2] in second
    assert COLOURS[0] in second
    assert COLOURS[0] not in alone


def test_a_gap_breaks_the_line_and_marks_show_values() -> None:
    line = StudyLine(name="a", points=((1, 1.0), (2, None), (4, 2.0)))
    drawing = plot(msgspec.structs.replace(FIGURE, lines=(line,)))
    assert drawing.count("<title>") == 2
    assert "a, 4: 2.00" in drawing
    first = re.search(r'<path d="([^"]*)" stroke="[^"]*" class="series"/>', drawing)
    assert first is not None
    assert (first[1].count("M"), first[1].count("L")) == (2, 0)


def test_a_study_reads_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with pytest.raises(StudyError, match="no such file"):
        read_study(path)
    path.write_bytes(msgspec.json.encode(STUDY))
    assert read_study(path) == STUDY
    path.write_text('{"title": 3}')
    with pytest.raises(StudyError, match="not a study: Expected `str`"):
        read_study(path)
