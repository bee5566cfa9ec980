import re

import pytest

from shoal.cli.support.steps import CommandSteps


def test_a_line_per_finished_step_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with CommandSteps() as steps:
        with steps.step("reading") as step:
            step.result = "3 [rows] of 4"
        with steps.step("running", bars=["one", "two"]) as step:
            step.show_share(1, 0.5)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert re.fullmatch(r" +\d+\.\d s  reading: 3 \[rows\] of 4", lines[0])
    assert re.fullmatch(r" +\d+\.\d s  running", lines[1])
    assert len(lines) == 2


def test_a_failed_step_writes_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), CommandSteps() as steps, steps.step("reading"):
        raise ValueError("broken")
    assert capsys.readouterr().err == ""
