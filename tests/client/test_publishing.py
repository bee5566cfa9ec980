"""An application's publications become packets: attributes of the caller's types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from shoal.client.publishing import make_publish


def published(attributes: Mapping[str, Any]) -> dict[str, str]:
    return dict(make_publish("a", b"", 1, attributes=attributes).properties.user_properties)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (np.float64(41.5), "41.5"),
        (np.float32(1.5), "1.5"),
        (np.int64(41), "41"),
        (np.bool_(True), "true"),
        (np.str_("UA"), "UA"),
    ],
)
def test_numpys_scalars_are_published_as_equal_python_values(given: Any, text: str) -> None:
    assert published({"x": given}) == {"x": text}


def test_none_is_a_missing_attribute() -> None:
    assert published({"x": None, "y": 1}) == {"y": "1"}


@pytest.mark.parametrize("given", [Decimal("4.1"), date(2013, 1, 1), b"UA", [1]])
def test_values_without_an_exact_form_are_named_in_the_error(given: Any) -> None:
    with pytest.raises(TypeError, match=f"'x': {type(given).__name__} is not a value"):
        published({"x": given})
