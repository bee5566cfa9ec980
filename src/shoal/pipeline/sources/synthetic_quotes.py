"""Synthetic daily stock quotes, for experiments without a file of real ones.

Each stock's log price is a random walk with clustered volatility (calm and wild weeks take turns),
and volume rises with the day's range: the properties that make a quote's attributes depend on each
other and on time. The same seed gives the same quotes, on every machine.

>>> quotes = synthetic_quotes(stocks=2, days=2, seed=1)
>>> quotes["symbol"], quotes["date"][:2]
(['SYN000', 'SYN000', 'SYN001', 'SYN001'], ['1990-01-01', '1990-01-02'])
>>> all(low <= close <= high for low, close, high in zip(quotes["low"], quotes["close"],
...                                                      quotes["high"]))
True
"""

from __future__ import annotations

import math
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

FIRST_DAY = date(1990, 1, 1)
# Per day, of the log price: a calm stock's, and how strongly yesterday's move raises it.
CALM_VOLATILITY, PERSISTENCE, REACTION = 0.02, 0.85, 0.12
CENT = 0.01


def synthetic_quotes(*, stocks: int, days: int, seed: int) -> dict[str, list[Any]]:
    """Columns of quotes: symbol, date, open, high, low, close, volume; by stock, then day."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("symbol", "date", "open", "high", "low", "close", "volume")
    }
    for stock in range(stocks):
        _add_stock(columns, f"SYN{stock:03}", days, Random(f"{seed}/quotes/{stock}"))
    return columns


def _add_stock(columns: dict[str, list[Any]], symbol: str, days: int, chance: Random) -> None:
    price = 10 * math.exp(chance.gauss(1, 0.7))
    usual_volume = math.exp(chance.gauss(13, 1))
    variance = CALM_VOLATILITY**2
    for day in range(days):
        move = chance.gauss(0, math.sqrt(variance))
        variance = (
            (1 - PERSISTENCE - REACTION) * CALM_VOLATILITY**2
            + PERSISTENCE * variance
            + REACTION * move**2
        )
        opening = price * math.exp(chance.gauss(0, 0.3 * math.sqrt(variance)))
        price = max(opening * math.exp(move), 10 * CENT)
        reach = math.sqrt(variance)
        high = max(opening, price) * math.exp(abs(chance.gauss(0, 0.4 * reach)))
        low = min(opening, price) * math.exp(-abs(chance.gauss(0, 0.4 * reach)))
        volume = usual_volume * math.exp(chance.gauss(12 * abs(move), 0.5))
        columns["symbol"].append(symbol)
        columns["date"].append((FIRST_DAY + timedelta(day)).isoformat())
        for name, value in (("open", opening), ("high", high), ("low", low), ("close", price)):
            columns[name].append(round(value, 2))
        columns["volume"].append(100 * round(volume / 100))


def write_synthetic_quotes(path: Path, *, stocks: int, days: int, seed: int) -> None:
    """The quotes as a Parquet file that `ingest_quotes` reads."""
    pq.write_table(pa.table(synthetic_quotes(stocks=stocks, days=days, seed=seed)), path)
