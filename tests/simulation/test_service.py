"""Load counters and the monitor: every window's figures, averages or nothing."""

from __future__ import annotations

from shoal.broker.effects import Measured
from shoal.overlays.trace_rows import LoadRow
from shoal.simulation.service import Meter, Monitor


def test_a_window_is_closed_by_the_first_thing_after_it() -> None:
    meter = Meter("B1", 1_000)
    meter.messages_in += 2
    meter.roll(999)
    assert meter.rows == []
    meter.control_out += 1
    meter.messages_out += 1
    meter.input_busy_us += 7
    meter.roll(1_000)
    assert meter.rows == [LoadRow("B1", 0, 2, 1, 0, 1, 7, 0)]
    assert (meter.messages_in, meter.input_busy_us, meter.window_end_us) == (0, 0, 2_000)


def test_windows_without_work_have_no_row() -> None:
    meter = Meter("B1", 1_000)
    meter.roll(5_500)
    assert (meter.rows, meter.window_end_us) == ([], 6_000)
    meter.messages_in += 1
    meter.roll(9_000)
    assert [row.window_start_us for row in meter.rows] == [5_000]


def test_the_monitor_averages_since_its_last_report() -> None:
    monitor = Monitor()
    monitor.handled, monitor.input_queue_us, monitor.matching_us = 4, 10, 403
    monitor.delivered, monitor.client_output_us = 3, 10
    assert monitor.report({"B2": 5}) == Measured(2, 100, {"B2": 5}, 3)
    assert monitor.report({}) == Measured(None, None, {}, None)
