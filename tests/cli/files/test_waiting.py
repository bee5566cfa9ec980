"""The line of a spinner: drawn again, it says how long it has been."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shoal.cli.support import spark, waiting


def test_the_seconds_go_on_where_what_is_done_changes() -> None:
    clock_s = [100.0]
    line = waiting.Waiting("starting Spark", 44_000_000, lambda: clock_s[0])
    clock_s[0] = 109.5
    line.update("reading stations.toml")
    assert str(line.__rich__()) == "reading stations.toml, 44 MB of input, 9 s"
    clock_s[0] = 484
    assert str(line.__rich__()) == "reading stations.toml, 44 MB of input, 6 min 24 s"


def test_a_name_with_brackets_is_no_markup_and_little_input_has_no_size() -> None:
    assert str(waiting.Waiting("reading [a].toml", 900, lambda: 0).__rich__()) == (
        "reading [a].toml, 0 s"
    )


def test_a_terminal_sees_the_line_and_a_file_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (True, False):
        out = io.StringIO()

        def console(*, stderr: bool, out: io.StringIO = out, tty: bool = is_terminal) -> Console:
            assert stderr
            return Console(file=out, force_terminal=tty, width=80, _environ={"TERM": "xterm"})

        monkeypatch.setattr(waiting, "Console", console)
        with spark.waiting("comparing deliveries", 30_000_000):
            pass
        assert ("comparing deliveries, 30 MB of input, 0 s" in out.getvalue()) is is_terminal
