"""The line of a spinner is redrawn with the elapsed time."""

from __future__ import annotations

import io
import itertools
import re
import time

import pytest
from rich.console import Console

from shoal.cli.commands.simulate import _VirtualTime
from shoal.cli.support import spark, still, waiting
from shoal.cli.support.spark import parts_done
from shoal.cli.support.steps import CommandSteps
from shoal.pipeline.progress import StageTasks


def test_the_seconds_go_on_where_what_is_done_changes() -> None:
    clock_s = [100.0]
    line = waiting.WaitDisplay("starting Spark", 44_000_000, lambda: clock_s[0])
    clock_s[0] = 109.5
    line.update("reading stations.toml")
    assert str(line.__rich__()) == "reading stations.toml, 44 MB of input, 9 s"
    clock_s[0] = 484
    assert str(line.__rich__()) == "reading stations.toml, 44 MB of input, 6 min 24 s"


def test_a_name_with_brackets_is_no_markup_and_little_input_has_no_size() -> None:
    assert str(waiting.WaitDisplay("reading [a].toml", 900, lambda: 0).__rich__()) == (
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


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told every 20 ms, not every half minute."""
    monkeypatch.setattr(still, "EVERY_S", 0.02)


def wait_for(capsys: pytest.CaptureFixture[str], said: str) -> str:
    """The first whole line on stderr with `said` in it."""
    text = ""
    for _ in range(1_000):
        text += capsys.readouterr().err
        for line in text.splitlines(keepends=True):
            if said in line and line.endswith("\n"):
                return line.rstrip("\n")
        time.sleep(0.01)
    raise AssertionError(f"{said!r} was not told: {text!r}")


@pytest.mark.usefixtures("hurried")
def test_without_a_terminal_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with spark.waiting("comparing deliveries", 30_000_000) as line:
        assert wait_for(capsys, "comparing") == ("shoal: comparing deliveries, 30 MB of input, 0 s")
        line.update("writing")
        line.follow(lambda: "step 2: 9 of 16 parts")
        assert wait_for(capsys, "9 of").startswith(
            "shoal: writing, 30 MB of input, step 2: 9 of 16 parts, "
        )
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""  # what is done is not told any more


@pytest.mark.usefixtures("hurried")
def test_steps_and_runs_say_without_a_terminal_how_far_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with CommandSteps() as all_steps, all_steps.step("running", bars=["tree", "grape"]) as step:
        step.show_share(1, 0.5)
        assert re.fullmatch(
            r"shoal: running, tree 0 %, grape 50 %, \d+ s", wait_for(capsys, "grape 50 %")
        )
    with _VirtualTime("stations", 5_000_000) as progress:
        progress(30_000_000, 300_000_000, 0)
        assert wait_for(capsys, "30 of").startswith(
            "shoal: stations, 30 of 300 s virtual time, 0 s"
        )


def test_spark_says_how_far_a_step_is_and_how_long_it_will_take() -> None:
    done = itertools.count()
    now_s = iter([0.0, 0.5, 2.0, 4.0, 10.0])
    ask = parts_done(lambda: [StageTasks(3, next(done), 16)], lambda: next(now_s))
    assert [ask() for _ in range(5)] == [
        "step 4: 0 of 16 parts",
        "step 4: 0 of 16 parts",
        "step 4: 1 of 16 parts",
        "step 4: 2 of 16 parts, some 28 s more",
        "step 4: 3 of 16 parts, some 43 s more",
    ]
