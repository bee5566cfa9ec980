"""The constants of publisher relocation: the paper's defaults, and errors that name the key."""

from __future__ import annotations

import msgspec
import pytest

from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters


def test_defaults_are_the_papers() -> None:
    parameters = GrapeParameters()
    assert (parameters.trace_session_length, parameters.weight) == (100, 100)
    assert parameters.priority is Priority.LOAD


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trace_session_length", 0),
        ("trace_session_length", 65_537),
        ("weight", -1),
        ("weight", 101),
        ("answer_timeout_us", 0),
        ("ping_timeout_us", 3_600_000_001),
    ],
)
def test_values_out_of_bounds_are_errors(key: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{key}: {value} is not between"):
        msgspec.convert({key: value}, GrapeParameters)
