"""Synthetic quotes: plausible, varied, and the same for the same seed."""

from __future__ import annotations

from shoal.pipeline.sources.synthetic_quotes import synthetic_quotes


def test_every_quote_is_possible() -> None:
    quotes = synthetic_quotes(stocks=3, days=400, seed=2)
    columns = [quotes[name] for name in ("open", "high", "low", "close", "volume")]
    for opening, high, low, close, volume in zip(*columns, strict=True):
        assert 0 < low <= min(opening, close)
        assert max(opening, close) <= high
        assert volume >= 0
    assert {len(values) for values in quotes.values()} == {1_200}
    assert len(set(quotes["date"])) == 400


def test_the_seed_decides() -> None:
    assert synthetic_quotes(stocks=2, days=9, seed=2) == synthetic_quotes(stocks=2, days=9, seed=2)
    assert synthetic_quotes(stocks=2, days=9, seed=2) != synthetic_quotes(stocks=2, days=9, seed=3)
