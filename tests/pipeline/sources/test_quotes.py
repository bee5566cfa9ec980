"""Quotes in every form become the same publications; the paper's printed one among them."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.publications import (
    numbered_rows,
    parse_rows,
    publications,
    rejects,
)
from shoal.pipeline.sources.quotes import MAPPING, open_quotes
from tests.examples import at_length

# Relocation paper, section 5.1: "A typical publication looks like this".
YHOO = {
    "class": "STOCK",
    "symbol": "YHOO",
    "open": 18.37,
    "high": 18.62,
    "low": 18.37,
    "close": 18.37,
    "volume": 6200,
    "date": "5-Sep-96",
    "openClose%Diff": 0.0,
    "highLow%Diff": 0.014,
    "closeEqualsLow": "true",
    "closeEqualsHigh": "false",
}
HEADER = "symbol,date,open,high,low,close,volume\n"
CSV = HEADER + "YHOO,1996-09-05,18.37,18.62,18.37,18.37,6200\nZERO,1996-09-05,0,1,0,1,0\n"
PADRES = """\
[class,'STOCK'],[symbol,'YHOO'],[open,18.37],[high,18.62],[low,18.37],[close,18.37],[volume,6200],\
[date,'5-Sep-96'],[openClose%Diff,0.0],[highLow%Diff,0.014],[closeEqualsLow,'true']
[class,'STOCK'],[symbol,'YHOO']
[class,'STOCK',[symbol,'YHOO']
[symbol,'YHOO'],[date,'5-Sep-96'],[volume,'many']
"""


def write_form(spark: SparkSession, form: str, folder: Path) -> Path:
    path = folder / f"quotes.{form}"
    if form == "parquet":
        row = ("YHOO", datetime.date(1996, 9, 5), 18.37, 18.62, 18.37, 18.37, 6200)
        columns = "symbol string, date date, open double, high double, low double, close double"
        spark.createDataFrame([row], f"{columns}, volume int").write.parquet(str(path))
    else:
        path.write_text(CSV if form == "csv" else PADRES)
    return path


def parsed(spark: SparkSession, file: Path) -> DataFrame:
    source = open_quotes([file])
    return numbered_rows(parse_rows(spark, source, MAPPING, "quotes"), source)


@pytest.mark.parametrize("form", ["txt", *at_length(["csv", "parquet"])])
def test_the_printed_publication(spark: SparkSession, tmp_path: Path, form: str) -> None:
    kept = publications(parsed(spark, write_form(spark, form, tmp_path)))
    (yahoo,) = kept.where("publisher = 'YHOO'").collect()
    assert yahoo["attributes"].asDict() == YHOO
    assert list(yahoo["attributes"].asDict()) == list(YHOO)
    at = datetime.datetime(1996, 9, 5, tzinfo=datetime.UTC)
    assert yahoo["time_us"] == at.timestamp() * 1_000_000


def test_a_price_of_zero_leaves_the_ratios_missing(spark: SparkSession, tmp_path: Path) -> None:
    kept = publications(parsed(spark, write_form(spark, "csv", tmp_path)))
    (zero,) = kept.where("publisher = 'ZERO'").select("attributes.*").collect()
    assert (zero["openClose%Diff"], zero["highLow%Diff"]) == (None, None)
    assert (zero["closeEqualsLow"], zero["closeEqualsHigh"]) == ("false", "true")


def test_broken_publications_are_refused_with_their_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_form(spark, "txt", tmp_path)
    rows = rejects(parsed(spark, file)).collect()
    refused = {row["line"]: row["reason"] for row in rows}
    assert refused.keys() == {2, 3, 4}
    assert refused[2] == "time column 'date' is missing"
    assert "column 15" in refused[3]
    assert refused[4] == "column 'volume': 'many' is not an integer of 64 bits"


def test_forms_are_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    files = [write_form(spark, form, tmp_path) for form in ("csv", "txt")]
    with pytest.raises(SourceError, match="cannot be mixed"):
        open_quotes(files)
