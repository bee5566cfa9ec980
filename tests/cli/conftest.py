"""Commands run in this process; their changes of its state are undone."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from shoal.runtime.operations.logs import JsonLines


@pytest.fixture(autouse=True)
def logging_put_back() -> Iterator[None]:
    """`shoal serve` sends a process's log to its standard error; that ends with the test."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in root.handlers[:]:
        if isinstance(handler.formatter, JsonLines):
            root.removeHandler(handler)
