"""Runs the code cells of a notebook one after another; as in Jupyter, a cell may await."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

import nbformat  # type: ignore[import-untyped]


def run(notebook: Path) -> None:
    """Run all cells; the error of one ends it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(nbformat.read(notebook, as_version=4).cells):
        if cell.cell_type != "code":
            continue
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(cell.source, f"cell {number} of {notebook.name}", "exec", flags)
        found = eval(code, names)
        if inspect.iscoroutine(found):
            asyncio.run(found)
