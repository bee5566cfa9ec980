"""Runs `shoal plan`."""

from __future__ import annotations

import pytest

from shoal.cli import main as cli


def plan(*words: object) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["plan", *map(str, words)])
    return int(caught.value.code or 0)


def problem_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What is wrong; nothing else is printed."""
    assert plan(*words) == 2
    printed = capsys.readouterr()
    assert not printed.out
    return " ".join(printed.err.split())
