"""The page of filters: the texts of its tables are read as it says."""

from __future__ import annotations

import re

import pytest

from shoal.language import FilterSyntaxError, parse, parse_value
from tests.docs.blocks import ROOT

_CODE = re.compile(r"``\s(.*?)\s``|`([^`]+)`")


def _texts(heading: str, *, table: int = 0) -> list[str]:
    """The texts in code in the first column of a table below a heading."""
    page = (ROOT / "docs" / "reference" / "filters.md").read_text("utf-8")
    section = page.split(f"{heading}\n", 1)[1]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    firsts = [re.split(r"(?<!\\)\|", line)[1] for line in tables[table].splitlines()[2:]]
    codes = [code for each in firsts for code in _CODE.findall(each)]
    return [(one or other).replace(r"\|", "|") for one, other in codes]


@pytest.mark.parametrize("text", _texts("## Expressions"))
def test_expressions_of_the_page_are_read(text: str) -> None:
    parse_value(text)


@pytest.mark.parametrize("text", [*_texts("## Expressions", table=1), *_texts("### Lists")])
def test_conditions_of_the_page_are_read(text: str) -> None:
    parse(text)


_OTHERS = _texts("## Beside other brokers")


@pytest.mark.parametrize("text", [each for each in _OTHERS if not re.search(r"[?$.\\]", each)])
def test_selectors_of_other_brokers_are_read_unchanged(text: str) -> None:
    parse(text)


@pytest.mark.parametrize("text", _texts("### Errors"))
def test_errors_of_the_page_are_errors(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        parse(text)
