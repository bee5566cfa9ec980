"""Which modules are searched for examples: of the sources, the tools and the tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector]]:
    """Who has no example in its docstrings is not searched for any: each process would do it."""
    found = yield
    if any(isinstance(each, DoctestModule) for each in found) and b">>>" not in (
        file_path.read_bytes()
    ):
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found
