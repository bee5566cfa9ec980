"""Late subscribers get each acknowledged publication once, while brokers are killed."""

from __future__ import annotations

import pytest

from tests.seeds.chosen import chosen
from tests.seeds.pasts.random_pasts import play


@pytest.mark.parametrize("seed", chosen(range(2)))
def test_late_subscribers_get_the_past_once(seed: int) -> None:
    play(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 200))
def test_many_late_subscribers_get_the_past_once(seed: int) -> None:
    play(seed)
