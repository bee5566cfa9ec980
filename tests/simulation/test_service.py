"""Load counters and the monitor: the figures of every window, averages or none."""

from __future__ import annotations

from shoal.broker.effects import MeasuredDelays
from shoal.overlays.trace_rows import LoadRow
from shoal.simulation.service import Meter, ServiceCosts, ServiceMonitor

COSTS = ServiceCosts(processing_us=10, matching_us=100, transmission_us=3, client_transmission_us=7)


def meter_of() -> Meter:
    return Meter("B1", COSTS, 1_000)


def test_a_window_is_closed_by_the_next_event() -> None:
    meter = meter_of()
    meter.control_in += 2
    meter.roll(999)
    assert meter.rows == []
    meter.notified += 1
    meter.worked_us += 7
    meter.roll(1_000)
    assert meter.rows == [LoadRow("B1", 0, 2, 1, 2, 1, 27, 0, 20)]
    assert meter.window_end_us == 2_000
    meter.control_in += 1
    meter.roll(2_000)
    assert meter.rows[1:] == [LoadRow("B1", 1_000, 1, 0, 1, 0, 10, 0, 10)]


def test_input_load_counts_messages_and_publications() -> None:
    meter = meter_of()
    meter.ones_in, meter.carriers_in, meter.carried_in = 1, 1, 4
    meter.control_in, meter.searched_us = 1, 4
    meter.roll(1_000)
    assert meter.rows == [LoadRow("B1", 0, 6, 0, 1, 0, 3 * 10 + 5 * 100 + 4, 0, 10)]


def test_messages_without_a_link_are_counted_without_load() -> None:
    meter = meter_of()
    meter.publications_out, meter.control_out, meter.unsent = 4, 2, 1
    meter.delivered, meter.notified = 3, 1
    meter.roll(1_000)
    assert meter.rows == [LoadRow("B1", 0, 0, 10, 0, 3, 0, 5 * 3 + 3 * 7, delivered=3)]


def test_windows_without_work_have_no_row() -> None:
    meter = meter_of()
    meter.roll(5_500)
    assert (meter.rows, meter.window_end_us) == ([], 6_000)
    meter.control_in += 1
    meter.roll(9_000)
    assert [row.window_start_us for row in meter.rows] == [5_000]


def test_the_monitor_averages_since_its_last_report() -> None:
    meter = meter_of()
    meter.ones_in = meter.carriers_in = meter.carried_in = meter.delivered = (
        9  # before there was a monitor
    )
    monitor = ServiceMonitor(meter)
    meter.ones_in += 3
    meter.carriers_in += 1
    meter.carried_in += 1
    meter.searched_us += 3
    meter.delivered += 3
    monitor.input_queue_us, monitor.client_output_us = 10, 10
    assert monitor.report({"B2": 5}) == MeasuredDelays(2, 110, {"B2": 5}, 3, served_us=110)
    assert monitor.report({}) == MeasuredDelays(None, None, {}, None)
    meter.control_in += 4  # 40 µs
    meter.worked_us += 4_000  # beside the input, on other cores
    assert monitor.report({}, 400) == MeasuredDelays(None, None, {}, None, busy=0.1)
    meter.delivered += 20  # 140 µs of output to clients, more than of input
    meter.control_in += 4
    assert monitor.report({}, 280).busy == 0.5
    meter.control_in += 99
    assert monitor.report({}, 280).busy == 1.0


def test_control_messages_cost_by_their_size() -> None:
    meter = meter_of()
    meter.control_in, meter.control_out = 2, 2
    meter.sized_in_us, meter.sized_out_us = -15, 4
    meter.roll(1_000)
    assert meter.rows == [LoadRow("B1", 0, 2, 2, 2, 2, 2 * 10 - 15, 2 * 3 + 4, 5)]
