from __future__ import annotations

import pytest

from shoal.mqtt.limits import _RANGES, Limits


@pytest.mark.parametrize(("name", "low", "high"), _RANGES)
def test_limits_have_limits(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(Limits(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{name} is {value}; it must be between {low}"):
            Limits(**{name: value})


def test_every_number_has_a_range() -> None:
    named = {name for name, _, _ in _RANGES}
    fields = {name for name in Limits.__struct_fields__ if type(getattr(Limits(), name)) is int}
    assert fields == named
