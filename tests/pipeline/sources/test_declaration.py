"""Source declarations: errors come before data are read, or Spark starts."""

from __future__ import annotations

import pytest

from shoal.pipeline.sources.declaration import MappingError, decode_mapping

TEXT = 'publisher = ["a"]\ntime = { column = "at", format = %s }\n[columns]\na = "string"\n'


@pytest.mark.parametrize(
    ("format", "token"),
    [
        ('"%Y-%m-%d"', "%Y"),
        ('"%m/%d"', "%m"),
        ('"YYYY-MM-DD"', "Y"),
        ('"yyyy-MM-ddTHH:mm"', "T"),
        ('"ISO8601"', "I"),
        ('"epoch"', "e"),
        ('["iso8601", "%d.%m.%Y"]', "%d"),
    ],
)
def test_a_format_as_others_write_it_is_named(format: str, token: str) -> None:
    with pytest.raises(MappingError, match=rf"^m\.toml: time\.format: .*: {token} means nothing"):
        decode_mapping(TEXT % format, "m.toml")


@pytest.mark.parametrize(
    "format",
    [
        '"yyyy-MM-dd HH:mm"',
        "\"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\"",
        '"dd MMM yyyy, hh:mm a"',
        '"yyyy-MM-dd[ HH:mm[:ss]][ VV]"',
        '"dd. MM. yyyy 100 %"',
        '["iso8601", "epoch_us", "D yyyy"]',
    ],
)
def test_a_format_that_spark_knows_is_taken(format: str) -> None:
    assert decode_mapping(TEXT % format, "m.toml").time.formats
