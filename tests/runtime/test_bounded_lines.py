"""Log lines that others can cause are bounded."""

from __future__ import annotations

import logging

import pytest

from shoal.runtime.bounded_lines import BURST, MOST_CHARACTERS, TOLD_S, BoundedLines

LOG = logging.getLogger("tests.bounded_lines")
SECOND_US = 1_000_000


class Clock:
    us = 0

    def now_us(self) -> int:
        return self.us


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [row.__dict__["reason"] for row in caplog.records if row.name == LOG.name]


def test_a_repeated_line_is_written_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    lines = BoundedLines(LOG, "refused", clock.now_us)
    for port in range(100):
        lines.warn(f"10.0.0.1:{port}", "no hello")
    assert reasons(caplog) == ["no hello"]
    clock.us = int(TOLD_S) * SECOND_US
    lines.warn("10.0.0.1:1", "no hello")
    assert reasons(caplog) == ["no hello"] * 2


def test_varying_lines_of_one_source_are_bounded_separately(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    lines = BoundedLines(LOG, "refused", clock.now_us)
    for number in range(1_000):
        lines.warn(f"10.0.0.1:{number}", f"broker {number} is unknown")
    assert len(reasons(caplog)) == BURST
    lines.warn("10.0.0.2:1", "no hello")
    assert reasons(caplog)[-1] == "no hello"
    clock.us = SECOND_US
    lines.warn("10.0.0.1:1", "x" * 10_000)
    last = caplog.records[-1].__dict__
    assert len(last["reason"]) < MOST_CHARACTERS + 10
    assert last["left_out"] == 1_000 - BURST
