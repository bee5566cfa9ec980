"""POP's parameters: the paper's values by default; errors name the bounds."""

from __future__ import annotations

import pytest

from shoal.overlays.publisher_relocation.pop.parameters import PopParameters


def test_the_papers_values_are_the_defaults() -> None:
    parameters = PopParameters()
    assert (parameters.window_publications, parameters.trace_window_us) == (50, 60_000_000)
    assert (parameters.average_weight_percent, parameters.threshold) == (25, 100)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("window_publications", 0),
        ("trace_window_us", 0),
        ("average_weight_percent", 101),
        ("threshold", 0),
        ("least_gain_percent", -1),
        ("answer_timeout_us", 3_600_000_001),
    ],
)
def test_errors_name_values_out_of_bounds(key: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{key}: {value} is not between"):
        PopParameters(**{key: value})
