"""How busy a live broker is, and what a publication costs it."""

from __future__ import annotations

import time

import pytest

from shoal.runtime.driving import busy
from shoal.runtime.driving.busy import BusyMeter
from shoal.runtime.driving.monitor import Monitor


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("has_schedule", [True, False])
def test_work_counts_and_sleep_does_not(
    has_schedule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_schedule:
        monkeypatch.setattr(busy, "_SCHEDULED", busy._SCHEDULED / "nothing")
    meter = BusyMeter()
    work(0.1)
    working = meter.read()
    time.sleep(0.3)
    sleeping = meter.read()
    assert 0 <= sleeping < working <= 1.0


def test_a_publications_work_has_all_of_the_brokers_but_what_an_idle_one_has() -> None:
    monitor = Monitor()
    monitor.handled(publications=100, waited_us=0, busy_us=10_000)
    report = monitor.report({}, busy=0.45, passed_us=1_000_000)
    assert (report.busy, report.served_us) == (0.45, 4_000)
    monitor.handled(publications=1, waited_us=0, busy_us=100)
    assert monitor.report({}, busy=0.02, passed_us=1_000_000).served_us == 100
    assert monitor.report({}, busy=0.02, passed_us=1_000_000).served_us is None
    monitor.handled(publications=1, waited_us=0, busy_us=100)
    assert monitor.report({}).busy is None


def test_the_work_of_a_busy_broker_is_not_that_of_one_publication() -> None:
    """Else a broker that starts with one has room for none, and measures nothing again."""
    monitor = Monitor()
    monitor.handled(publications=1, waited_us=0, busy_us=100)
    assert monitor.report({}, busy=1.0, passed_us=1_000_000).served_us == 100
