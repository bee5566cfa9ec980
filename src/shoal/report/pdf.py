"""Drawings as PDF, from the SVG that the pages show; this needs svglib (extra `figures`).

The same drawing makes the same bytes. Text is set in Helvetica, which every reader has.

>>> from shoal.report.plots import plot
>>> from shoal.report.study import Figure, StudyLine
>>> drawing = plot(Figure(id="5a", title="", caption="", x_label="X", y_label="rate",
...                lines=(StudyLine(name="baseline", points=((1, 2.0), (4, 3.0))),)))
>>> pdf_of(drawing)[:5] if can_draw() else b"%PDF-"
b'%PDF-'
"""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path


def can_draw() -> bool:
    """Whether svglib is installed."""
    return importlib.util.find_spec("svglib") is not None


def pdf_of(svg: str) -> bytes:
    """One page, as large as the drawing.

    ImportError without svglib; ValueError if the text is no SVG.
    """
    from reportlab.graphics import (  # type: ignore[import-untyped]  # reportlab ships no types
        renderPDF,
    )
    from svglib.svglib import svg2rlg

    drawing = svg2rlg(io.BytesIO(svg.encode()))
    if drawing is None:
        raise ValueError("no drawing in this SVG")
    found = io.BytesIO()
    renderPDF.drawToFile(drawing, found, invariant=1)
    return found.getvalue()


def write_pdfs(folder: Path) -> int:
    """Write each SVG file of a folder as PDF beside it; return how many: none without svglib.

    Former PDF files go in any case.
    """
    for old in folder.glob("*.pdf"):
        old.unlink()
    if not can_draw():
        return 0
    drawings = sorted(folder.glob("*.svg"))
    for path in drawings:
        path.with_suffix(".pdf").write_bytes(pdf_of(path.read_text(encoding="utf-8")))
    return len(drawings)
